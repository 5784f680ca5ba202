"""The gate of read-after-write: bounded, in order, and cheap for streams no one waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jetspark.api.message import MsgGetRequest
from jetspark.engine.direct.gate import Gate, HeldReads
from jetspark.engine.direct.gets import DirectGets
from jetspark.engine.requests.dispatch import handle

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

WAIT = 500


@pytest.fixture
def streams(bench: Bench) -> tuple[Stream, Stream]:
    return bench.create("A", "a"), bench.create("B", "b")


def wanting(sequence: int) -> MsgGetRequest:
    return MsgGetRequest(seq=1, min_last_seq=sequence)


def reply_of(gate: Gate, stream: Stream) -> list[bytes]:
    return [held.reply for held in gate.released(stream)]


def test_only_the_reads_that_are_met_continue(
    bench: Bench, streams: tuple[Stream, Stream]
) -> None:
    a, b = streams
    gate = Gate(WAIT, HeldReads(10))
    for n, (stream, sequence) in enumerate([(a, 3), (a, 1), (b, 1), (a, 2)]):
        assert gate.hold(stream, wanting(sequence), b"%d" % n, n, direct=True)

    bench.store(a, b"a", b"x")
    assert reply_of(gate, a) == [b"1"]
    bench.store(a, b"a", b"x")
    bench.store(a, b"a", b"x")
    assert reply_of(gate, a) == [b"3", b"0"]
    assert reply_of(gate, b) == []
    assert gate.next_deadline() == 2 + WAIT


def test_reads_of_the_same_minimum_keep_their_order(
    bench: Bench, streams: tuple[Stream, Stream]
) -> None:
    a, _ = streams
    gate = Gate(WAIT, HeldReads(10))
    for n in range(4):
        gate.hold(a, wanting(1), b"%d" % n, 0, direct=True)
    bench.store(a, b"a", b"x")

    assert reply_of(gate, a) == [b"0", b"1", b"2", b"3"]
    assert gate.next_deadline() is None


def test_too_many_reads_are_not_held(bench: Bench, streams: tuple[Stream, Stream]) -> None:
    """decisions.md, Read-after-write; what is answered or over makes room again."""
    a, b = streams
    gate = Gate(WAIT, HeldReads(2))
    assert gate.hold(a, wanting(1), b"1", 0, direct=True)
    assert gate.hold(b, wanting(1), b"2", 10, direct=True)
    assert not gate.hold(a, wanting(1), b"3", 10, direct=True)

    bench.store(a, b"a", b"x")
    assert reply_of(gate, a) == [b"1"]
    assert gate.hold(a, wanting(5), b"4", 20, direct=True)
    assert [held.reply for held in gate.expired(10 + WAIT)] == [b"2"]
    assert gate.hold(b, wanting(1), b"5", 30, direct=True)


def test_reads_that_are_over_leave_nothing(streams: tuple[Stream, Stream]) -> None:
    """A minimum that is never reached must not keep memory."""
    a, _ = streams
    gate = Gate(WAIT, HeldReads(10))
    for n in range(100):
        assert gate.hold(a, wanting(10**6 + n), b"r", n * WAIT, direct=True)
        assert len(gate.expired((n + 1) * WAIT)) == 1

    assert gate.by_stream == {}
    assert not gate._by_deadline


def test_a_read_beyond_the_bound_is_refused_at_once(bench: Bench) -> None:
    """decisions.md, Read-after-write: 412 at once."""
    stream = bench.create()
    bench.engine.direct = DirectGets(
        bench.ports, WAIT, HeldReads(1), bench.engine.failures, bench.engine.long_work
    )
    bench.get(stream, b'{"seq":1,"min_last_seq":1}')

    (entry,) = bench.get(stream, b'{"seq":1,"min_last_seq":1}')

    assert entry[3] == b"NATS/1.0 412 Min Last Sequence\r\nNats-Min-Last-Sequence: 0\r\n\r\n"


def test_one_client_may_not_fill_the_gate(bench: Bench, streams: tuple[Stream, Stream]) -> None:
    a, _ = streams
    gate = Gate(WAIT, HeldReads(10, per_client=2))

    kept = [
        gate.hold(a, wanting(1), b"r", 0, direct=True, requester=who)
        for who in ("x", "x", "x", "y")
    ]
    bench.store(a, b"a", b"m")
    gate.released(a)

    assert kept == [True, True, False, True]
    assert gate.hold(a, wanting(9), b"r", 0, direct=True, requester="x")


def test_waiters_for_a_stream_are_notified_when_it_is_deleted(bench: Bench) -> None:
    stream = bench.create("A", "a")
    bench.get(stream, b'{"seq":1,"min_last_seq":5}')
    bench.engine.direct.message_get(stream, wanting(5), b"m", bench.now, bench.outbox)
    bench.publish(stream, b"a", b"x", b"p")
    bench.submit()

    handle(bench.engine, b"STREAM.DELETE.A", b"", b"d", bench.now, bench.outbox)
    assert bench.sent() == []  # it waits for what is in flight
    bench.land()
    answers = {entry[0]: entry[3] or entry[4] for entry in bench.sent()}

    assert answers[b"_INBOX.1"] == b"NATS/1.0 503\r\n\r\n"
    assert b'"err_code":10059' in answers[b"m"]
    assert answers[b"p"] == b'{"stream":"A","seq":1}'
    assert b'"success":true' in answers[b"d"]
    assert bench.sent() == []
