"""What monitoring must know of a server; the server implements these protocols.

Collecting costs nothing on the hot path. Per message only the traffic of the client and of its
account is counted (`TrafficView`), in integers of objects that the router has in hand anyway; the
server's totals are sums over accounts, made when somebody asks. All other numbers change per
connection, per chunk or per group of the committer, never per message.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import msgspec

from jetspark.api.base import Timestamp
from jetspark.server.jetstream.remotes import RemoteState
from jetspark.server.monitor.account_view import AccountView
from jetspark.server.monitor.connection_view import ClosedView, ConnectionView
from jetspark.server.monitor.jetstream_view import JetStreamView
from jetspark.server.monitor.replica_state import ReplicaState
from jetspark.server.monitor.settings_echo import ServerEcho


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who the server is: fixed when it starts."""

    server_id: str
    server_name: str
    version: str  # of the nats-server whose features it has (decisions.md)
    jetspark_version: str
    compiled: bool
    start_ns: int


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What the server counted since its start, besides traffic."""

    total_connections: int = 0  # accepted; counted in Server._accept
    slow_consumers: int = 0  # closed for pending bytes or a missed write deadline
    stale_connections: int = 0  # closed because PINGs went unanswered
    stalled_clients: int = 0  # how often reading from a publisher was paused
    internal_errors: int = 0  # requests and turns that raised what nobody expected


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the server does its work, for probes; ``reason`` says what it waits for.

    ``accepting`` is what `/healthz` asks: clients can connect. ``ready`` is also false while the
    server leaves (lame duck), so that `/readyz` takes it out of a load balancer first.
    """

    accepting: bool
    ready: bool
    reason: str = ""
    streams_recovered: int = 0
    streams_total: int = 0


class MonitorView(Protocol):
    """A server, as monitoring sees it. Every method is called in the server's own loop."""

    @property
    def identity(self) -> Identity:
        """Who it is."""
        ...

    @property
    def echo(self) -> ServerEcho:
        """What it was configured to; another one after a reload."""
        ...

    def now_ns(self) -> int:
        """Engine time: what durations are counted with."""
        ...

    def date(self, time_ns: int) -> Timestamp:
        """The date of an engine time."""
        ...

    def counters(self) -> Counters:
        """What was counted since the start."""
        ...

    def readiness(self) -> Readiness:
        """Whether it does its work."""
        ...

    def accounts(self) -> Collection[AccountView]:
        """All accounts."""
        ...

    def connections(self) -> Collection[ConnectionView]:
        """The open connections of clients."""
        ...

    def closed(self) -> Iterable[ClosedView]:
        """The connections that were closed last, oldest first (`closed.ClosedConnections`)."""
        ...

    def remotes(self) -> Sequence[RemoteState]:
        """The servers that streams can be copied from, by name."""
        ...

    def replica(self) -> ReplicaState | None:
        """Of what it is a read replica; None if it is none."""
        ...

    def jetstream(self) -> JetStreamView | None:
        """JetStream; None while it is off."""
        ...
