"""Scheduled messages, in virtual time (wire.md, Publishing), and the cron notation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from tests.unit.engine.publishing import (
    SECOND,
    answers,
    ask,
    flush,
    headers_of,
    made,
    publish,
    there,
    wait,
)

from jetspark.engine.stream.cron import Cron
from jetspark.units import format_rfc3339, parse_rfc3339

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream


def scheduled(bench: Bench, **settings: Any) -> Stream:
    return made(
        bench, allow_msg_schedules=True, allow_rollup_hdrs=True, allow_direct=True, **settings
    )


def at(bench: Bench, seconds: int) -> str:
    return "@at " + format_rfc3339(bench.now + seconds * SECOND)


def test_a_schedule_publishes_to_its_target_and_is_deleted(bench: Bench) -> None:
    stream = scheduled(bench)
    assert ask(bench, stream, b"s.plan", schedule=at(bench, 5), schedule_target="s.t") == 1

    wait(bench, 4.9)
    assert there(stream) == [1]
    wait(bench, 0.2)

    assert there(stream) == [2]
    assert headers_of(bench, stream, 2).startswith(
        b"NATS/1.0\r\nNats-Scheduler: s.plan\r\nNats-Schedule-Next: purge\r\n"
        b"Nats-Stream: S\r\nNats-Subject: s.t\r\n"
    )
    assert bench.engine.next_deadline() is None


def test_a_newer_schedule_takes_the_place_of_the_one_before(bench: Bench) -> None:
    stream = scheduled(bench)
    ask(bench, stream, b"s.plan", schedule=at(bench, 5), schedule_target="s.t")
    ask(bench, stream, b"s.plan", schedule=at(bench, 9), schedule_target="s.u")

    wait(bench, 6)
    assert there(stream) == [2]
    wait(bench, 4)
    assert stream.log.index.last_match(b"s.u") == 3
    assert stream.log.index.last_match(b"s.t") == 0


def test_a_repeating_schedule_continues(bench: Bench) -> None:
    stream = scheduled(bench)
    ask(bench, stream, b"s.plan", schedule="@every 10s", schedule_target="s.t")

    wait(bench, 35)

    assert there(stream) == [1, 2, 3, 4]
    assert b"Nats-Schedule-Next: 20" in headers_of(bench, stream, 4)


def test_schedules_are_found_again_after_a_restart(bench: Bench) -> None:
    stream = scheduled(bench)
    ask(bench, stream, b"s.a", schedule=at(bench, 5), schedule_target="s.t")
    ask(bench, stream, b"s.b", schedule=at(bench, 50), schedule_target="s.t")
    bench.now += 20 * SECOND

    bench.restart()
    stream = bench.engine.streams["S"]
    wait(bench, 1)

    assert there(stream) == [2, 3]
    wait(bench, 50)
    assert there(stream) == [3, 4]


def test_a_schedule_that_is_due_before_it_is_durable_fires_when_it_is(bench: Bench) -> None:
    stream = scheduled(bench)
    ask(bench, stream, b"s.other", schedule="@every 2s", schedule_target="s.o")
    publish(bench, stream, b"s.once", schedule=at(bench, 1), schedule_target="s.t")
    publish(bench, stream, b"s.often", schedule="* * * * * *", schedule_target="s.u")
    bench.submit()

    # The disk takes three seconds, and the other schedule has its turn meanwhile.
    bench.now += 3 * SECOND
    bench.engine.expire(bench.now, bench.outbox)
    assert not stream.log.index.last_match(b"s.t")
    flush(bench)
    wait(bench, 3)

    assert stream.log.index.last_match(b"s.t") > 0
    often = stream.log.index.subjects.get(b"s.u")
    assert often is not None
    assert often.count >= 3
    assert not stream.log.index.last_match(b"s.once")


def test_very_many_schedules_that_are_due_at_once_fire_in_several_turns(bench: Bench) -> None:
    stream = scheduled(bench)
    for n in range(600):
        publish(bench, stream, b"s.plan%d" % n, schedule=at(bench, 5), schedule_target=f"s.t{n}")
    flush(bench)
    bench.now += 6 * SECOND

    bench.engine.expire(bench.now, bench.outbox)
    flush(bench)
    fired_at_once = int(stream.log.index.last_seq) - 600
    wait(bench, 1)

    assert 0 < fired_at_once < 400
    assert len(there(stream)) == 600
    assert all(stream.log.index.last_match(b"s.t%d" % n) for n in range(600))


def test_a_schedule_sends_the_last_message_of_its_source(bench: Bench) -> None:
    stream = scheduled(bench, allow_msg_ttl=True)
    bench.publish(stream, b"s.src", b"old")
    bench.publish(stream, b"s.src", b"new", headers=b"NATS/1.0\r\nA: 1\r\nNats-Msg-Id: i\r\n\r\n")
    flush(bench)
    ask(
        bench, stream, b"s.plan", schedule=at(bench, 5), schedule_target="s.t",
        schedule_source="s.src", schedule_ttl="60s", schedule_rollup="sub",
    )  # fmt: skip

    wait(bench, 6)

    (entry,) = bench.get(stream, b'{"last_by_subj":"s.t"}')
    assert entry[4] == b"new"
    assert entry[3].startswith(
        b"NATS/1.0\r\nA: 1\r\nNats-Scheduler: s.plan\r\nNats-Schedule-Next: purge\r\n"
        b"Nats-TTL: 60s\r\nNats-Rollup: sub\r\n"
    )
    wait(bench, 60)
    assert stream.log.index.last_match(b"s.t") == 0


def test_a_schedule_that_was_ended_does_not_fire(bench: Bench) -> None:
    stream = scheduled(bench)
    ask(bench, stream, b"s.plan", schedule=at(bench, 5), schedule_target="s.t")
    publish(bench, stream, b"s.x", schedule_next="purge", scheduler="s.plan")
    flush(bench)
    assert answers(bench) == [2]

    wait(bench, 10)

    assert there(stream) == [2]


class CountingZone(tzinfo):
    """UTC, which counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def utcoffset(self, _when: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta(0)

    def dst(self, _when: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _when: datetime | None) -> str:
        return "counted"


def test_the_next_time_of_a_pattern_is_not_looked_for_second_by_second() -> None:
    zone = CountingZone()
    after = parse_rfc3339("2026-11-15T23:59:58Z")

    assert Cron("* * * * * *").following(after, zone) == after + SECOND
    # An hour has 3,600 seconds.
    assert zone.asked < 1000


@pytest.mark.parametrize(
    ("pattern", "after", "expected"),
    [
        ("0 0 0 1 1 *", "2026-11-15T11:00:00Z", "2027-01-01T00:00:00Z"),
        ("@hourly", "2026-11-15T11:00:00Z", "2026-11-15T12:00:00Z"),
        ("*/15 * * * * *", "2026-11-15T11:00:14.5Z", "2026-11-15T11:00:15Z"),
        ("0 30 9-17/4 * * mon-fri", "2026-11-15T11:00:00Z", "2026-11-16T09:30:00Z"),
        ("0 0 0 29 feb ?", "2026-11-15T11:00:00Z", "2028-02-29T00:00:00Z"),
        # Both days given: either will do.
        ("0 0 0 20 * tue", "2026-11-15T11:00:00Z", "2026-11-17T00:00:00Z"),
        ("59 59 23 31 12 *", "2026-12-31T23:59:58Z", "2026-12-31T23:59:59Z"),
    ],
)
def test_when_a_pattern_comes_next(pattern: str, after: str, expected: str) -> None:
    following = Cron(pattern).following(parse_rfc3339(after))

    assert format_rfc3339(following) == expected


def test_a_pattern_follows_the_clocks_of_its_zone() -> None:
    """03:00 in Berlin is 02:00 UTC in winter and 01:00 UTC in summer; 02:30 is skipped once."""
    zone = ZoneInfo("Europe/Berlin")
    winter = parse_rfc3339("2026-03-27T12:00:00Z")

    assert Cron("0 0 3 * * *").following(winter, zone) == parse_rfc3339("2026-03-28T02:00:00Z")
    skipped = Cron("0 30 2 29 3 *").following(winter, zone)
    assert datetime.fromtimestamp(skipped // SECOND, UTC).year == 2027


@pytest.mark.parametrize(
    "pattern", ["", "* * * * *", "60 * * * * *", "* * * 0 * *", "a * * * * *", "0 0 0 30 2 *"]
)
def test_a_pattern_that_makes_no_sense_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Cron(pattern).following(parse_rfc3339("2026-11-15T11:00:00Z"))
