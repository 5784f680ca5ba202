"""Large messages, which are put into their group where that is written."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.engine.conftest import Bench

from jetspark.engine.stream.stream import Stream
from jetspark.frame import Frame
from jetspark.store.format.record import LARGE, body_end, headers_end, subject_end

HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
SIZE = int(LARGE) + 1000


def publish_apart(bench: Bench, stream: Stream, headers: bytes, payload: bytes) -> None:
    """A message whose payload came in a piece of its own."""
    line = b"s.a"
    end = len(line) + len(headers)
    frame = Frame(line + headers, 0, 3, 3, 3, 3, end, end + len(payload))
    frame.body = payload
    assert stream.publish(b"s.a", frame, bench.now, bench.outbox)
    bench.engine.mark_dirty(stream)


def stored(stream: Stream) -> list[tuple[bytes, bytes]]:
    """Headers and payload of all messages."""
    found = []
    for seq in range(int(stream.log.index.first_seq), int(stream.log.index.last_seq) + 1):
        data, at = stream.log.reader.locate(seq)
        first, middle, end = subject_end(data, at), headers_end(data, at), body_end(data, at)
        found.append((data[first:middle], data[middle:end]))
    return found


def fill(bench: Bench, stream: Stream) -> list[tuple[bytes, bytes]]:
    """Small and large ones, with headers and without; what they are."""
    bench.publish(stream, b"s.a", b"small")
    bench.publish(stream, b"s.a", b"1" * SIZE)
    publish_apart(bench, stream, b"", b"2" * SIZE)
    bench.publish(stream, b"s.a", b"between", headers=HEADERS)
    publish_apart(bench, stream, HEADERS, b"3" * SIZE)
    bench.publish(stream, b"s.a", b"4" * SIZE, headers=HEADERS)
    bench.publish(stream, b"s.a", b"")
    return [
        (b"", b"small"), (b"", b"1" * SIZE), (b"", b"2" * SIZE), (HEADERS, b"between"),
        (HEADERS, b"3" * SIZE), (HEADERS, b"4" * SIZE), (b"", b""),
    ]  # fmt: skip


def test_a_group_of_small_and_large_messages_is_read_as_it_came(bench: Bench) -> None:
    stream = bench.create()
    expected = fill(bench, stream)
    bench.submit()
    bench.land()

    assert stored(stream) == expected
    stream.log.reader.close()
    assert stored(stream) == expected
    bench.restart()
    assert stored(bench.engine.streams["S"]) == expected


def test_large_messages_that_the_disk_refused_never_were(bench: Bench) -> None:
    stream = bench.create()
    fill(bench, stream)
    bench.submit()
    fill(bench, stream)
    bench.fail(OSError(errno.ENOSPC, "no space"))
    bench.wait(2)
    assert stream.log.index.messages == 0
    bench.publish(stream, b"s.a", b"5" * SIZE)
    bench.submit()
    bench.land()

    assert stored(stream) == [(b"", b"5" * SIZE)]
    bench.restart()
    assert stored(bench.engine.streams["S"]) == [(b"", b"5" * SIZE)]


@pytest.mark.parametrize("count", [1, 3])
def test_decisions_see_large_messages_that_are_staged(bench: Bench, count: int) -> None:
    """A deletion among them, the last one of a subject, an expected sequence."""
    stream = bench.create()
    for _ in range(count):
        publish_apart(bench, stream, b"", b"x" * SIZE)
    bench.submit()
    publish_apart(bench, stream, b"", b"y" * SIZE)
    assert stream.log.staged.delete(count + 1)
    wrong = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 9\r\n\r\n"
    bench.publish(stream, b"s.a", b"", b"r", wrong)
    right = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % count
    bench.publish(stream, b"s.a", b"z", b"r", right)
    bench.land()
    bench.submit()
    bench.land()

    assert [row for _, row in stored_left(stream)] == [b"x" * SIZE] * count + [b"z"]
    errors = [reply for reply in bench.replies() if b"wrong last sequence: %d" % count in reply]
    assert len(errors) == 1


def stored_left(stream: Stream) -> list[tuple[int, bytes]]:
    found = []
    seq = int(stream.log.index.next_seq(1, b""))
    while seq:
        data, at = stream.log.reader.locate(seq)
        found.append((seq, data[headers_end(data, at) : body_end(data, at)]))
        seq = int(stream.log.index.next_seq(seq + 1, b""))
    return found


def test_a_large_message_in_an_atomic_batch_is_taken_back_with_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store")
    stream = bench.create()
    bench.publish(stream, b"s.a", b"1" * SIZE)
    staged = stream.log.staged
    staged.begin_batch()
    staged.add_message(b"s.a", 0, b"", bench.now, b"2" * SIZE)
    staged.abort_batch()
    staged.begin_batch()
    staged.add_message(b"s.a", 0, b"", bench.now, b"3" * SIZE)
    staged.end_batch()
    bench.submit()
    bench.land()

    assert stored(stream) == [(b"", b"1" * SIZE), (b"", b"3" * SIZE)]
    bench.restart()
    assert stored(bench.engine.streams["S"]) == [(b"", b"1" * SIZE), (b"", b"3" * SIZE)]
    bench.close()
