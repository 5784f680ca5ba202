"""Streams while the clock of the machine is set forward and back, in virtual time.

``bench.now`` is engine time: the wall clock when a process starts, and then only what passes.
Each test that says what was previously so failed then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.engine.publishing import SECOND, ask, flush, headers_of, made, there, wait

from jetspark.units import Nanoseconds, format_rfc3339, parse_rfc3339

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream

HOUR = 3600 * SECOND
DAY = 24 * HOUR
YEAR = 365 * DAY
Y2200 = parse_rfc3339("2200-01-01T00:00:00Z")
Y2250 = parse_rfc3339("2250-01-01T00:00:00Z")
Y2262 = 2**63 - 2


def restarted(bench: Bench, jump: int) -> Stream:
    """The stream after a restart during which the clock was set."""
    bench.now += jump
    bench.restart()
    return bench.engine.streams["S"]


def set_clock(bench: Bench, lead: int) -> None:
    """The wall clock is set while the server runs; it is so far ahead of engine time."""
    bench.engine.follow_wall(bench.now, lead)


def times(stream: Stream) -> list[int]:
    return [int(stream.log.reader.time_of(seq)) for seq in there(stream)]


# Over a restart --------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-5 * SECOND, -HOUR, -30 * DAY, -50 * YEAR])
def test_a_ttl_ends_in_its_time_when_the_clock_was_set_back_over_a_restart(
    bench: Bench, jump: int
) -> None:
    """Previously it ended when the clock had caught up."""
    stream = made(bench, allow_msg_ttl=True)
    ask(bench, stream, ttl="10s")

    stream = restarted(bench, jump)
    wait(bench, 9.9)
    before = there(stream)
    wait(bench, 0.2)

    assert (before, there(stream)) == ([1], [])


@pytest.mark.parametrize("jump", [-5 * SECOND, -HOUR, -30 * DAY, -50 * YEAR])
def test_max_age_counts_what_passed_when_the_clock_was_set_back_over_a_restart(
    bench: Bench, jump: int
) -> None:
    """Previously messages stayed until the clock had caught up."""
    stream = made(bench, max_age=Nanoseconds(60 * SECOND))
    ask(bench, stream)
    wait(bench, 30)
    ask(bench, stream)

    stream = restarted(bench, jump)
    wait(bench, 29.9)
    both = there(stream)
    wait(bench, 0.2)
    one = there(stream)
    ask(bench, stream)
    wait(bench, 29.9)
    new = there(stream)
    wait(bench, 30.1)

    assert (both, one, new, there(stream)) == ([1, 2], [2], [3], [])


def test_duplicates_are_known_for_the_window_when_the_clock_was_set_back_over_a_restart(
    bench: Bench,
) -> None:
    """Previously an id was known for an hour and two minutes."""
    stream = made(bench)
    ask(bench, stream, msg_id="a")

    stream = restarted(bench, -HOUR)
    wait(bench, 119)
    known = ask(bench, stream, msg_id="a")
    wait(bench, 2)

    assert (known, ask(bench, stream, msg_id="a")) == (("duplicate", 1), 2)


def test_times_never_decrease_and_keep_their_distance_over_restarts(bench: Bench) -> None:
    """Previously all messages until the clock had caught up came within nanoseconds."""
    stream = made(bench)
    for jump in (-HOUR, -DAY, HOUR, -5 * SECOND, DAY):
        ask(bench, stream)
        wait(bench, 10)
        ask(bench, stream)
        stream = restarted(bench, jump)
    found = times(stream)

    assert found == sorted(set(found))
    passed = [found[at + 1] - found[at] for at in range(0, len(found), 2)]
    assert [round(each / SECOND, 6) for each in passed] == [10] * 5


def test_a_clock_set_forward_over_a_restart_ends_what_would_have_ended_by_then(
    bench: Bench,
) -> None:
    """No one can tell it from a server that was down that long."""
    stream = made(bench, max_age=Nanoseconds(HOUR))
    ask(bench, stream)
    wait(bench, 1800)
    ask(bench, stream)

    stream = restarted(bench, 45 * 60 * SECOND)

    assert there(stream) == [2]


# While the server runs -------------------------------------------------------------------------


def test_nothing_ends_early_when_the_clock_is_set_forward(bench: Bench) -> None:
    """Previously everything was an hour older, and ids were forgotten."""
    stream = made(bench, allow_msg_ttl=True, max_age=Nanoseconds(60 * SECOND))
    ask(bench, stream, ttl="30s")
    ask(bench, stream, msg_id="a")
    set_clock(bench, HOUR)
    ask(bench, stream, ttl="20s")
    ask(bench, stream)
    wait(bench, 19.9)
    all_of_them = there(stream)
    duplicate = ask(bench, stream, msg_id="a")
    wait(bench, 0.2)
    without_short = there(stream)
    wait(bench, 10)
    without_ttls = there(stream)
    wait(bench, 30)

    assert all_of_them == [1, 2, 3, 4]
    assert duplicate == ("duplicate", 2)
    assert (without_short, without_ttls, there(stream)) == ([1, 2, 4], [2, 4], [])


def test_messages_get_the_new_date_when_the_clock_is_set_forward(bench: Bench) -> None:
    stream = made(bench)
    ask(bench, stream)
    begun = bench.now
    set_clock(bench, HOUR)
    wait(bench, 1)
    ask(bench, stream)
    set_clock(bench, 0)
    wait(bench, 1)
    ask(bench, stream)

    assert times(stream) == [begun, begun + HOUR + SECOND, begun + HOUR + 2 * SECOND]


def test_a_clock_that_jumps_all_the_time_changes_no_age(bench: Bench) -> None:
    stream = made(bench, max_age=Nanoseconds(100 * SECOND))
    for step in range(200):
        set_clock(bench, [0, HOUR, -HOUR, step * DAY, 7 * SECOND][step % 5])
        ask(bench, stream)
        assert there(stream) == list(range(max(1, step - 98), step + 2))
        wait(bench, 1)
    found = times(stream)

    assert found == sorted(set(found))


def test_a_stream_created_while_the_clock_is_slow_has_the_date(bench: Bench) -> None:
    set_clock(bench, -HOUR)
    stream = made(bench, max_age=Nanoseconds(60 * SECOND))
    ask(bench, stream)
    (stored,) = times(stream)
    wait(bench, 59.9)
    before = there(stream)
    wait(bench, 0.2)

    assert stored == bench.now - HOUR - 60_100_000_000
    assert stream.created_ns == stored
    assert (before, there(stream)) == ([1], [])


def scheduled(bench: Bench) -> Stream:
    return made(
        bench, allow_msg_schedules=True, allow_rollup_hdrs=True, allow_direct=True,
    )  # fmt: skip


@pytest.mark.parametrize(("lead", "waits"), [(0, 7200), (HOUR, 3600), (-HOUR, 10800)])
def test_a_schedule_for_a_date_fires_at_that_date(bench: Bench, lead: int, waits: int) -> None:
    stream = scheduled(bench)
    date = "@at " + format_rfc3339(bench.now + 2 * HOUR)
    ask(bench, stream, b"s.plan", schedule=date, schedule_target="s.t")
    set_clock(bench, lead)

    wait(bench, waits - 1)
    before = there(stream)
    wait(bench, 2)

    assert (before, there(stream)) == ([1], [2])


@pytest.mark.parametrize("lead", [HOUR, -HOUR])
def test_a_schedule_that_repeats_continues_whatever_the_clock_says(
    bench: Bench, lead: int
) -> None:
    """Previously the stream would have waited for a clock that was set back over a restart."""
    stream = scheduled(bench)
    ask(bench, stream, b"s.plan", schedule="@every 10s", schedule_target="s.t")
    wait(bench, 21)
    before = there(stream)
    set_clock(bench, lead)
    wait(bench, 20)
    after = there(stream)
    said = headers_of(bench, stream, after[-1]).split(b"Nats-Schedule-Next: ")[1].split(b"\r\n")[0]
    bench.now += lead
    stream = restarted(bench, -HOUR)
    wait(bench, 20.5)

    assert before == [1, 2, 3]
    assert after == [1, 2, 3, 4, 5]
    assert abs(parse_rfc3339(said.decode()) - (bench.now + HOUR - 11 * SECOND)) < 10 * SECOND
    assert len(there(stream)) == 7


# Absurd times ----------------------------------------------------------------------------------


@pytest.mark.parametrize("year", [Y2200, Y2250])
def test_a_stream_from_the_far_future_is_served_and_harms_no_other(
    bench: Bench, year: int
) -> None:
    """Previously its messages stayed for ever, and new ones came within nanoseconds."""
    now = bench.now
    other = made(bench, name="OTHER", subjects=("o.>",), max_age=Nanoseconds(DAY))
    ask(bench, other, b"o.1")
    bench.now = year - HOUR
    stream = made(bench, allow_msg_ttl=True, max_age=Nanoseconds(60 * SECOND))
    ask(bench, stream, msg_id="a")
    ask(bench, stream, ttl="20s")

    bench.now = now
    stream = restarted(bench, 0)
    other = bench.engine.streams["OTHER"]
    duplicate = ask(bench, stream, msg_id="a")
    ask(bench, stream, ttl="30s")
    info = json.loads(bench.request(b"STREAM.INFO.S"))
    wait(bench, 25)
    without_short = there(stream)
    wait(bench, 10)
    without_ttls = there(stream)
    wait(bench, 30)

    assert duplicate == ("duplicate", 1)
    assert (without_short, without_ttls, there(stream)) == ([1, 3], [1], [])
    assert there(other) == [1]
    assert (times(other)[0] - now, bench.now - now) == (0, 65 * SECOND)
    assert info["ts"][:19] == info["state"]["last_ts"][:19]


def test_a_stream_from_1970_is_served(bench: Bench) -> None:
    now, bench.now = bench.now, 5 * SECOND
    stream = made(bench)
    ask(bench, stream)
    bench.now = now
    stream = restarted(bench, 0)
    ask(bench, stream)

    assert times(stream) == [5 * SECOND, now]


@pytest.mark.parametrize("ttls", [False, True])
def test_a_machine_that_starts_in_1970_serves_and_ends_what_it_should(
    bench: Bench, ttls: bool
) -> None:
    """As a board without a battery does, until it has asked for the time."""
    now = bench.now
    stream = made(bench, allow_msg_ttl=ttls, max_age=Nanoseconds(DAY))
    if ttls:
        ask(bench, stream, ttl="never")
        ask(bench, stream, ttl="1h")
    ask(bench, stream)
    bench.now += 3 * DAY - 10 * SECOND
    ask(bench, stream, msg_id="a")
    bench.now += 10 * SECOND
    newest = ask(bench, stream)

    bench.now = 5 * SECOND
    stream = restarted(bench, 0)
    wait(bench, 0.1)
    at_first = there(stream)
    duplicate = ask(bench, stream, msg_id="a")
    set_clock(bench, now + 4 * DAY - bench.now)
    wait(bench, 24 * 3600 - 15)
    kept = there(stream)
    wait(bench, 20)

    immortal = [1] if ttls else []
    assert at_first == [*immortal, newest - 1, newest]
    assert duplicate == ("duplicate", newest - 1)
    assert (kept, there(stream)) == (at_first, immortal)


def test_what_a_stream_from_the_future_sends_elsewhere_gets_the_time_of_that_stream(
    bench: Bench,
) -> None:
    """Previously a stream that stored what another one republished got its times."""
    from jetspark.api.stream import Republish

    now, bench.now = bench.now, Y2200
    again = Republish(src="s.>", dest="o.>")
    stream = made(bench, republish=again)
    bench.publish(stream, b"s.1", b"x")
    flush(bench)
    bench.now = now
    stream = restarted(bench, 0)
    other = made(bench, name="OTHER", subjects=("o.>",))
    bench.publish(stream, b"s.1", b"x")
    flush(bench)

    assert times(other) == [now]


def test_a_backup_with_times_of_the_future_is_served(bench: Bench) -> None:
    """Its messages grow old from when they were restored."""
    restored = _restored(bench, Y2262)
    wait(bench, 59.9)
    before = there(restored)
    wait(bench, 0.2)

    assert (before, there(restored)) == ([1], [])


def _restored(bench: Bench, time_ns: int) -> Stream:
    stream = made(bench, name="FROM", subjects=("f.>",))
    ask(bench, stream, b"f.1")
    config: dict[str, Any] = {
        "name": "S", "subjects": ["s.>"], "max_age": 60 * SECOND, "retention": "limits",
    }  # fmt: skip
    from jetspark.api.stream import StreamConfig
    from jetspark.engine.archive import ArchiveWriter
    from jetspark.engine.stream.config import prepared
    from jetspark.engine.stream.state import stream_state

    wanted = prepared(StreamConfig(name="S", subjects=("s.>",), max_age=Nanoseconds(60 * SECOND)))
    writer = ArchiveWriter()
    data = writer.head(wanted, stream_state(stream))
    data += writer.message(1, time_ns, b"s.1", b"", b"x")
    data += writer.finish([], 1)
    answer = json.loads(
        bench.request(b"STREAM.RESTORE.S", json.dumps({"config": config, "state": {}}).encode())
    )
    subject = answer["deliver_subject"].encode()
    for chunk in (data, b""):
        bench.engine.transfers.handle(subject, chunk, b"_R", bench.now, bench.outbox)
        flush(bench)
    bench.sent()
    return bench.engine.streams["S"]
