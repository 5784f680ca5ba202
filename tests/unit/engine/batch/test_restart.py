"""A server that stops in the middle of a fast batch (ADR-50, leader change)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.batch.batching import (
    abandoned,
    by_headers,
    by_reply,
    codes,
    flush,
    made,
    pass_time,
    stored,
    told,
)

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

SECOND = 1_000_000_000


def interrupted(bench: Bench, gap: str, *, flow: int = 2) -> Stream:
    """A batch whose messages 1 to 5 are durable and whose message 6 is lost with the server."""
    stream = made(bench)
    by_reply(bench, stream, 1, 0, gap=gap, flow=flow)
    for number in range(2, 6):
        by_reply(bench, stream, number, gap=gap, flow=flow)
    flush(bench)
    by_reply(bench, stream, 6, gap=gap, flow=flow)
    bench.restart()
    bench.ports.listening = lambda subject: b"BATCH_ABANDONED" in subject
    bench.sent()
    return bench.engine.streams["S"]


def test_a_batch_with_gaps_continues_with_a_report(bench: Bench) -> None:
    stream = interrupted(bench, "ok")

    by_reply(bench, stream, 7, gap="ok", flow=2)

    assert told(bench) == [{"type": "gap", "last_seq": 6, "seq": 7}]
    by_reply(bench, stream, 8, 2, gap="ok", flow=2)
    flush(bench)
    assert told(bench)[-1] == {"stream": "S", "seq": 7, "batch": "f", "count": 8}
    assert len(stored(stream)) == 7


def test_a_batch_with_gaps_that_lost_nothing_continues_with_an_ack(bench: Bench) -> None:
    stream = interrupted(bench, "ok")

    by_reply(bench, stream, 6, gap="ok", flow=2)

    assert told(bench) == [{"type": "ack", "seq": 5, "msgs": 2}]


def test_a_ping_gets_the_report_too(bench: Bench) -> None:
    stream = interrupted(bench, "ok")

    by_reply(bench, stream, 6, 4, gap="ok", flow=2)

    assert told(bench) == [
        {"type": "gap", "last_seq": 6, "seq": 7},
        {"type": "ack", "seq": 5, "msgs": 2},
    ]


@pytest.mark.parametrize("op", [1, 2, 3, 4])
def test_a_batch_without_gaps_ends_with_what_is_stored(bench: Bench, op: int) -> None:
    stream = interrupted(bench, "fail")

    by_reply(bench, stream, 7, op, flow=2)
    flush(bench)

    assert told(bench) == [{"stream": "S", "seq": 5, "batch": "f", "count": 5}]
    assert len(stored(stream)) == 5
    by_reply(bench, stream, 8, flow=2)
    assert codes(bench) == [10208]
    assert stream.log.engine_state.fast_batches == {}


def test_nothing_is_said_before_the_client_is_back(bench: Bench) -> None:
    interrupted(bench, "fail")

    flush(bench)

    assert told(bench) == []


def test_the_header_dialect_continues_with_a_report(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="2", batch_gap="ok")
    by_headers(bench, stream, 2)
    flush(bench)
    bench.restart()
    bench.sent()
    stream = bench.engine.streams["S"]

    by_headers(bench, stream, 4)

    assert told(bench) == [{"last_seq": 2, "seq": 4, "messages": 2}]


def test_the_header_dialect_ends_with_what_is_stored(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="2")
    by_headers(bench, stream, 2)
    flush(bench)
    bench.restart()
    bench.sent()
    stream = bench.engine.streams["S"]

    by_headers(bench, stream, 3)
    flush(bench)

    assert told(bench) == [{"stream": "S", "seq": 2, "batch": "f", "count": 2}]


def test_time_without_the_server_counts(bench: Bench) -> None:
    stream = interrupted(bench, "ok")
    bench.now += 11 * SECOND

    pass_time(bench, 0)

    assert abandoned(bench) == [("f", "timeout")]
    assert stream.batches.fast.open == {}
    assert stream.log.engine_state.fast_batches == {}


def test_a_batch_that_ended_is_not_there_after_a_restart(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0)
    flush(bench)
    by_reply(bench, stream, 2, 3)
    flush(bench)

    bench.restart()

    assert bench.engine.streams["S"].batches.fast.open == {}


def test_a_batch_within_one_group_leaves_no_record(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0)
    by_reply(bench, stream, 2, 2)
    flush(bench)

    assert stream.log.engine_state.fast_batches == {}


def test_batches_after_a_restart_count_against_the_limits(bench: Bench) -> None:
    stream = interrupted(bench, "fail")
    assert stream.batches.fast.limits.fast_open == [0, 1]

    by_reply(bench, stream, 7, flow=2)

    assert stream.batches.fast.limits.fast_open == [0, 0]


@pytest.mark.parametrize("jump", [-3600 * SECOND, 0])
def test_a_batch_is_idle_by_the_time_that_passed_when_the_clock_was_set_back(
    bench: Bench, jump: int
) -> None:
    """Previously it was open until the clock had caught up."""
    stream = made(bench)
    by_reply(bench, stream, 1, 0)
    flush(bench)
    bench.now += jump
    bench.restart()
    stream = bench.engine.streams["S"]
    pass_time(bench, 9)
    before = list(stream.batches.fast.open)
    pass_time(bench, 2)

    assert (before, list(stream.batches.fast.open)) == ([b"f"], [])
