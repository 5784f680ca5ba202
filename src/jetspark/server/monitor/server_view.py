"""A running server as monitoring sees it: `MonitorView` over ``server.server.Server``.

Objects here are made when somebody asks and hold nothing but a reference.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jetspark.engine.stream.config import API_LEVEL
from jetspark.server.accounts import Account
from jetspark.server.connection import Connection
from jetspark.server.monitor.account_view import AccountDetails, SublistCounts, TrafficView
from jetspark.server.monitor.connection_view import (
    ClosedView,
    ConnectionDetails,
    ConnectionView,
    SubscriptionView,
)
from jetspark.server.monitor.echo import account_details, jetstream_echo, server_echo
from jetspark.server.monitor.jetstream_view import JetStreamView, LostStream
from jetspark.server.monitor.machine import memory_budget, storage_budget
from jetspark.server.monitor.settings_echo import JetStreamEcho, ServerEcho
from jetspark.server.monitor.store_view import CommitStats
from jetspark.server.monitor.stream_adapter import EngineAdapter
from jetspark.server.monitor.tally import Tally
from jetspark.server.monitor.tls import details as tls_details
from jetspark.server.monitor.view import Counters, Identity, Readiness
from jetspark.version import COMPILED, NATS_VERSION, VERSION

if TYPE_CHECKING:
    from jetspark.server.server import Server


class ServerView:
    """What monitoring asks; the server keeps one and tells it what it cannot see itself.

    ``recovering`` is what `/readyz` says while streams are recovered, with how many are done of
    how many; empty otherwise. ``http_port`` and ``https_port`` are the ports that are listened on.
    """

    def __init__(self, server: "Server", tally: Tally) -> None:
        self.http_port = 0
        self.https_port = 0
        self.config_load_ns = server.clock.now_ns()
        self.recovering = ""
        self.streams_recovered = 0
        self.streams_total = 0
        self.lost: list[LostStream] = []
        self.store_dir = server.settings.jetstream.store_dir
        self._server = server
        self._tally = tally
        self._start_ns = server.clock.now_ns()

    @property
    def identity(self) -> Identity:
        """Who it is."""
        return Identity(
            server_id=self._server.server_id,
            server_name=self._server.server_name,
            version=NATS_VERSION,
            jetspark_version=VERSION,
            compiled=COMPILED,
            start_ns=self._start_ns,
        )

    @property
    def echo(self) -> ServerEcho:
        """What it was configured to."""
        server = self._server
        return server_echo(
            server.settings,
            port=self._port() or server.settings.port,
            http_port=self.http_port,
            https_port=self.https_port,
            config_load_ns=self.config_load_ns,
            auth_required=server.authenticator.announced,
        )

    def now_ns(self) -> int:
        """Engine time."""
        return self._server.clock.now_ns()

    def counters(self) -> Counters:
        """What was counted since the start."""
        return Counters(
            total_connections=self._server.total_connections,
            slow_consumers=self._server.slow_consumers,
            stale_connections=self._tally.stale_connections,
            stalled_clients=self._tally.stalled_clients,
        )

    def readiness(self) -> Readiness:
        """Whether it does its work."""
        reason = self.recovering
        accepting = not reason and self._port() != 0
        if not reason and not accepting:
            reason = "not listening for clients"
        elif accepting and self._server.lame_duck:
            reason = "lame duck mode"
        return Readiness(
            accepting=accepting,
            ready=accepting and not reason,
            reason=reason,
            streams_recovered=self.streams_recovered,
            streams_total=self.streams_total,
        )

    def accounts(self) -> "Collection[AccountAdapter]":
        """All accounts."""
        return [
            AccountAdapter(self._server, account, self.config_load_ns)
            for account in self._server.accounts.values()
        ]

    def connections(self) -> Collection[ConnectionView]:
        """The open connections."""
        return [ConnectionAdapter(self._server, each) for each in self._server.connections]

    def closed(self) -> Iterable[ClosedView]:
        """The connections that were closed last."""
        return self._tally.closed

    def jetstream(self) -> JetStreamView | None:
        """JetStream; None while it is off."""
        if not self._server.settings.jetstream.enabled:
            return None
        return JetStreamAdapter(self._server, self._tally, self.store_dir, self.lost)

    def _port(self) -> int:
        try:
            return self._server.port
        except (RuntimeError, IndexError):
            return 0  # it has not started, or has stopped listening


class ConnectionAdapter:
    """One connection; a `ConnectionView`."""

    __slots__ = ("_connection", "_server")

    def __init__(self, server: "Server", connection: Connection) -> None:
        self._server = server
        self._connection = connection

    @property
    def cid(self) -> int:
        """Its number."""
        return self._connection.session.client_id

    @property
    def account(self) -> str:
        """The name of its account, or of the one it will have if nobody asks who it is."""
        user = self._connection.session.user
        return self._server.default_account.name if user is None else user.account.name

    @property
    def start_ns(self) -> int:
        """When it was made."""
        return self._connection.session.started_ns

    @property
    def last_ns(self) -> int:
        """The last chunk it sent."""
        return self._connection.session.last_read_ns

    @property
    def rtt_ns(self) -> int:
        """Its round trip; 0 until there was one."""
        return self._connection.session.rtt_ns

    @property
    def pending_bytes(self) -> int:
        """What it has not read yet."""
        return self._connection.waiting_bytes() + len(self._connection.client.receiver.out)

    @property
    def traffic(self) -> TrafficView:
        """What went through it."""
        return self._connection.client.receiver.traffic

    @property
    def stalls(self) -> int:
        """Stalls are counted for the whole server only."""
        return 0

    @property
    def subscription_count(self) -> int:
        """How many subscriptions it has."""
        return len(self._connection.client.subscriptions)

    def details(self) -> ConnectionDetails:
        """What does not change once it said CONNECT."""
        session = self._connection.session
        options, tls = session.options, self._server.tls
        return ConnectionDetails(
            ip=session.ip,
            port=session.port,
            name=options.name,
            lang=options.lang,
            version=options.version,
            user=options.nkey or options.user or ("[REDACTED]" if options.auth_token else ""),
            account=self.account,
            jwt=options.jwt,
            tls=(
                None
                if session.tls is None
                else tls_details(session.tls, first=tls is not None and tls.handshake_first)
            ),
        )

    def subscriptions(self) -> Iterable[SubscriptionView]:
        """Its subscriptions."""
        return list(self._connection.client.subscriptions.values())

    def request_rtt(self) -> None:
        """Send a PING if none is under way."""
        session = self._connection.session
        if session.connected and session.ping_sent_ns == 0:
            session.ping(self._server.clock.now_ns())
            self._connection.flush()


class AccountAdapter:
    """One account; an `AccountView`."""

    def __init__(self, server: "Server", account: Account, updated_ns: int) -> None:
        self.name = self.name_tag = account.name
        self.is_system = account.name == server.settings.system_account
        self.jetstream_enabled = account.driver is not None
        self.slow_consumers: int | None = None  # counted for the whole server only
        self._server = server
        self._account = account
        self._updated_ns = updated_ns

    @property
    def traffic(self) -> TrafficView:
        """What went through it since the start."""
        return self._account.router.traffic

    @property
    def connection_count(self) -> int:
        """How many clients it has."""
        return self._account.clients

    def sublist(self) -> SublistCounts:
        """Its subscriptions as numbers; what its cache holds is not open to others."""
        sublist = self._account.router.sublist
        count, generation = int(sublist.count), int(sublist.generation)
        return SublistCounts(
            subscriptions=count,
            inserts=(generation + count) // 2,
            removes=(generation - count) // 2,
        )

    def details(self) -> AccountDetails:
        """How it is configured."""
        return account_details(self._server.settings, self.name, self._updated_ns)


class JetStreamAdapter:
    """JetStream of the server; a `JetStreamView`."""

    def __init__(
        self, server: "Server", tally: Tally, store_dir: str, lost: Sequence[LostStream]
    ) -> None:
        self.api_level = API_LEVEL
        self.api_inflight = 0
        self._server = server
        self._tally = tally
        self._store_dir = store_dir
        self._lost = lost

    @property
    def echo(self) -> JetStreamEcho:
        """What it was configured to."""
        settings = self._server.settings.jetstream
        max_memory, max_storage = int(settings.max_mem), int(settings.max_file)
        return jetstream_echo(
            settings,
            store_dir=self._store_dir,
            max_memory=memory_budget() if max_memory < 0 else max_memory,
            max_storage=storage_budget(Path(self._store_dir)) if max_storage < 0 else max_storage,
        )

    def accounts(self) -> Collection[EngineAdapter]:
        """The accounts that have it."""
        known = self._server.directory.accounts
        return [
            EngineAdapter(
                name, account.driver.engine, known[name].jetstream, self._tally.api_of(name)
            )
            for name, account in self._server.accounts.items()
            if account.driver is not None
        ]

    def lost_streams(self) -> Sequence[LostStream]:
        """What could not be opened."""
        return self._lost

    def commits(self) -> CommitStats | None:
        """What the committer did: nobody counts it yet."""
        return None
