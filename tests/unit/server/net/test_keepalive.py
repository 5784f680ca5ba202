"""Pings, authentication and write deadlines, without waiting for any of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from jetspark.server.close_reason import CloseReason
from jetspark.server.net.connection import Connection
from jetspark.server.net.keepalive import EXPIRED_PER_TURN, FIRST_PING_NS, Keepalive

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


class ManualClock:
    """Time moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0
        self.wall_lead_ns = 0

    def wall_ns(self) -> int:
        return self.now_ns()

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now


@dataclass
class FakeReceiver:
    paused: bool = False


@dataclass
class FakeClient:
    closing: bool = False
    told: list[bytes] = field(default_factory=list)
    receiver: FakeReceiver = field(default_factory=FakeReceiver)

    def close(self, text: bytes, _reason: CloseReason) -> None:
        self.closing = True
        self.told.append(text)


@dataclass
class FakeSession:
    connected: bool = False
    pings_out: int = 0
    last_read_ns: int = 0
    rtt_ns: int = 0
    rtt_at_ns: int = 0
    pings: int = 0

    def ping(self, _now: int) -> None:
        self.pings += 1
        self.pings_out += 1

    def answer(self, now: int) -> None:
        self.pings_out = 0
        self.last_read_ns = now
        self.rtt_ns, self.rtt_at_ns = 1, now


@dataclass(eq=False)
class FakeConnection:
    client: FakeClient = field(default_factory=FakeClient)
    session: FakeSession = field(default_factory=FakeSession)
    given: int = 1000
    waiting: int = 0
    cut: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    aborts: int = 0

    def taken_bytes(self) -> int:
        return self.given - self.waiting

    def waiting_bytes(self) -> int:
        return self.waiting

    def disconnect_slow(self, details: str, _reason: CloseReason) -> None:
        self.cut.append(details)

    def abort(self, _reason: CloseReason) -> None:
        self.aborts += 1

    def fail(self, error: Exception) -> None:
        self.failures.append(error)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def keepalive(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Keepalive:
    """The timers, without a loop to arm: tests call ``expire`` themselves."""
    monkeypatch.setattr(Keepalive, "_rearm", lambda _self: None)
    return Keepalive(
        clock,
        lambda: None,
        ping_interval_ns=2 * MINUTE,
        ping_max=2,
        auth_timeout_ns=2 * SECOND,
        write_deadline_ns=10 * SECOND,
    )


def real(fake: FakeConnection) -> Connection:
    return cast("Connection", fake)


def test_the_first_ping_comes_after_two_seconds(keepalive: Keepalive) -> None:
    connection = FakeConnection()
    keepalive.expect_life(real(connection))

    keepalive.expire(FIRST_PING_NS - 1)
    assert connection.session.pings == 0
    keepalive.expire(FIRST_PING_NS)

    assert connection.session.pings == 1


def test_a_client_that_never_answers_is_stale(keepalive: Keepalive) -> None:
    """Two unanswered pings are allowed."""
    connection = FakeConnection()
    keepalive.expect_life(real(connection))

    keepalive.expire(FIRST_PING_NS)
    keepalive.expire(FIRST_PING_NS + 2 * MINUTE)
    assert connection.client.told == []
    keepalive.expire(FIRST_PING_NS + 4 * MINUTE)

    assert connection.client.told == [b"Stale Connection"]
    assert keepalive.next_deadline() is None


def test_a_client_that_sends_is_not_pinged(keepalive: Keepalive) -> None:
    connection = FakeConnection()
    keepalive.expect_life(real(connection))
    keepalive.expire(FIRST_PING_NS)
    connection.session.answer(FIRST_PING_NS)

    due = FIRST_PING_NS + 2 * MINUTE
    connection.session.last_read_ns = due - SECOND
    keepalive.expire(due)
    assert connection.session.pings == 1
    keepalive.expire(due + 2 * MINUTE)

    assert connection.session.pings == 2


def test_connect_must_come_in_time(keepalive: Keepalive) -> None:
    late, quick = FakeConnection(), FakeConnection()
    keepalive.expect_connect(real(late))
    keepalive.expect_connect(real(quick))
    quick.session.connected = True
    assert keepalive.next_deadline() == 2 * SECOND

    keepalive.expire(2 * SECOND)

    assert late.client.told == [b"Authentication Timeout"]
    assert quick.client.told == []


def test_a_reader_that_makes_no_progress_is_disconnected(
    keepalive: Keepalive, clock: ManualClock
) -> None:
    """Stall, then disconnect with reason."""
    stuck, slow, flooded, healthy = (FakeConnection() for _ in range(4))
    for connection in (stuck, slow, flooded, healthy):
        connection.waiting = 1000
        connection.client.receiver.paused = True
        keepalive.expect_reading(real(connection))
    slow.waiting = 900
    # It read two thousand bytes, and more than that came: what counts is that it reads.
    flooded.given, flooded.waiting = 6000, 4000
    healthy.client.receiver.paused = False

    clock.now = 10 * SECOND
    keepalive.expire(clock.now)

    assert stuck.cut == ["write deadline exceeded"]
    assert slow.cut == flooded.cut == healthy.cut == []
    assert keepalive.next_deadline() == 20 * SECOND


def test_a_closed_connection_is_forgotten(keepalive: Keepalive) -> None:
    connection = FakeConnection()
    keepalive.expect_connect(real(connection))
    keepalive.expect_life(real(connection))
    keepalive.expect_reading(real(connection))

    keepalive.forget(real(connection))

    assert keepalive.next_deadline() is None


def test_a_closing_connection_has_until_the_write_deadline(
    keepalive: Keepalive, clock: ManualClock
) -> None:
    connection = FakeConnection()
    keepalive.expect_life(real(connection))
    connection.client.closing = True
    clock.now = SECOND
    keepalive.expect_end(real(connection))

    keepalive.expire(11 * SECOND - 1)
    assert connection.aborts == 0
    keepalive.expire(11 * SECOND)

    assert connection.aborts == 1
    assert connection.session.pings == 0


class BrokenSession(FakeSession):
    def ping(self, _now: int) -> None:
        raise RuntimeError("broken")


def test_a_connection_that_cannot_be_pinged_does_not_stop_the_others(
    keepalive: Keepalive,
) -> None:
    broken, other = FakeConnection(session=BrokenSession()), FakeConnection()
    keepalive.expect_life(real(broken))
    keepalive.expect_life(real(other))

    keepalive.expire(FIRST_PING_NS)

    assert [str(error) for error in broken.failures] == ["broken"]
    assert other.session.pings == 1


def test_shorter_times_reach_those_who_wait_already(
    keepalive: Keepalive, clock: ManualClock
) -> None:
    old, new = FakeConnection(), FakeConnection()
    keepalive.expect_life(real(old))
    keepalive.expire(FIRST_PING_NS)  # the next one would be in two minutes
    old.session.answer(FIRST_PING_NS)
    clock.now = FIRST_PING_NS

    keepalive.follow(
        ping_interval_ns=SECOND,
        ping_max=2,
        auth_timeout_ns=2 * SECOND,
        write_deadline_ns=10 * SECOND,
    )
    keepalive.expect_life(real(new))
    keepalive.expire(FIRST_PING_NS + SECOND)

    assert (old.session.pings, new.session.pings) == (2, 1)


def test_connections_that_are_due_together_are_closed_in_several_turns(
    keepalive: Keepalive,
) -> None:
    """Thousands that connected at once and say nothing: closing all of them takes long."""
    connections = [FakeConnection() for _ in range(3 * EXPIRED_PER_TURN)]
    for each in connections:
        keepalive.expect_connect(real(each))
    closed: list[int] = []

    for _ in range(3):
        keepalive.expire(2 * SECOND)
        closed.append(sum(each.client.closing for each in connections))
        deadline = keepalive.next_deadline()
        assert deadline is None or deadline <= 2 * SECOND  # the timer follows at once

    assert closed == [EXPIRED_PER_TURN, 2 * EXPIRED_PER_TURN, 3 * EXPIRED_PER_TURN]
    assert keepalive.next_deadline() is None
