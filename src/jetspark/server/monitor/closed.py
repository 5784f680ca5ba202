"""The connections that were closed last, for ``/connz?state=closed``, and why they were closed."""

from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from jetspark.server.monitor.connection_view import ConnectionDetails, ConnectionView
from jetspark.server.monitor.traffic import Traffic

CLOSED_MAX: Final = 10_000
"""How many are kept: nats-server's default for ``max_closed_clients``."""

SUBSCRIPTIONS_MAX: Final = 100_000
"""How many subscriptions all of them keep together; the oldest lose their lists first."""


class Reason(StrEnum):
    """Why a connection was closed, in nats-server's words."""

    CLIENT_CLOSED = "Client Closed"
    AUTHENTICATION_TIMEOUT = "Authentication Timeout"
    AUTHENTICATION_FAILURE = "Authentication Failure"
    AUTHENTICATION_EXPIRED = "Authentication Expired"
    TLS_HANDSHAKE_FAILURE = "TLS Handshake Failure"
    SLOW_CONSUMER_PENDING_BYTES = "Slow Consumer (Pending Bytes)"
    SLOW_CONSUMER_WRITE_DEADLINE = "Slow Consumer (Write Deadline)"
    WRITE_ERROR = "Write Error"
    READ_ERROR = "Read Error"
    PARSE_ERROR = "Parse Error"
    STALE_CONNECTION = "Stale Connection"
    PROTOCOL_VIOLATION = "Protocol Violation"
    BAD_CLIENT_PROTOCOL_VERSION = "Bad Client Protocol Version"
    MAXIMUM_CONNECTIONS = "Maximum Connections Exceeded"
    MAXIMUM_ACCOUNT_CONNECTIONS = "Maximum Account Connections Exceeded"
    MAXIMUM_PAYLOAD = "Maximum Message Payload Exceeded"
    MAXIMUM_CONTROL_LINE = "Maximum Control Line Exceeded"
    MAXIMUM_SUBSCRIPTIONS = "Maximum Subscriptions Exceeded"
    SERVER_SHUTDOWN = "Server Shutdown"
    MISSING_ACCOUNT = "Missing Account"
    CREDENTIALS_REVOKED = "Credentials Revoked"
    HEADER_VIOLATION = "Message Header Violation"
    NO_RESPONDERS_NEEDS_HEADERS = "No Responders Requires Headers"
    KICKED = "Kicked"


# What a client was told, in lower case, and what that means.
_TOLD: Final = {
    b"": Reason.PARSE_ERROR,  # closed without a word: not even the line could be read
    b"unknown protocol operation": Reason.PARSE_ERROR,
    b"authorization violation": Reason.AUTHENTICATION_FAILURE,
    b"authentication timeout": Reason.AUTHENTICATION_TIMEOUT,
    b"user authentication expired": Reason.AUTHENTICATION_EXPIRED,
    b"user authentication revoked": Reason.CREDENTIALS_REVOKED,
    b"stale connection": Reason.STALE_CONNECTION,
    b"slow consumer": Reason.SLOW_CONSUMER_PENDING_BYTES,
    b"maximum connections exceeded": Reason.MAXIMUM_CONNECTIONS,
    b"maximum account active connections exceeded": Reason.MAXIMUM_ACCOUNT_CONNECTIONS,
    b"maximum payload violation": Reason.MAXIMUM_PAYLOAD,
    b"maximum control line exceeded": Reason.MAXIMUM_CONTROL_LINE,
    b"maximum subscriptions exceeded": Reason.MAXIMUM_SUBSCRIPTIONS,
    b"invalid client protocol": Reason.BAD_CLIENT_PROTOCOL_VERSION,
    b"no responders requires headers support": Reason.NO_RESPONDERS_NEEDS_HEADERS,
    b"message headers not supported": Reason.HEADER_VIOLATION,
    b"server shutdown": Reason.SERVER_SHUTDOWN,
}


def reason_of(told: bytes | None) -> Reason:
    """Return why a connection ended, from the last ``-ERR`` of the server.

    None: the server did not end it, the client did.
    """
    if told is None:
        return Reason.CLIENT_CLOSED
    return _TOLD.get(told.lower(), Reason.PROTOCOL_VIOLATION)


class ClosedSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that a closed connection had."""

    subject: bytes
    queue: bytes
    sid: bytes
    delivered: int
    max_msgs: int


class ClosedConnection(msgspec.Struct, kw_only=True):
    """What is left of a connection."""

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
        """What did not change while it lived."""
        return self.kept_details

    def subscriptions(self) -> tuple[ClosedSubscription, ...]:
        """What it had subscribed to; empty once newer connections needed the room."""
        return self.kept_subscriptions

    def request_rtt(self) -> None:
        """Nobody is there to ask."""


class ClosedConnections:
    """The connections that were closed last, oldest first.

    Beyond ``count_max`` the oldest is forgotten; beyond ``subscriptions_max`` subscriptions in
    all, the oldest ones keep their numbers and lose their lists.
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
        """Keep what is worth keeping of a connection. Call it before its subscriptions go."""
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
