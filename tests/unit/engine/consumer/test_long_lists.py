"""A consumer that begins with the last messages of very many subjects, after a restart."""

from __future__ import annotations

import json

import pytest
from tests.unit.engine.conftest import Bench

from jetspark.engine.consumer.cursor import SUBJECTS_COUNTED, Packer, unpacked
from jetspark.engine.requests.dispatch import handle

SUBJECTS = int(SUBJECTS_COUNTED) + 100
CREATE = {
    "stream_name": "S",
    "config": {
        "name": "C",
        "durable_name": "C",
        "ack_policy": "none",
        "deliver_policy": "last_per_subject",
        "filter_subject": "s.>",
    },
}


def left(bench: Bench) -> list[int]:
    found: list[int] = bench.engine.streams["S"].consumers["C"].state.cursor.listed_left()
    return found


def test_what_is_left_of_a_long_list_is_known_after_a_restart(bench: Bench) -> None:
    stream = bench.create()
    for number in range(SUBJECTS + 50):
        stream.log.staged.add_message(b"s.%d" % (number % SUBJECTS), 0, b"x\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    bench.submit()
    bench.land()
    body = json.dumps(CREATE).encode()
    handle(bench.engine, b"CONSUMER.CREATE.S.C", body, b"r", bench.now, bench.outbox)
    while not bench.outbox.now:
        bench.engine.operations.handle_ready(bench.now, bench.outbox)
        bench.submit()
        if bench.on_the_way:
            bench.land()
    listed = [*range(51, SUBJECTS + 51)]
    assert json.loads(bench.sent()[0][4])["num_pending"] == SUBJECTS
    assert left(bench) == listed

    bench.restart()
    assert left(bench) == listed
    stream = bench.engine.streams["S"]
    consumer = stream.consumers["C"]
    for _ in range(70):
        consumer.state.cursor.advance(consumer.state.cursor.peek())
    whole, body = consumer.journal.next_record(bench.now)
    assert whole
    stream.log.staged.set_consumer_state(consumer.id, whole, body)
    bench.engine.mark_dirty(stream)
    bench.submit()
    bench.land()
    bench.restart()

    assert left(bench) == listed[70:]


@pytest.mark.parametrize(
    "sequences", [[1], [127, 128, 300], [5, 2**20, 2**40, 2**62], list(range(1, 1000, 3))]
)
def test_sequences_are_read_as_they_were_written(sequences: list[int]) -> None:
    packer = Packer()
    for seq in sequences:
        packer.add(seq)

    assert list(unpacked(packer.writer.getvalue())) == sequences


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\xff" * 20])
def test_other_bytes_are_no_list(data: bytes) -> None:
    with pytest.raises(ValueError, match="a list of sequences"):
        unpacked(data)
