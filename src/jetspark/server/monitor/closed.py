"""The most recently closed connections, for ``/connz?state=closed``."""

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from jetspark.server.monitor.connection_view import ConnectionDetails, ConnectionView
from jetspark.server.monitor.traffic import Traffic

CLOSED_MAX: Final = 10_000
"""The number of connections: nats-server's default for ``max_closed_clients``."""

SUBSCRIPTIONS_MAX: Final = 100_000
"""The number of subscriptions of all of them; the oldest connections lose theirs first."""


class ClosedSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that a closed connection had."""

    subject: bytes
    queue: bytes
    sid: bytes
    delivered: int
    max_msgs: int


class ClosedConnection(msgspec.Struct, kw_only=True):
    """A record of a closed connection."""

    cid: int
    account: str
    start_ns: int
    last_ns: int
    stop_ns: int
    reason: str
    rtt_ns: int
    traffic: Traffic
    stalls: int
    subscription_count: int
    kept_details: ConnectionDetails
    kept_subscriptions: tuple[ClosedSubscription, ...]
    pending_bytes: int = 0

    def details(self) -> ConnectionDetails:
        """The facts that never changed."""
        return self.kept_details

    def subscriptions(self) -> tuple[ClosedSubscription, ...]:
        """Its subscriptions; empty once newer connections needed the room."""
        return self.kept_subscriptions

    def request_rtt(self) -> None:
        """Do nothing: the client has disconnected."""


class ClosedConnections:
    """The most recently closed connections, oldest first.

    Beyond ``count_max`` the oldest is dropped; beyond ``subscriptions_max`` subscriptions in
    total, the oldest ones keep their counts and lose their lists.
    """

    def __init__(
        self, count_max: int = CLOSED_MAX, subscriptions_max: int = SUBSCRIPTIONS_MAX
    ) -> None:
        self._count_max = count_max
        self._subscriptions_max = subscriptions_max
        self._subscriptions = 0
        self._closed: deque[ClosedConnection] = deque()
        self._listed: deque[ClosedConnection] = deque()

    def add(self, connection: ConnectionView, stop_ns: int, reason: str) -> None:
        """Record a connection. Call it before its subscriptions are removed."""
        if self._count_max <= 0:
            return
        while len(self._closed) >= self._count_max:
            forgotten = self._closed.popleft()
            if self._listed and self._listed[0] is forgotten:
                self._drop_list()
        subscriptions: tuple[ClosedSubscription, ...] = ()
        if connection.subscription_count <= self._subscriptions_max:
            subscriptions = tuple(
                ClosedSubscription(
                    subject=each.subject,
                    queue=each.queue,
                    sid=each.sid,
                    delivered=each.delivered,
                    max_msgs=each.max_msgs,
                )
                for each in connection.subscriptions()
            )
        traffic = Traffic()
        traffic.add(connection.traffic)
        closed = ClosedConnection(
            cid=connection.cid,
            account=connection.account,
            start_ns=connection.start_ns,
            last_ns=connection.last_ns,
            stop_ns=stop_ns,
            reason=reason,
            rtt_ns=connection.rtt_ns,
            traffic=traffic,
            stalls=connection.stalls,
            subscription_count=connection.subscription_count,
            kept_details=connection.details(),
            kept_subscriptions=subscriptions,
        )
        self._closed.append(closed)
        if subscriptions:
            self._listed.append(closed)
            self._subscriptions += len(subscriptions)
            while self._subscriptions > self._subscriptions_max:
                self._drop_list()

    def __len__(self) -> int:
        return len(self._closed)

    def __iter__(self) -> Iterator[ClosedConnection]:
        return iter(self._closed)

    def _drop_list(self) -> None:
        oldest = self._listed.popleft()
        self._subscriptions -= len(oldest.kept_subscriptions)
        oldest.kept_subscriptions = ()
