"""Ends of messages: ages, TTLs, markers, rollups, in virtual time (wire.md, Publishing)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.publishing import (
    SECOND,
    answers,
    ask,
    code,
    flush,
    headers_of,
    made,
    publish,
    there,
    wait,
)

from jetspark.api.stream import StreamConfig
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.ttl import INVALID, NEVER, NO_TTL, SECONDS_MAX, parse_ttl
from jetspark.units import Nanoseconds

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench


NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"5s", 5), (b"10", 10), (b"1h", 3600), (b"1.5s", 1), (b"1m30s", 90), (b"1", 1),
        (b"never", NEVER), (b"NeVer", NEVER), (b"00", NO_TTL),
        (b"0", INVALID), (b"0s", INVALID), (b"999ms", INVALID), (b"-1", INVALID),
        (b"-5s", INVALID), (b"junk", INVALID), (b"\xff", INVALID), (b"5 s", INVALID),
        (b"9" * 40, SECONDS_MAX), (b"0" * 40 + b"7", 7),
    ],
)  # fmt: skip
def test_the_value_of_a_ttl(value: bytes, expected: int) -> None:
    """wire.md, Publishing, Nats-TTL."""
    assert parse_ttl(value) == expected


def test_messages_that_are_too_old_go(bench: Bench) -> None:
    stream = made(bench, max_age=10 * SECOND)
    ask(bench, stream)
    wait(bench, 5)
    ask(bench, stream)

    wait(bench, 4.9)
    assert there(stream) == [1, 2]
    wait(bench, 0.1)
    assert there(stream) == [2]
    wait(bench, 5)
    assert there(stream) == []
    assert bench.engine.next_deadline() is None
    assert ask(bench, stream, expected_last_sequence="2") == 3


def test_max_age_is_kept_over_a_restart(bench: Bench) -> None:
    stream = made(bench, max_age=10 * SECOND)
    ask(bench, stream)
    wait(bench, 5)

    bench.restart()
    stream = bench.engine.streams["S"]
    assert bench.engine.next_deadline() == bench.now + 5 * SECOND

    wait(bench, 5)
    assert there(stream) == []


def test_each_message_lives_as_long_as_it_says(bench: Bench) -> None:
    stream = made(bench, allow_msg_ttl=True)
    assert [ask(bench, stream, ttl=ttl) for ttl in ("5s", "1", "never", "")] == [1, 2, 3, 4]

    wait(bench, 1.1)  # no two messages have the same time, so each is a little later
    assert there(stream) == [1, 3, 4]
    wait(bench, 4)
    assert there(stream) == [3, 4]
    assert bench.engine.next_deadline() is None


def test_a_message_that_never_ends_outlives_max_age(bench: Bench) -> None:
    stream = made(bench, allow_msg_ttl=True, max_age=10 * SECOND)
    for ttl in ("", "never", "60s", ""):
        ask(bench, stream, ttl=ttl)

    wait(bench, 11)

    assert there(stream) == [2]


def test_ttls_are_found_again_after_a_restart(bench: Bench) -> None:
    stream = made(bench, allow_msg_ttl=True, max_age=20 * SECOND)
    for ttl in ("5s", "never", "15s", ""):
        ask(bench, stream, ttl=ttl)
    wait(bench, 3)

    bench.restart()
    stream = bench.engine.streams["S"]
    wait(bench, 1.9)
    assert there(stream) == [1, 2, 3, 4]
    wait(bench, 0.2)
    assert there(stream) == [2, 3, 4]
    wait(bench, 10)
    assert there(stream) == [2, 4]
    wait(bench, 5)
    assert there(stream) == [2]
    bench.restart()
    assert there(bench.engine.streams["S"]) == [2]


def test_many_ttls_are_found_again_in_pieces(bench: Bench) -> None:
    """A recovery that needs more continues in the next turn."""
    stream = made(bench, allow_msg_ttl=True)
    for _ in range(2500):
        publish(bench, stream, ttl="5s")
    flush(bench)
    bench.restart()
    stream = bench.engine.streams["S"]

    turns = 0
    while stream.expiry.lifetimes.scanning(stream.rules):
        bench.engine.expire(bench.now, bench.outbox)
        turns += 1

    assert turns == 3
    wait(bench, 6)
    assert there(stream) == []


def test_an_end_that_could_not_be_written_comes_again(bench: Bench) -> None:
    stream = made(bench, allow_msg_ttl=True)
    ask(bench, stream, ttl="5s")
    bench.now += 5 * SECOND
    bench.engine.expire(bench.now, bench.outbox)
    bench.submit()
    bench.fail(NO_SPACE)
    assert there(stream) == [1]

    wait(bench, 1)

    assert there(stream) == []


def test_a_ttl_of_a_failed_group_never_was(bench: Bench) -> None:
    stream = made(bench, allow_msg_ttl=True)
    publish(bench, stream, ttl="5s")
    bench.submit()
    bench.fail(NO_SPACE)
    answers(bench)

    assert bench.engine.next_deadline() is None


@pytest.mark.parametrize("by", ["max_age", "ttl"])
def test_the_last_message_of_a_subject_leaves_a_marker(bench: Bench, by: str) -> None:
    """Reason, TTL and rollup in the headers, no body; the marker ends itself."""
    age = {"max_age": 10 * SECOND} if by == "max_age" else {}
    stream = made(
        bench, allow_msg_ttl=True, allow_direct=True, allow_rollup_hdrs=True,
        subject_delete_marker_ttl=3 * SECOND, **age,
    )  # fmt: skip
    ttl = {} if age else {"ttl": "10s"}
    ask(bench, stream, b"s.1", **ttl)
    ask(bench, stream, b"s.1", **ttl)
    ask(bench, stream, b"s.2", **ttl)

    wait(bench, 10.1)

    assert there(stream) == [4, 5]
    assert headers_of(bench, stream, 4).startswith(
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 3s\r\nNats-Rollup: sub\r\n"
        b"Nats-Stream: S\r\nNats-Subject: s.1\r\n"
    )
    wait(bench, 3)
    assert there(stream) == []


@pytest.mark.parametrize("newer", [False, True], ids=["last", "not the last"])
def test_a_message_whose_ttl_is_over_before_it_is_durable_leaves_its_marker(
    bench: Bench, newer: bool
) -> None:
    """A disk that needs longer for a write than a message lives takes nothing from a watcher."""
    stream = made(
        bench, allow_msg_ttl=True, allow_direct=True, allow_rollup_hdrs=True,
        subject_delete_marker_ttl=SECOND,
    )  # fmt: skip
    # One that is durable, so that the stream is looked at when its time is over.
    ask(bench, stream, b"s.0", ttl="1s")
    publish(bench, stream, b"s.1", ttl="1s")
    if newer:
        publish(bench, stream, b"s.1")
    bench.submit()
    bench.now += 5 * SECOND
    bench.engine.expire(bench.now, bench.outbox)
    bench.land()
    flush(bench)
    wait(bench, 0.1)
    answers(bench)

    left = [headers_of(bench, stream, seq) for seq in there(stream)]
    marked = [
        b"s.%d" % n
        for n in range(2)
        for headers in left
        if b"Nats-Marker-Reason: MaxAge" in headers and b"Nats-Subject: s.%d" % n in headers
    ]
    assert marked == ([b"s.0"] if newer else [b"s.0", b"s.1"])
    assert len(left) == 2
    wait(bench, 2)
    assert there(stream) == ([3] if newer else [])


def test_a_message_lives_at_least_as_long_as_its_marker(bench: Bench) -> None:
    stream = made(
        bench, allow_msg_ttl=True, allow_direct=True, subject_delete_marker_ttl=30 * SECOND
    )
    ask(bench, stream, ttl="5s", foo="1")

    assert headers_of(bench, stream, 1).startswith(
        b"NATS/1.0\r\nNats-Foo: 1\r\nNats-TTL: 30\r\nNats-Stream: S\r\n"
    )
    wait(bench, 29)
    assert there(stream) == [1]


def test_a_rollup_takes_the_place_of_its_subject(bench: Bench) -> None:
    stream = made(bench, allow_rollup_hdrs=True)
    for subject in (b"s.1", b"s.2", b"s.1"):
        ask(bench, stream, subject)

    assert ask(bench, stream, b"s.1", rollup="SUB") == 4
    assert there(stream) == [2, 4]
    assert ask(bench, stream, b"s.1", expected_last_subject_sequence="4") == 5
    assert code(ask(bench, stream, rollup="some")) == 10111
    assert ask(bench, stream, b"s.3", rollup="all") == 6
    assert there(stream) == [6]
    bench.restart()
    assert there(bench.engine.streams["S"]) == [6]


def test_a_rollup_of_many_messages_and_of_staged_ones(bench: Bench) -> None:
    stream = made(bench, allow_rollup_hdrs=True)
    for _ in range(100):
        publish(bench, stream, b"s.1")
    publish(bench, stream, b"s.2")
    flush(bench)
    publish(bench, stream, b"s.2")
    publish(bench, stream, b"s.2", rollup="sub")
    publish(bench, stream, b"s.1", rollup="sub")
    publish(bench, stream, b"s.1", rollup="sub")
    flush(bench)

    assert there(stream) == [103, 105]
    bench.restart()
    assert there(bench.engine.streams["S"]) == [103, 105]


def test_ids_of_an_idle_stream_are_forgotten(bench: Bench) -> None:
    stream = made(bench, duplicate_window=10 * SECOND)
    for number in range(5):
        ask(bench, stream, msg_id=str(number))

    wait(bench, 21)

    assert len(stream.checks.window) == 0
    assert bench.engine.next_deadline() is None


def test_a_rollup_is_seen_by_decisions_before_it_is_durable(bench: Bench) -> None:
    stream = made(bench, allow_rollup_hdrs=True)
    ask(bench, stream, b"s.1")
    publish(bench, stream, b"s.2", rollup="all")
    publish(bench, stream, b"s.1", expected_last_subject_sequence="0")
    assert there(stream) == [1]

    flush(bench)

    assert answers(bench) == [2, 3]
    assert there(stream) == [2, 3]


def test_a_rollup_of_a_failed_group_took_nothing(bench: Bench) -> None:
    stream = made(bench, allow_rollup_hdrs=True)
    ask(bench, stream, b"s.1")
    publish(bench, stream, b"s.1", rollup="sub")
    bench.submit()
    bench.fail(NO_SPACE)
    answers(bench)

    assert there(stream) == [1]
    assert ask(bench, stream, b"s.1", expected_last_subject_sequence="1") == 3


def test_old_messages_make_room(bench: Bench) -> None:
    """Limits evict after storing."""
    stream = made(bench, max_msgs=3, max_msgs_per_subject=2)
    for subject in (b"s.1", b"s.1", b"s.1", b"s.2", b"s.3"):
        ask(bench, stream, subject)

    assert there(stream) == [3, 4, 5]
    bench.restart()
    assert there(bench.engine.streams["S"]) == [3, 4, 5]


def test_a_stream_may_begin_at_any_sequence(bench: Bench) -> None:
    stream = made(bench, first_seq=1000)
    index = stream.log.index
    assert (index.first_seq, index.last_seq) == (1000, 999)
    bench.restart()
    stream = bench.engine.streams["S"]
    assert stream.log.quarantine.known == {}, "there was nothing to lose"
    assert ask(bench, stream, expected_last_sequence="999") == 1000
    bench.restart()
    assert ask(bench, bench.engine.streams["S"]) == 1001


def test_what_grew_too_old_while_the_server_was_down_is_not_shown(bench: Bench) -> None:
    config = StreamConfig(name="S", subjects=("s.>",), max_age=Nanoseconds(10**9))
    stream = bench.engine.create_stream(prepared(config), bench.now)
    bench.store(stream, b"s.a", b"x")
    bench.now += 2 * 10**9

    bench.restart()

    assert bench.engine.streams["S"].log.index.messages == 0
