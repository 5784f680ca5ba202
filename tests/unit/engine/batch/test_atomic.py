"""Atomic batches on the engine, with virtual time (ADR-50, "Atomic Batched Publishes")."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.batch.batching import (
    abandoned,
    block_of,
    codes,
    flush,
    made,
    member,
    pass_time,
    stored,
    told,
)
from tests.unit.engine.publishing import block

from jetspark.api.enums import Discard
from jetspark.api.stream import Republish
from jetspark.engine.batch.limits import BatchLimits
from jetspark.headers.block import find_value

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream


def headers_of(stream: Stream, seq: int, name: bytes) -> bytes | None:
    return find_value(block_of(stream, seq), name)


# Acknowledgements --------------------------------------------------------------------------------


def test_messages_before_the_commit_get_an_empty_ack(bench: Bench) -> None:
    stream = made(bench)

    member(bench, stream, 1)
    member(bench, stream, 2)

    assert told(bench) == [None, None]


def test_a_message_without_reply_gets_no_ack(bench: Bench) -> None:
    stream = made(bench)

    member(bench, stream, 1)
    member(bench, stream, 2, reply=b"")

    assert told(bench) == [None]


def test_the_commit_stores_its_message_and_the_ack_names_batch_and_count(bench: Bench) -> None:
    stream = made(bench)
    bench.store(stream, b"s.0", b"x")
    member(bench, stream, 1, b"s.1")
    member(bench, stream, 2, b"s.2", batch_commit="1")
    told(bench)

    flush(bench)

    assert told(bench) == [{"stream": "S", "seq": 3, "batch": "b", "count": 2}]
    assert stored(stream) == [(1, b"s.0"), (2, b"s.1"), (3, b"s.2")]


def test_the_ack_waits_for_the_disk(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, batch_commit="1")
    bench.submit()
    assert told(bench) == []

    bench.land()

    assert told(bench) == [{"stream": "S", "seq": 1, "batch": "b", "count": 1}]


def test_eob_commits_without_its_message_and_marks_the_one_before(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    member(bench, stream, 2)
    member(bench, stream, 3, batch_commit="eob")
    flush(bench)

    assert told(bench)[-1] == {"stream": "S", "seq": 2, "batch": "b", "count": 2}
    assert headers_of(stream, 1, b"Nats-Batch-Commit") is None
    assert headers_of(stream, 2, b"Nats-Batch-Commit") == b"1"


def test_batch_headers_are_kept_on_stored_messages(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, batch_commit="1")
    flush(bench)

    assert headers_of(stream, 1, b"Nats-Batch-Id") == b"b"
    assert headers_of(stream, 1, b"Nats-Batch-Sequence") == b"1"
    assert headers_of(stream, 1, b"Nats-Batch-Commit") == b"1"


def test_a_stream_without_acks_stores_a_batch_silently(bench: Bench) -> None:
    stream = made(bench, no_ack=True)
    member(bench, stream, 1)
    member(bench, stream, 2, batch_commit="1")
    flush(bench)

    assert told(bench) == []
    assert len(stored(stream)) == 2


# Visibility and the disk -------------------------------------------------------------------------


def test_nothing_of_a_batch_shows_before_its_commit_is_durable(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    member(bench, stream, 2, batch_commit="1")
    bench.submit()

    assert stored(stream) == []
    assert stream.log.index.last_seq == 0

    bench.land()
    assert [seq for seq, _ in stored(stream)] == [1, 2]


def test_a_batch_is_one_run_of_sequences_whatever_comes_between(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, b"s.b")
    bench.publish(stream, b"s.plain", b"x")
    member(bench, stream, 2, b"s.b")
    bench.publish(stream, b"s.plain", b"x")
    member(bench, stream, 3, b"s.b", batch_commit="1")
    flush(bench)

    assert [s for _, s in stored(stream)] == [b"s.plain", b"s.plain", b"s.b", b"s.b", b"s.b"]


def test_a_batch_is_one_synced_write(bench: Bench) -> None:
    stream = made(bench)
    for number in range(1, 100):
        member(bench, stream, number)
    member(bench, stream, 100, batch_commit="1")

    bench.submit()

    assert len(bench.on_the_way) == 1
    bench.land()
    assert len(stored(stream)) == 100


def test_a_batch_that_the_disk_refuses_leaves_nothing_and_says_so(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, msg_id="a")
    member(bench, stream, 2, batch_commit="1")
    told(bench)
    bench.submit()

    bench.fail(OSError(errno.ENOSPC, "No space left on device"))

    assert codes(bench) == [10023]
    assert stored(stream) == []
    member(bench, stream, 1, msg_id="a", batch_commit="1")
    flush(bench)
    assert told(bench) == [{"stream": "S", "seq": 3, "batch": "b", "count": 1}]


def test_an_open_batch_does_not_survive_a_restart(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    bench.restart()
    again = bench.engine.streams["S"]
    told(bench)

    member(bench, again, 2, batch_commit="1")

    assert codes(bench) == [10176]


def test_a_committed_batch_survives_a_restart_whole(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    member(bench, stream, 2, batch_commit="1")
    flush(bench)

    bench.restart()

    assert [seq for seq, _ in stored(bench.engine.streams["S"])] == [1, 2]


# Refusals on arrival -----------------------------------------------------------------------------


def test_a_stream_that_does_not_allow_it_refuses(bench: Bench) -> None:
    stream = made(bench, allow_atomic=False)

    member(bench, stream, 1)

    assert codes(bench) == [10174]


def test_an_id_may_have_64_characters(bench: Bench) -> None:
    stream = made(bench)

    member(bench, stream, 1, batch="i" * 64)
    member(bench, stream, 1, batch="i" * 65)

    assert codes(bench) == [None, 10179]


def test_a_message_needs_a_sequence(bench: Bench) -> None:
    stream = made(bench)

    for number in ("", "x", "-1"):
        member(bench, stream, number)

    assert codes(bench) == [10175] * 3


def test_an_unknown_batch_is_refused(bench: Bench) -> None:
    stream = made(bench)

    member(bench, stream, 2)
    member(bench, stream, 1001)

    assert codes(bench) == [10176, 10199]


@pytest.mark.parametrize("number", [1, 3, 0])
def test_a_gap_or_a_repeat_abandons_the_batch(bench: Bench, number: int) -> None:
    stream = made(bench)
    member(bench, stream, 1)

    member(bench, stream, number)

    assert codes(bench) == [None, 10176]
    assert abandoned(bench) == [("b", "incomplete")]
    member(bench, stream, 2)
    assert codes(bench) == [10176]


def test_a_commit_that_is_neither_1_nor_eob_abandons_the_batch(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)

    member(bench, stream, 2, batch_commit="yes")
    member(bench, stream, 2)

    assert codes(bench) == [None, 10200, 10176]


def test_eob_alone_is_no_batch(bench: Bench) -> None:
    stream = made(bench)

    member(bench, stream, 1, batch_commit="eob")

    assert codes(bench) == [10176]
    assert abandoned(bench) == [("b", "incomplete")]


def test_the_api_level_is_checked_for_every_message_and_not_stored(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, required_api_level="2")
    member(bench, stream, 2, required_api_level="5", batch_commit="1")
    flush(bench)
    assert told(bench)[-1]["count"] == 2
    assert headers_of(stream, 1, b"Nats-Required-Api-Level") is None

    member(bench, stream, 1)
    member(bench, stream, 2, required_api_level="6")

    assert codes(bench) == [None, 10185]
    assert abandoned(bench) == [("b", "unsupported")]
    member(bench, stream, 3)
    assert codes(bench) == [10176]


def test_a_level_that_fails_without_reply_still_raises_the_advisory(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    member(bench, stream, 2, reply=b"", required_api_level="99")

    assert told(bench) == [None]
    assert abandoned(bench) == [("b", "unsupported")]


def test_a_message_too_large_leaves_the_batch_open(bench: Bench) -> None:
    stream = made(bench, max_msg_size=200)
    member(bench, stream, 1)
    member(bench, stream, 2, body=b"x" * 300)
    member(bench, stream, 2, batch_commit="1")
    flush(bench)

    assert codes(bench) == [None, 10054, {"stream": "S", "seq": 2, "batch": "b", "count": 2}]


# Limits ------------------------------------------------------------------------------------------


def test_a_batch_has_at_most_a_thousand_messages(bench: Bench) -> None:
    stream = made(bench)
    for number in range(1, 1001):
        member(bench, stream, number, reply=b"")

    member(bench, stream, 1001)

    assert codes(bench) == [10199]
    assert abandoned(bench) == [("b", "large")]


def test_the_marker_of_a_thousand_messages_is_not_one_too_many(bench: Bench) -> None:
    stream = made(bench)
    for number in range(1, 1001):
        member(bench, stream, number, reply=b"")
    member(bench, stream, 1001, batch_commit="eob")
    flush(bench)

    assert told(bench) == [{"stream": "S", "seq": 1000, "batch": "b", "count": 1000}]


def test_a_stream_has_at_most_fifty_open_batches(bench: Bench) -> None:
    stream = made(bench)
    for number in range(50):
        member(bench, stream, 1, batch=f"b{number}", reply=b"")

    member(bench, stream, 1, batch="one more")
    member(bench, stream, 2, batch="b0", batch_commit="1")
    flush(bench)
    member(bench, stream, 1, batch="one more")

    assert codes(bench) == [10210, {"stream": "S", "seq": 2, "batch": "b0", "count": 2}, None]


def test_a_server_has_at_most_a_thousand_open_batches(bench: Bench) -> None:
    bench.batch_limits = BatchLimits(atomic_per_server=3)
    bench.restart()
    streams = [made(bench, name=f"S{n}", subjects=(f"s{n}.>",)) for n in range(3)]
    for n in range(2):
        member(bench, streams[n], 1, f"s{n}.1".encode())
    member(bench, streams[0], 1, b"s0.1", batch="c")

    member(bench, streams[2], 1, b"s2.1")
    assert codes(bench) == [None, None, None, 10210]

    bench.remove(streams[0])
    member(bench, streams[2], 1, b"s2.1")
    assert codes(bench) == [None]
    assert BatchLimits().atomic_per_server == 1000


def test_what_open_batches_hold_is_bounded_in_bytes(bench: Bench) -> None:
    bench.batch_limits = BatchLimits(staged_bytes=5000)
    bench.restart()
    stream = made(bench)
    member(bench, stream, 1, body=b"x" * 3000)
    member(bench, stream, 1, body=b"x" * 3000, batch="c")
    assert codes(bench) == [None, 10023]
    assert abandoned(bench) == [("c", "large")]

    member(bench, stream, 2, batch_commit="1")
    flush(bench)
    told(bench)

    assert bench.batch_limits.staged == 0
    assert bench.batch_limits.atomic_open == 0
    member(bench, stream, 1, body=b"x" * 3000, batch="c")
    assert codes(bench) == [None]


def test_a_batch_without_traffic_for_ten_seconds_is_abandoned_with_an_advisory(
    bench: Bench,
) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    bench.submit()
    pass_time(bench, 9)
    member(bench, stream, 2)
    pass_time(bench, 9.9)
    assert codes(bench) == [None, None]
    assert abandoned(bench) == []

    pass_time(bench, 0.2)

    assert told(bench) == []
    assert abandoned(bench) == [("b", "timeout")]
    member(bench, stream, 3, batch_commit="1")
    assert codes(bench) == [10176]
    assert bench.engine.next_deadline() is None


def test_switching_it_off_drops_what_is_open(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    assert told(bench) == [None]
    bench.request(b"STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"]}')
    bench.request(b"STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"],"allow_atomic":true}')

    member(bench, stream, 2, batch_commit="1")

    assert codes(bench) == [10176]
    assert stream.batches.fast.limits.atomic_open == 0


# Checks at the commit ----------------------------------------------------------------------------


def test_expectations_are_checked_at_the_commit_and_not_before(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, expected_last_sequence="1")
    assert codes(bench) == [None]
    bench.store(stream, b"s.9", b"x")
    told(bench)

    member(bench, stream, 2, batch_commit="1")
    flush(bench)

    assert told(bench) == [{"stream": "S", "seq": 3, "batch": "b", "count": 2}]


def test_any_message_that_fails_rejects_the_batch(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, b"s.1")
    member(bench, stream, 2, b"s.2", subject_seq="7")
    member(bench, stream, 3, b"s.3", batch_commit="1")
    flush(bench)

    assert codes(bench) == [None, None, 10071]
    assert stored(stream) == []


def test_only_the_first_message_may_expect_a_last_sequence(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1)
    member(bench, stream, 2, expected_last_sequence="1", batch_commit="1")
    flush(bench)

    assert codes(bench) == [None, 10164]


def test_a_subject_the_batch_wrote_before_cannot_be_expected(bench: Bench) -> None:
    stream = made(bench)
    bench.store(stream, b"s.1", b"x")
    member(bench, stream, 1, b"s.1")
    member(bench, stream, 2, b"s.1", batch_commit="1", subject_seq="1")
    flush(bench)

    assert codes(bench) == [None, 10164]


def test_a_refusal_waits_for_the_state_it_stands_on(bench: Bench) -> None:
    stream = made(bench)
    bench.publish(stream, b"s.1", b"x")
    member(bench, stream, 1, b"s.1", batch_commit="1", subject_seq="0")
    assert told(bench) == []

    flush(bench)

    assert codes(bench) == [10071]


def test_the_expected_last_msg_id_is_not_supported(bench: Bench) -> None:
    stream = made(bench)

    member(bench, stream, 1, expected_last_msg_id="a", batch_commit="1")

    (answer,) = told(bench)
    assert answer["error"] == {
        "code": 400,
        "err_code": 10177,
        "description": "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id",
    }


def test_a_duplicate_id_rejects_the_batch(bench: Bench) -> None:
    stream = made(bench)
    member(bench, stream, 1, msg_id="1")
    member(bench, stream, 2, msg_id="1", batch_commit="1")
    flush(bench)
    assert codes(bench) == [None, 10201]

    member(bench, stream, 1, msg_id="1", batch_commit="1")
    flush(bench)
    assert codes(bench) == [{"stream": "S", "seq": 1, "batch": "b", "count": 1}]

    member(bench, stream, 1, msg_id="1", batch_commit="1")
    assert codes(bench) == [10201]


def test_limits_with_discard_new_count_the_whole_batch(bench: Bench) -> None:
    stream = made(bench, max_msgs=2, discard=Discard.NEW)
    member(bench, stream, 1)
    member(bench, stream, 2)
    member(bench, stream, 3, batch_commit="1")
    flush(bench)
    assert codes(bench) == [None, None, 10077]

    member(bench, stream, 1)
    member(bench, stream, 2, batch_commit="1")
    flush(bench)
    assert codes(bench) == [None, {"stream": "S", "seq": 2, "batch": "b", "count": 2}]


def test_a_rollup_in_a_batch_takes_effect_with_it(bench: Bench) -> None:
    stream = made(bench, allow_rollup_hdrs=True)
    bench.store(stream, b"s.1", b"x")
    bench.store(stream, b"s.2", b"x")
    member(bench, stream, 1, b"s.2")
    member(bench, stream, 2, b"s.1", rollup="sub", batch_commit="1")
    bench.submit()
    assert stored(stream) == [(1, b"s.1"), (2, b"s.2")]

    bench.land()

    assert stored(stream) == [(2, b"s.2"), (3, b"s.2"), (4, b"s.1")]


def test_counters_add_up_within_a_batch(bench: Bench) -> None:
    stream = made(bench, allow_msg_counter=True)
    member(bench, stream, 1, body=b"", incr="2")
    member(bench, stream, 2, body=b"", incr="3", batch_commit="1")
    flush(bench)
    told(bench)

    answer = bench.request(b"STREAM.MSG.GET.S", b'{"seq":2}')

    assert b"eyJ2YWwiOiI1In0=" in answer  # {"val":"5"}


def test_a_ttl_in_a_batch_ends_the_message(bench: Bench) -> None:
    stream = made(bench, allow_msg_ttl=True)
    member(bench, stream, 1)
    member(bench, stream, 2, ttl="5s", batch_commit="1")
    flush(bench)

    pass_time(bench, 6)

    assert [seq for seq, _ in stored(stream)] == [1]


# Configuration -----------------------------------------------------------------------------------


def test_atomic_batches_and_async_persistence_exclude_each_other(bench: Bench) -> None:
    answer = bench.request(
        b"STREAM.CREATE.S",
        b'{"name":"S","subjects":["s.>"],"allow_atomic":true,"persist_mode":"async"}',
    )

    assert b'"err_code":10052' in answer


@pytest.mark.parametrize(("setting", "code"), [("allow_atomic", 10198), ("allow_batched", 10209)])
def test_mirrors_refuse_both_settings(bench: Bench, setting: str, code: int) -> None:
    body = f'{{"name":"S","mirror":{{"name":"X"}},"{setting}":true}}'

    assert b'"err_code":%d' % code in bench.request(b"STREAM.CREATE.S", body.encode())


def test_both_settings_can_be_switched_and_combined(bench: Bench) -> None:
    made(bench, allow_batched=False)
    body = b'{"name":"S","subjects":["s.>"],"allow_batched":true%b}'

    both = bench.request(b"STREAM.UPDATE.S", body % b',"allow_atomic":true')
    one = bench.request(b"STREAM.UPDATE.S", body % b"")

    assert b'"_nats.req.level":"3"' in both
    assert b'"allow_atomic":true' in both
    assert b'"allow_batched":true' in one
    assert b"allow_atomic" not in one


def test_an_unexpected_error_in_a_commit_does_not_stop_the_stream(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the batch is stored, nothing of it is remembered, and others are answered."""
    stream = made(bench, republish=Republish(src="s.>", dest="again.>"))
    member(bench, stream, 1, b"s.1", msg_id="a")
    told(bench)
    transform = stream.rules.republish
    assert transform is not None

    def apply(_subject: bytes) -> bytes:
        raise RuntimeError("a mistake of ours")

    with monkeypatch.context() as patched:
        patched.setattr(transform, "apply", apply)
        with pytest.raises(RuntimeError):
            member(bench, stream, 2, b"s.2", msg_id="b", batch_commit="1")

    bench.store(stream, b"s.3", b"x", headers=block(msg_id="b"))
    assert stored(stream) == [(1, b"s.3")]
    bench.publish(stream, b"s.4", b"x", reply=b"r")
    flush(bench)
    assert b'{"stream":"S","seq":2}' in bench.replies()
