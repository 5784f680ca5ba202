"""Streams that discard new messages: limits counted on staged state (wire.md, Publishing)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.engine.publishing import answers, ask, code, flush, made, publish

from jetspark.api.enums import Discard
from jetspark.engine.requests.dispatch import handle
from jetspark.store.log.staged import LATE_FROM

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

MESSAGES = (10077, "maximum messages exceeded")
BYTES = (10077, "maximum bytes exceeded")
PER_SUBJECT = (10077, "maximum messages per subject exceeded")


def limited(bench: Bench, **settings: Any) -> Stream:
    return made(bench, discard=Discard.NEW, **settings)


def test_messages_beyond_the_limit_are_refused(bench: Bench) -> None:
    stream = limited(bench, max_msgs=2)

    assert [ask(bench, stream) for _ in range(3)] == [1, 2, MESSAGES]


def test_staged_messages_count_and_the_refusal_waits_for_them(bench: Bench) -> None:
    stream = limited(bench, max_msgs=2)
    publish(bench, stream)
    bench.submit()
    publish(bench, stream)
    publish(bench, stream)
    assert answers(bench) == []
    bench.land()
    assert answers(bench) == [1]

    flush(bench)
    assert answers(bench) == [2, MESSAGES]


def test_what_a_failed_group_took_is_free_again(bench: Bench) -> None:
    stream = limited(bench, max_msgs=2)
    publish(bench, stream)
    bench.submit()
    publish(bench, stream)
    bench.fail(OSError(errno.ENOSPC, "No space left on device"))
    assert [code(answer) for answer in answers(bench)] == [10023, 10023]

    assert [ask(bench, stream) for _ in range(3)] == [3, 4, MESSAGES]


def test_bytes_are_counted_as_nats_server_does(bench: Bench) -> None:
    """wire.md, Streams: 30 + subject + payload; 34 bytes for one byte on ``s.1``."""
    stream = limited(bench, max_bytes=68)

    assert [ask(bench, stream) for _ in range(3)] == [1, 2, BYTES]
    assert stream.log.index.bytes == 68


def test_a_full_subject_refuses_if_configured(bench: Bench) -> None:
    stream = limited(bench, max_msgs_per_subject=1, discard_new_per_subject=True)
    publish(bench, stream, b"s.1")
    publish(bench, stream, b"s.1")
    publish(bench, stream, b"s.2")
    flush(bench)

    assert answers(bench) == [1, 2, PER_SUBJECT]
    assert ask(bench, stream, b"s.2") == PER_SUBJECT


def test_a_replacement_within_a_subject_needs_no_room(bench: Bench) -> None:
    """Discard new with a per-subject limit still drops the subject's oldest."""
    stream = limited(bench, max_msgs=2, max_msgs_per_subject=1)
    ask(bench, stream, b"s.1")

    publish(bench, stream, b"s.1")
    publish(bench, stream, b"s.2")
    publish(bench, stream, b"s.3")
    flush(bench)

    assert answers(bench) == [2, 3, MESSAGES]


def test_a_lower_limit_takes_nothing_out_of_a_stream_that_discards_new(bench: Bench) -> None:
    config = b'{"name":"S","subjects":["s.>"],"discard":"new","max_msgs":%d}'
    bench.request(b"STREAM.CREATE.S", config % 10)
    for number in range(8):
        bench.store(bench.engine.streams["S"], b"s.a", b"%d" % number)

    bench.request(b"STREAM.UPDATE.S", config % 5)
    bench.restart()

    assert bench.engine.streams["S"].log.index.messages == 8


def test_what_a_rollup_removes_is_not_subtracted_twice(bench: Bench) -> None:
    """Messages that replace others of their subject were subtracted, and removed after that."""
    stream = limited(bench, max_msgs=3, max_msgs_per_subject=1, allow_rollup_hdrs=True)
    for _ in range(50):
        publish(bench, stream, b"s.1")
    publish(bench, stream, b"s.1", rollup="all")
    for n in range(50):
        publish(bench, stream, b"s.more.%d" % n)
    flush(bench)

    assert answers(bench)[50:] == [51, 52, 53, *[MESSAGES] * 48]
    assert stream.log.index.messages == 3


@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize(
    ("verb", "body"),
    [
        (b"STREAM.PURGE.S", b"{}"),
        (b"STREAM.PURGE.S", b'{"filter":"s.1"}'),
        (b"STREAM.PURGE.S", b'{"filter":"s.*","keep":1}'),
        (b"STREAM.MSG.DELETE.S", b'{"seq":2}'),
    ],
)
def test_a_subject_has_room_for_what_a_staged_removal_removes(
    bench: Bench, verb: bytes, body: bytes, *, in_flight: bool
) -> None:
    stream = limited(bench, max_msgs_per_subject=2, discard_new_per_subject=True)
    assert [ask(bench, stream, b"s.1") for _ in range(3)] == [1, 2, PER_SUBJECT]
    handle(bench.engine, verb, body, b"", bench.now, bench.outbox)
    if in_flight:
        bench.submit()
    publish(bench, stream, b"s.1")
    publish(bench, stream, b"s.1")
    if in_flight:
        bench.land()
    publish(bench, stream, b"s.1")
    flush(bench)

    room = 1 if body[1:] in {b'"filter":"s.*","keep":1}', b'"seq":2}'} else 2
    assert answers(bench) == [3, 4, PER_SUBJECT][:room] + [PER_SUBJECT] * (3 - room)
    assert [ask(bench, stream, b"s.1"), ask(bench, stream, b"s.2")] == [PER_SUBJECT, 3 + room]


def test_a_rollup_of_everything_makes_room_on_other_subjects(bench: Bench) -> None:
    stream = limited(
        bench, max_msgs_per_subject=1, discard_new_per_subject=True, allow_rollup_hdrs=True
    )
    assert [ask(bench, stream, b"s.1"), ask(bench, stream, b"s.1")] == [1, PER_SUBJECT]
    publish(bench, stream, b"s.2", rollup="all")
    publish(bench, stream, b"s.1")
    publish(bench, stream, b"s.1")
    flush(bench)

    assert answers(bench) == [2, 3, PER_SUBJECT]


def test_subjects_that_are_looked_up_together_count(bench: Bench) -> None:
    """A stream with very many subjects, after a removal: it counts what is left."""
    stream = limited(bench, max_msgs_per_subject=1, discard_new_per_subject=True)
    for n in range(LATE_FROM):
        stream.log.staged.add_message(b"s.%d" % n, 0, b"x\r\n", bench.now)
    bench.engine.mark_dirty(stream)
    flush(bench)
    stream.log.staged.delete(1)
    for subject in (b"s.0", b"s.other", b"s.third"):
        publish(bench, stream, subject)
        flush(bench)
    answers(bench)

    for _ in range(2):
        publish(bench, stream, b"s.new")
    flush(bench)
    assert PER_SUBJECT in answers(bench)
