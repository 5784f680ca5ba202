"""Consumers while the clock of the machine is set forward and back, in virtual time.

``world.now`` is engine time: the wall clock when a process starts, and then only what passes.
"""

from __future__ import annotations

import pytest
from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences, status

from jetspark.api.base import Timestamp
from jetspark.api.enums import Retention
from jetspark.units import Nanoseconds

HOUR = 3600 * SECOND


def delivered(world: World, jump: int) -> None:
    """A consumer got a message, and the server is started again with the clock set."""
    stream = world.stream()
    world.publish(stream, b"s.1")
    world.consumer(stream, ack_wait=Nanoseconds(30 * SECOND))
    world.pull(b"1")
    assert sequences(world.got()) == [1]
    world.pass_time(SECOND)
    world.now += jump
    world.crash()


@pytest.mark.parametrize("jump", [-HOUR, -2 * SECOND, 0])
def test_a_message_is_delivered_again_in_its_time_when_the_clock_was_set_back_over_a_restart(
    world: World, jump: int
) -> None:
    """Previously it was when the clock had caught up."""
    delivered(world, jump)
    world.pull(b"1")
    world.pass_time(28 * SECOND)
    before = world.got()
    world.pass_time(3 * SECOND)

    assert before == []
    assert sequences(world.got()) == [1]


def test_what_happened_before_the_restart_is_not_shown_as_still_to_come(world: World) -> None:
    delivered(world, -HOUR)
    info = world.info(world.engine.streams["S"].consumers["c"])

    assert info.delivered.last_active == Timestamp(world.now)


@pytest.mark.parametrize("lead", [HOUR, -HOUR])
def test_no_acknowledgement_or_request_is_late_or_early_when_the_clock_is_set(
    world: World, lead: int
) -> None:
    """Previously a clock set forward delivered all of them again and ended every request."""
    stream = world.stream()
    world.publish(stream, b"s.1")
    consumer = world.consumer(stream, ack_wait=Nanoseconds(30 * SECOND))
    world.pull(b"1")
    world.got()
    world.pull(b'{"batch":1,"expires":20000000000}', b"_R.2")
    world.engine.follow_wall(world.now, lead)
    world.pass_time(19 * SECOND)
    waiting = world.info(consumer).num_waiting
    world.pass_time(2 * SECOND)
    ended = [status(message)[:3] for message in world.got(b"_R.2")]
    world.pull(b"1", b"_R.3")
    world.pass_time(8 * SECOND)
    before = world.got(b"_R.3")
    world.pass_time(2 * SECOND)

    assert (waiting, ended, before) == (1, [b"408"], [])
    assert sequences(world.got(b"_R.3")) == [1]


def test_no_consumer_is_inactive_because_the_clock_was_set(world: World) -> None:
    """Previously a clock set forward removed consumers, and one set back kept them."""
    stream = world.stream()
    world.consumer(stream, inactive_threshold=Nanoseconds(60 * SECOND))
    world.engine.follow_wall(world.now, HOUR)
    world.pass_time(30 * SECOND)
    kept = list(stream.consumers)
    world.now -= HOUR
    world.crash()
    stream = world.engine.streams["S"]
    world.pass_time(59 * SECOND)
    still = list(stream.consumers)
    world.pass_time(2 * SECOND)

    assert (kept, still, list(stream.consumers)) == (["c"], ["c"], [])


@pytest.mark.parametrize(("lead", "waits"), [(0, 7200), (HOUR, 3600), (-HOUR, 10800)])
def test_a_pause_ends_at_its_date(world: World, lead: int, waits: int) -> None:
    stream = world.stream()
    world.publish(stream, b"s.1")
    until = Timestamp(world.now + 2 * HOUR)
    consumer = world.consumer(stream, pause_until=until)
    world.engine.follow_wall(world.now, lead)
    world.turn()
    info = world.info(consumer)
    world.pull(b"1")
    world.pass_time((waits - 1) * SECOND)
    before = world.got()
    world.pass_time(2 * SECOND)

    assert (before, sequences(world.got())) == ([], [1])
    assert info.pause_remaining == waits * SECOND
    assert info.ts == Timestamp(until - waits * SECOND)


def test_a_pause_that_is_over_by_the_new_date_ends_at_once(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.1")
    world.consumer(stream, pause_until=Timestamp(world.now + HOUR))
    world.pull(b"1")
    world.engine.follow_wall(world.now, 2 * HOUR)
    world.turn()

    assert sequences(world.got()) == [1]


def test_a_replay_does_not_wait_for_an_hour_that_never_passed(world: World) -> None:
    """Previously a clock set forward made a gap that a replay at the original pace waited for."""
    stream = world.stream()
    world.publish(stream, b"s.1")
    world.pass_time(10 * MS)
    world.engine.follow_wall(world.now, HOUR)
    world.publish(stream, b"s.2")
    world.consumer(stream, replay_policy="original")
    world.pull(b"2")
    world.pass_time(SECOND)

    assert sequences(world.got()) == [1, 2]


def test_the_journal_says_dates_so_that_another_process_understands_it(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.1")
    world.consumer(stream, ack_wait=Nanoseconds(30 * SECOND))
    world.engine.follow_wall(world.now, HOUR)
    world.pull(b"1")
    world.got()
    world.pass_time(SECOND)
    world.now += HOUR
    world.crash()
    world.pull(b"1")
    world.pass_time(28 * SECOND)
    before = world.got()
    world.pass_time(3 * SECOND)

    assert before == []
    assert sequences(world.got()) == [1]


@pytest.mark.parametrize("lead", [HOUR, -HOUR, -50 * 365 * 24 * HOUR])
def test_a_pause_until_the_end_of_time_stays_one(world: World, lead: int) -> None:
    stream = world.stream()
    world.publish(stream, b"s.1")
    consumer = world.consumer(stream, pause_until=Timestamp(2**63 - 1))
    world.engine.follow_wall(world.now, lead)
    world.pull(b"1")
    world.pass_time(HOUR)

    assert (world.info(consumer).paused, world.got()) == (True, [])


def test_a_message_without_interest_has_the_time_of_the_stream(world: World) -> None:
    """A stream whose newest message is ahead of the clock stays ahead of it, and only it."""
    stream = world.stream(retention=Retention.INTEREST)
    world.engine.follow_wall(world.now, HOUR)
    world.publish(stream, b"s.1")

    assert stream.log.index.last_time == world.now + HOUR
