"""Fast ingest on the engine, with virtual time: what both dialects share (ADR-50)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.unit.engine.batch.batching import (
    SECOND,
    abandoned,
    block_of,
    by_headers,
    by_reply,
    codes,
    flush,
    made,
    member,
    pass_time,
    stored,
    told,
)

from jetspark.api.enums import PersistMode, Storage
from jetspark.engine.batch.limits import BatchLimits

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


def send_reply(
    bench: Bench, stream: Stream, number: int, commit: str = "", gap: str = "fail", **more: Any
) -> None:
    op = {"": 0 if number == 1 else 1, "1": 2, "eob": 3}[commit]
    by_reply(bench, stream, number, op, gap=gap, **more)


def send_headers(
    bench: Bench, stream: Stream, number: int, commit: str = "", gap: str = "fail", **more: Any
) -> None:
    if commit:
        more["batch_commit"] = commit
    if number == 1:
        more |= {"flow": str(more.pop("flow", 10)), "batch_gap": gap}
    more.pop("flow", None) if number > 1 else None
    by_headers(bench, stream, number, **more)


Send = Callable[..., None]
both = pytest.mark.parametrize("send", [send_reply, send_headers])


def acks(bench: Bench) -> list[int]:
    """Sequences of the flow acks that went out."""
    return [answer["seq"] for answer in told(bench) if "stream" not in answer]


# Acknowledgements --------------------------------------------------------------------------------


@both
def test_a_flow_ack_covers_only_what_is_durable(bench: Bench, send: Send) -> None:
    stream = made(bench)
    for number in range(1, 11):
        send(bench, stream, number)
    bench.submit()
    for number in range(11, 21):
        send(bench, stream, number)
    told(bench)

    bench.land()

    assert acks(bench) == [10]
    flush(bench)
    assert acks(bench) == [20]


@both
def test_one_ack_stands_for_all_those_before_it(bench: Bench, send: Send) -> None:
    """ADR-50: the ack for message 40 implies those for 10, 20 and 30."""
    stream = made(bench)
    for number in range(1, 46):
        send(bench, stream, number)
    told(bench)

    flush(bench)

    assert acks(bench) == [40]


@both
def test_every_ack_tells_the_flow_in_force(bench: Bench, send: Send) -> None:
    stream = made(bench)
    for number in range(1, 11):
        send(bench, stream, number)
    told(bench)
    flush(bench)

    (ack,) = told(bench)

    assert ack.get("msgs", ack.get("messages")) == 10


@both
@pytest.mark.parametrize("commit", ["1", "eob"])
def test_the_end_is_a_pub_ack_with_batch_and_count(bench: Bench, send: Send, commit: str) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    send(bench, stream, 2)
    send(bench, stream, 3, commit)
    told(bench)

    flush(bench)

    count = 3 if commit == "1" else 2
    assert told(bench)[-1] == {"stream": "S", "seq": count, "batch": "f", "count": count}
    assert len(stored(stream)) == count
    assert b"Nats-Batch-Commit" not in block_of(stream, 2)


@both
def test_the_final_ack_waits_for_the_disk(bench: Bench, send: Send) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    flush(bench)
    send(bench, stream, 2)
    bench.submit()
    told(bench)

    send(bench, stream, 3, "eob")
    assert told(bench) == []

    flush(bench)
    assert told(bench)[-1] == {"stream": "S", "seq": 2, "batch": "f", "count": 2}


@both
def test_a_batch_may_be_longer_than_any_atomic_one(bench: Bench, send: Send) -> None:
    stream = made(bench)
    for number in range(1, 2501):
        send(bench, stream, number)
    send(bench, stream, 2501, "eob")

    flush(bench)

    assert told(bench)[-1]["count"] == 2500


@both
def test_messages_are_stored_as_they_come_and_not_with_the_end(bench: Bench, send: Send) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    flush(bench)

    assert len(stored(stream)) == 1


# Gaps --------------------------------------------------------------------------------------------


@both
def test_a_gap_that_is_allowed_is_reported_at_once(bench: Bench, send: Send) -> None:
    stream = made(bench)
    send(bench, stream, 1, gap="ok")
    send(bench, stream, 2, gap="ok")
    flush(bench)
    told(bench)

    send(bench, stream, 6, gap="ok")

    (report,) = told(bench)
    assert report["seq"] == 6
    # The released dialect names the first missing one, the document the last received.
    assert report["last_seq"] == (3 if send is send_reply else 2)
    send(bench, stream, 7, "1", gap="ok")
    flush(bench)
    assert told(bench)[-1] == {"stream": "S", "seq": 4, "batch": "f", "count": 7}


@both
def test_a_gap_that_is_not_allowed_ends_the_batch_with_what_was_before_it(
    bench: Bench, send: Send
) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    send(bench, stream, 2)
    send(bench, stream, 4)
    flush(bench)

    assert told(bench)[-1] == {"stream": "S", "seq": 2, "batch": "f", "count": 2}
    assert len(stored(stream)) == 2
    assert abandoned(bench) == [("f", "incomplete")]
    send(bench, stream, 5)
    assert codes(bench) == [10208 if send is send_reply else 10176]


@both
@pytest.mark.parametrize("gap", ["ok", "fail"])
def test_going_back_ends_the_batch(bench: Bench, send: Send, gap: str) -> None:
    stream = made(bench)
    for number in (1, 2, 3, 2):
        send(bench, stream, number, gap=gap)
    flush(bench)

    assert told(bench)[-1] == {"stream": "S", "seq": 3, "batch": "f", "count": 3}
    assert len(stored(stream)) == 3


@both
def test_gaps_end_a_batch_unless_it_says_otherwise(bench: Bench, send: Send) -> None:
    stream = made(bench)
    if send is send_headers:
        by_headers(bench, stream, 1, flow="10")
    else:
        send(bench, stream, 1)
    send(bench, stream, 3)
    flush(bench)

    assert told(bench)[-1] == {"stream": "S", "seq": 1, "batch": "f", "count": 1}


# Refusals ----------------------------------------------------------------------------------------


@both
def test_an_id_may_have_64_characters(bench: Bench, send: Send) -> None:
    stream = made(bench)

    send(bench, stream, 1, batch="i" * 65)
    assert codes(bench) == [10207 if send is send_reply else 10179]

    send(bench, stream, 1, batch="i" * 64)
    flush(bench)
    assert acks(bench) == [0 if send is send_reply else 1]


@both
def test_a_stream_that_does_not_allow_it_refuses(bench: Bench, send: Send) -> None:
    stream = made(bench, allow_batched=False)

    send(bench, stream, 1)

    assert codes(bench) == [10205 if send is send_reply else 10174]


@both
def test_the_api_level_is_checked_for_every_message(bench: Bench, send: Send) -> None:
    stream = made(bench)
    send(bench, stream, 1, required_api_level="5")
    flush(bench)
    told(bench)

    send(bench, stream, 2, required_api_level="6")
    flush(bench)

    assert codes(bench) == [10185]
    assert abandoned(bench) == [("f", "unsupported")]
    assert b"Api-Level" not in block_of(stream, 1)


@both
def test_an_expected_last_msg_id_is_refused_and_the_batch_gets_its_final_ack(
    bench: Bench, send: Send
) -> None:
    """The released server hangs here."""
    stream = made(bench)
    send(bench, stream, 1)
    send(bench, stream, 2, expected_last_msg_id="z")
    flush(bench)

    answers = told(bench)
    refused = next(answer for answer in answers if "error" in answer)
    assert refused["error"]["err_code"] == 10177
    assert "Nats-Expected-Last-Msg-Id" in refused["error"]["description"]
    assert (answers[-1]["seq"], answers[-1]["batch"], answers[-1]["count"]) == (1, "f", 1)
    assert len(stored(stream)) == 1


@both
def test_a_first_message_that_fails_its_checks_opens_no_batch(bench: Bench, send: Send) -> None:
    stream = made(bench)

    send(bench, stream, 1, expected_last_sequence="7")

    assert codes(bench)[-1] == 10071
    assert stream.batches.fast.open == {}


@both
def test_a_later_message_that_fails_its_checks_ends_a_batch_without_gaps(
    bench: Bench, send: Send
) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    send(bench, stream, 2)
    send(bench, stream, 3, expected_stream="X")
    flush(bench)

    answers = told(bench)
    assert [a["error"]["err_code"] for a in answers if "error" in a] == [10060]
    assert (answers[-1]["seq"], answers[-1]["batch"], answers[-1]["count"]) == (2, "f", 2)


# Limits and time ---------------------------------------------------------------------------------


@both
def test_a_stream_has_so_many_open_batches(bench: Bench, send: Send) -> None:
    bench.batch_limits = BatchLimits(fast_per_stream=3)
    bench.restart()
    stream = made(bench)
    for number in range(3):
        send(bench, stream, 1, batch=f"f{number}")
    told(bench)

    send(bench, stream, 1, batch="one more")
    assert codes(bench) == [10211]

    send(bench, stream, 2, "eob", batch="f0")
    told(bench)
    send(bench, stream, 1, batch="one more")
    flush(bench)
    assert 10211 not in codes(bench)


@both
def test_a_server_has_so_many_open_batches(bench: Bench, send: Send) -> None:
    bench.batch_limits = BatchLimits(fast_per_server=2)
    bench.restart()
    streams = [made(bench, name=f"S{n}", subjects=(f"s{n}.>",)) for n in range(2)]
    for n in range(2):
        send(bench, streams[n], 1)
    told(bench)

    send(bench, streams[0], 1, batch="one more")
    assert codes(bench) == [10211]

    bench.remove(streams[1])
    send(bench, streams[0], 1, batch="one more")
    assert 10211 not in codes(bench)


def test_the_limits_are_those_of_each_dialect() -> None:
    """ADR-50's for headers, the released ones for reply subjects."""
    limits = BatchLimits()

    assert limits.fast_per_stream == [50, 1000]
    assert limits.fast_per_server == [1000, 50_000]
    assert limits.idle_ns == 10_000_000_000


@both
def test_a_batch_without_traffic_for_ten_seconds_is_abandoned_with_an_advisory(
    bench: Bench, send: Send
) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    flush(bench)
    pass_time(bench, 9)
    send(bench, stream, 2)
    flush(bench)
    pass_time(bench, 9.5)
    assert abandoned(bench) == []

    pass_time(bench, 1)

    assert told(bench) == []
    assert abandoned(bench) == [("f", "timeout")]
    send(bench, stream, 3)
    assert codes(bench) == [10208 if send is send_reply else 10176]
    assert stream.log.engine_state.fast_batches == {}
    assert len(stored(stream)) == 2


@both
def test_what_comes_after_the_end_is_refused_after_the_reason_was_given(
    bench: Bench, send: Send
) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    send(bench, stream, 2)
    told(bench)
    send(bench, stream, 3, expected_last_sequence="99")
    send(bench, stream, 4)
    send(bench, stream, 5, commit="1")

    flush(bench)

    heard = codes(bench)
    if send is send_reply:
        assert heard[0] == 10071
        assert (heard[1]["seq"], heard[1]["count"]) == (2, 2)
        assert heard[2:] == [10208, 10208]
    else:
        assert heard == [10164, 10176, 10176]


@both
def test_switching_it_off_drops_what_is_open(bench: Bench, send: Send) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    flush(bench)
    told(bench)
    body = b'{"name":"S","subjects":["s.>"],"allow_batched":%b}'
    bench.request(b"STREAM.UPDATE.S", body % b"false")
    bench.request(b"STREAM.UPDATE.S", body % b"true")

    send(bench, stream, 2)

    assert codes(bench) == [10208 if send is send_reply else 10176]
    assert stream.batches.fast.limits.fast_open == [0, 0]
    assert stream.log.engine_state.fast_batches == {}


# The disk refuses --------------------------------------------------------------------------------


@both
def test_a_refused_write_is_reported_and_never_acknowledged(bench: Bench, send: Send) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    flush(bench)
    for number in range(2, 12):
        send(bench, stream, number)
    told(bench)
    bench.submit()

    bench.fail(NO_SPACE)

    answers = told(bench)
    assert answers[0]["error"]["err_code"] == 10023
    assert (answers[-1]["seq"], answers[-1]["count"]) == (1, 1)
    assert len(stored(stream)) == 1
    bench.store(stream, b"s.9", b"x")
    assert stream.log.engine_state.fast_batches == {}


def test_a_batch_with_gaps_continues_after_the_disk_refused(bench: Bench) -> None:
    stream = made(bench)
    send_reply(bench, stream, 1, gap="ok")
    flush(bench)
    send_reply(bench, stream, 2, gap="ok")
    told(bench)
    bench.submit()
    bench.fail(NO_SPACE)
    assert codes(bench) == [10023]

    send_reply(bench, stream, 3, gap="ok")

    assert told(bench) == [{"type": "gap", "last_seq": 2, "seq": 3}]
    send_reply(bench, stream, 4, "eob", gap="ok")
    flush(bench)
    assert told(bench) == [{"stream": "S", "seq": 3, "batch": "f", "count": 3}]


@both
def test_a_final_ack_that_the_disk_refuses_becomes_an_error(bench: Bench, send: Send) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    send(bench, stream, 2, "1")
    told(bench)
    bench.submit()

    bench.fail(NO_SPACE)

    assert codes(bench) == [10023]


# Persistence -------------------------------------------------------------------------------------


@both
def test_fast_ingest_works_with_async_persistence(bench: Bench, send: Send) -> None:
    stream = made(bench, allow_atomic=False, persist_mode=PersistMode.ASYNC)
    for number in range(1, 11):
        send(bench, stream, number)
    told(bench)
    flush(bench)
    assert acks(bench) == [10]

    send(bench, stream, 11, "1")
    flush(bench)

    assert told(bench)[-1] == {"stream": "S", "seq": 11, "batch": "f", "count": 11}


def test_an_atomic_batch_fails_with_async_persistence(bench: Bench) -> None:
    stream = made(bench, allow_atomic=False, persist_mode=PersistMode.ASYNC)

    member(bench, stream, 1)

    assert codes(bench) == [10174]


@both
def test_fast_ingest_works_in_memory(bench: Bench, send: Send) -> None:
    stream = made(bench, storage=Storage.MEMORY)
    for number in range(1, 11):
        send(bench, stream, number)
    send(bench, stream, 11, "eob")
    flush(bench)

    assert told(bench)[-1] == {"stream": "S", "seq": 10, "batch": "f", "count": 10}


# Bounds ------------------------------------------------------------------------------------------


@both
def test_an_open_batch_takes_the_same_memory_however_long_it_is(bench: Bench, send: Send) -> None:
    """No object per message is kept: what a batch remembers is numbers."""
    stream = made(bench)
    for number in range(1, 2001):
        send(bench, stream, number)
        if number % 100 == 0:
            flush(bench)
    batch = stream.batches.fast.open[b"f"]

    assert batch.last == batch.durable == 2000
    assert stream.batches.fast.advanced == []
    held = stream.replies.open
    assert (held.replies, held.entries, held.batches, held.messages) == ([], [], [], [])


def test_a_batch_that_stored_nothing_is_abandoned_in_time_too(bench: Bench) -> None:
    stream = made(bench)
    send_reply(bench, stream, 1, gap="ok", expected_stream="X")
    bench.submit()

    pass_time(bench, 11)

    assert abandoned(bench) == [("f", "timeout")]
    assert stream.batches.fast.open == {}


@both
def test_an_end_that_the_disk_refused_is_in_the_log_with_the_next_group(
    bench: Bench, send: Send
) -> None:
    stream = made(bench)
    send(bench, stream, 1)
    flush(bench)
    send(bench, stream, 2, "1")
    bench.submit()
    bench.fail(NO_SPACE)
    assert list(stream.log.engine_state.fast_batches) == [b"f"]

    bench.now += 2_000_000_000
    bench.engine.expire(bench.now, bench.outbox)
    bench.store(stream, b"s.9", b"x")

    assert stream.log.engine_state.fast_batches == {}


def test_a_batch_that_ends_while_the_disk_refuses_is_not_open_for_ever(bench: Bench) -> None:
    """Its end is in the log with the first group that the disk takes again."""
    stream = made(bench)
    send_reply(bench, stream, 1, gap="ok")
    flush(bench)
    send_reply(bench, stream, 2, gap="ok")
    bench.submit()
    bench.fail(OSError(errno.EIO, "broken"))
    assert list(stream.batches.fast.open) == [b"f"]
    bench.engine.expire(bench.now + 20 * SECOND, bench.outbox)
    assert stream.batches.expire(bench.now + 20 * SECOND, bench.outbox) is False
    assert stream.batches.fast.open == {}

    assert stream.log.reopen()
    bench.engine.reopened(stream)
    bench.store(stream, b"s.9", b"x")

    assert stream.log.engine_state.fast_batches == {}


def test_switching_it_off_in_a_group_that_fails_ends_what_was_open(bench: Bench) -> None:
    stream = made(bench)
    send_reply(bench, stream, 1, gap="ok")
    flush(bench)
    config = msgspec.structs.replace(stream.config, allow_batched=False)
    bench.engine.update_stream(stream, config)
    bench.submit()
    bench.fail(NO_SPACE)
    assert stream.config.allow_batched

    bench.now += 2 * SECOND
    bench.engine.expire(bench.now, bench.outbox)
    bench.store(stream, b"s.9", b"x")

    assert stream.batches.fast.open == {}
    assert stream.log.engine_state.fast_batches == {}
