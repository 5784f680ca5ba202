"""Idle-client timers: PING/PONG, CONNECT timeout, write deadline, end of closing connections.

One timer for all connections, not one each. All deadlines of a kind are equally far away, so a
dict in insertion order is a queue from which a closed connection can be removed immediately.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jetspark.clock import Clock
from jetspark.server.close_reason import CloseReason

if TYPE_CHECKING:
    from jetspark.server.net.connection import Connection

log: logging.Logger = logging.getLogger("jetspark.server")

AUTHENTICATION_TIMEOUT: Final = b"Authentication Timeout"
STALE_CONNECTION: Final = b"Stale Connection"
# The first ping is sent soon, to measure the round trip time (firstClientPingInterval).
FIRST_PING_NS: Final = 2_000_000_000
# This many deadlines of a kind are handled per turn of the loop: to close a connection takes about
# 30 microseconds, and thousands may have connected together.
EXPIRED_PER_TURN: Final = 64
# Later ones are skipped while the client sends, unless the round trip time is this old.
RTT_AGE_MAX_NS: Final = 3_600_000_000_000


class Keepalive:
    """The timers of all connections of a server. ``flush`` writes the output of expiry."""

    def __init__(
        self,
        clock: Clock,
        flush: Callable[[], object],
        *,
        ping_interval_ns: int,
        ping_max: int,
        auth_timeout_ns: int,
        write_deadline_ns: int,
    ) -> None:
        self._clock = clock
        self._flush = flush
        # Connection -> deadline, in the order of deadlines.
        self._connecting: dict[Connection, int] = {}
        self._first_pings: dict[Connection, int] = {}
        self._pings: dict[Connection, int] = {}
        self._writing: dict[Connection, int] = {}
        self._ending: dict[Connection, int] = {}
        # How many bytes a connection had accepted when its write deadline was set.
        self._taken: dict[Connection, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        # How many connections were closed because the client did not answer.
        self.stale: int = 0
        self._ping_interval_ns = ping_interval_ns
        self._ping_max = ping_max
        self._auth_timeout_ns = auth_timeout_ns
        self._write_deadline_ns = write_deadline_ns

    def follow(
        self,
        *,
        ping_interval_ns: int,
        ping_max: int,
        auth_timeout_ns: int,
        write_deadline_ns: int,
    ) -> None:
        """Apply these times; deadlines that are further away are moved."""
        self._ping_interval_ns = ping_interval_ns
        self._ping_max = ping_max
        self._auth_timeout_ns = auth_timeout_ns
        self._write_deadline_ns = write_deadline_ns
        now = self._clock.now_ns()
        # Each queue stays ordered: whatever is added is no earlier.
        for queue, wait in (
            (self._connecting, auth_timeout_ns),
            (self._first_pings, min(FIRST_PING_NS, ping_interval_ns)),
            (self._pings, ping_interval_ns),
            (self._writing, write_deadline_ns),
            (self._ending, write_deadline_ns),
        ):
            for connection, deadline in queue.items():
                queue[connection] = min(deadline, now + wait)
        if any(self._queues()):
            self._rearm()

    def expect_connect(self, connection: "Connection") -> None:
        """Require CONNECT within the authentication timeout."""
        self._connecting[connection] = self._clock.now_ns() + self._auth_timeout_ns
        self._rearm()

    def expect_life(self, connection: "Connection") -> None:
        """Ping the connection from now on."""
        wait = min(FIRST_PING_NS, self._ping_interval_ns)
        self._first_pings[connection] = self._clock.now_ns() + wait
        self._rearm()

    def expect_reading(self, connection: "Connection") -> None:
        """Require that the connection reads something by the write deadline."""
        self._writing.pop(connection, None)
        self._writing[connection] = self._clock.now_ns() + self._write_deadline_ns
        self._taken[connection] = connection.taken_bytes()
        self._rearm()

    def expect_end(self, connection: "Connection") -> None:
        """Require that a closing connection reads its output by the write deadline."""
        self.forget(connection)
        self._ending[connection] = self._clock.now_ns() + self._write_deadline_ns
        self._rearm()

    def forget(self, connection: "Connection") -> None:
        """Remove a closed connection."""
        for queue in self._queues():
            queue.pop(connection, None)
        self._taken.pop(connection, None)

    def _queues(self) -> "tuple[dict[Connection, int], ...]":
        return (self._connecting, self._first_pings, self._pings, self._writing, self._ending)

    def expire(self, now: int) -> None:
        """Do what is due. If that is too much for one turn, the next deadline stays in the past.

        A connection for which that fails is closed; the others continue.
        """
        for queue, act in (
            (self._ending, self._cut),
            (self._connecting, self._refuse_silent),
            (self._writing, self._judge_reader),
            (self._first_pings, self._ping),
            (self._pings, self._ping),
        ):
            for connection in due(queue, now):
                try:
                    act(connection, now)
                except Exception as error:  # noqa: BLE001 - one connection
                    connection.fail(error)

    def _cut(self, connection: "Connection", _now: int) -> None:
        log.debug(
            "%s: closed, %d bytes were not read in time",
            connection.session,
            connection.waiting_bytes(),
        )
        connection.abort(CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)

    def _refuse_silent(self, connection: "Connection", _now: int) -> None:
        if not connection.session.connected and not connection.client.closing:
            connection.client.close(AUTHENTICATION_TIMEOUT, CloseReason.AUTHENTICATION_TIMEOUT)

    def _ping(self, connection: "Connection", now: int) -> None:
        if connection.client.closing:
            return
        session = connection.session
        quiet = now - session.last_read_ns >= self._ping_interval_ns
        if quiet or session.rtt_ns == 0 or now - session.rtt_at_ns > RTT_AGE_MAX_NS:
            if session.pings_out + 1 > self._ping_max:
                self.stale += 1
                connection.client.close(STALE_CONNECTION, CloseReason.STALE_CONNECTION)
                return
            session.ping(now)
        self._pings[connection] = now + self._ping_interval_ns

    def _judge_reader(self, connection: "Connection", _now: int) -> None:
        before = self._taken.pop(connection, 0)
        if connection.client.closing or not connection.client.receiver.paused:
            return
        if connection.taken_bytes() > before:
            self.expect_reading(connection)
        else:
            connection.disconnect_slow(
                "write deadline exceeded", CloseReason.SLOW_CONSUMER_WRITE_DEADLINE
            )

    def next_deadline(self) -> int | None:
        """Return when the next deadline is."""
        return min((next(iter(queue.values())) for queue in self._queues() if queue), default=None)

    def _rearm(self) -> None:
        deadline = self.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        self.stop()
        wait = max(0, deadline - self._clock.now_ns()) / 1e9
        self._timer_at = deadline
        self._timer = asyncio.get_running_loop().call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self.expire(self._clock.now_ns())
            self._flush()
        finally:
            self._rearm()

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def due(queue: "dict[Connection, int]", now: int) -> "list[Connection]":
    """Remove and return connections whose deadline has passed: at most those of one turn."""
    found: list[Connection] = []
    for connection, deadline in queue.items():
        if deadline > now or len(found) == EXPIRED_PER_TURN:
            break
        found.append(connection)
    for connection in found:
        del queue[connection]
    return found
