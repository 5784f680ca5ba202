"""The state of the running server, read on demand.

Collecting costs nothing on the hot path. Per message only the traffic of the client and of its
account is counted, in integers of objects that the router uses anyway; the server's totals are
sums over accounts. All other numbers change per connection, per chunk or per group of the
committer, never per message. Nothing here reads the disk, or waits: every method is called in the
server's own loop, some for all streams at once.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.consumer import ConsumerInfo
from jetspark.api.enums import Storage
from jetspark.api.stream import StreamConfig, StreamSourceInfo, StreamState
from jetspark.engine.limits import DUPLICATE_IDS_MAX
from jetspark.engine.stream.config import API_LEVEL
from jetspark.engine.stream.state import copies_info, durability, stream_state
from jetspark.engine.stream.stream import Stream
from jetspark.server.accounts import Account
from jetspark.server.config.blocks.jetstream import JetStream as JetStreamSettings
from jetspark.server.jetstream.remotes import RemoteState
from jetspark.server.jetstream.runtime import JetStreamRuntime
from jetspark.server.monitor import tls as tls_facts
from jetspark.server.monitor.account_details import AccountDetails, SublistCounts
from jetspark.server.monitor.closed import ClosedConnection, ClosedConnections
from jetspark.server.monitor.connection_view import ConnectionDetails, ConnectionView, TlsDetails
from jetspark.server.monitor.echo import account_details, jetstream_echo, server_echo
from jetspark.server.monitor.replica_state import ReplicaState
from jetspark.server.monitor.settings_echo import JetStreamEcho, ServerEcho
from jetspark.server.monitor.store_stats import BatchStats, CommitStats, StreamStore
from jetspark.server.monitor.traffic import TrafficView
from jetspark.server.net.connection import Connection
from jetspark.server.net.session import Session
from jetspark.server.pacing import Views
from jetspark.server.routing.receiver import Subscription
from jetspark.store.log.stream_log import StreamLog
from jetspark.version import COMPILED, NATS_VERSION, VERSION

if TYPE_CHECKING:
    from jetspark.server.server import Server


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of the server: fixed when it starts."""

    server_id: str
    server_name: str
    version: str  # of the nats-server whose features it has (decisions.md)
    jetspark_version: str
    compiled: bool
    start_ns: int


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, other than traffic."""

    total_connections: int = 0  # accepted; counted in Server._accept
    slow_consumers: int = 0  # closed for pending bytes or a missed write deadline
    stale_connections: int = 0  # closed because PINGs went unanswered
    stalled_clients: int = 0  # how often reading from a publisher was paused
    internal_errors: int = 0  # requests and turns with an unexpected exception
    refused_connections: int = 0  # beyond a limit of an address, a user or an account
    unchecked_logins: int = 0  # refused after too many failed ones
    closed_largest: int = 0  # closed because all clients together left too much unread
    unread_bytes: int = 0  # of clients that cannot keep up; not a counter
    closed_keeping: int = 0  # closed because all together sent too much that waits
    kept_input_bytes: int = 0  # not complete, or waiting for its turn; not a counter


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the server is working, for probes; ``reason`` says what it waits for.

    ``accepting`` is for `/healthz`: clients can connect. ``ready`` is also false while the server
    shuts down (lame duck), so that `/readyz` removes it from a load balancer first.
    """

    accepting: bool
    ready: bool
    reason: str = ""
    streams_recovered: int = 0
    streams_total: int = 0


class LostStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that is on disk and could not be opened."""

    account: str
    stream: str
    reason: str


class LostConsumer(NamedTuple):
    """A consumer whose records are on disk and cannot be used."""

    account: str
    stream: str
    consumer: str
    reason: str


class ConnectionStatus:
    """One connection."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        # The connection drops its own some time after its end.
        self._session = session
        self.cid: int = session.client_id
        self.account: str = session.user.account.name if session.user is not None else ""
        self.start_ns: int = session.started_ns
        self.last_ns: int = session.last_read_ns
        self.rtt_ns: int = session.rtt_ns
        self.pending_bytes: int = connection.waiting_bytes() + int(
            connection.client.receiver.size()
        )
        self.traffic: TrafficView = connection.client.receiver.traffic
        self.stalls: int = connection.stalls
        self.subscription_count: int = len(connection.client.subscriptions)

    def details(self) -> ConnectionDetails:
        """Return the facts that do not change after CONNECT."""
        session = self._session
        options = session.options
        return ConnectionDetails(
            ip=session.ip,
            port=session.port,
            name=options.name,
            lang=options.lang,
            version=options.version,
            user=options.nkey or options.user or ("[REDACTED]" if options.auth_token else ""),
            account=self.account,
            tls=self._tls(),
        )

    def _tls(self) -> TlsDetails | None:
        session = self._session
        if session.tls is None:
            return None
        return tls_facts.details(session.tls, first=self._connection.handshake_first)

    def subscriptions(self) -> Iterable[Subscription]:
        """Return its subscriptions: up to some thousand in order of creation."""
        return self._connection.client.subscriptions.values()

    def request_rtt(self) -> None:
        """Measure the round trip time, if that was not done yet."""
        session = self._session
        closing = self._connection.client.closing
        if session.rtt_ns == 0 and session.ping_sent_ns == 0 and not closing:
            session.ping(session.now_ns())
            self._connection.flush()


class StreamStatus:
    """One stream, for the monitoring of JetStream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.config: StreamConfig = stream.config
        self.created_ns: int = stream.created_ns
        self.write_error: str = write_problem(stream.log)
        self.read_error: str = read_problem(stream.log.reader.refused_reads)

    def state(self) -> StreamState:
        """Return its state, as in STREAM.INFO."""
        return stream_state(self._stream)

    def consumers(self, now_ns: int) -> Sequence[ConsumerInfo]:
        """Return its consumers by name, as in CONSUMER.LIST."""
        return [
            consumer.info(now_ns)
            for _, consumer in sorted(self._stream.consumers.items())
            if not consumer.config.direct
        ]

    def mirror(self, now_ns: int) -> StreamSourceInfo | None:
        """Return the progress of the mirror, if it is one."""
        return copies_info(self._stream, now_ns)[0]

    def sources(self, now_ns: int) -> tuple[StreamSourceInfo, ...]:
        """Return the progress of its sources."""
        return copies_info(self._stream, now_ns)[1]

    @property
    def open_batches(self) -> int:
        """How many batches are in flight."""
        batches = self._stream.batches
        return len(batches.atomic.open) + len(batches.fast.open)

    def batches(self, most: int) -> list[BatchStats]:
        """Return batches in flight, at most ``most``."""
        batches = self._stream.batches
        found = [
            BatchStats(
                kind="atomic",
                id=batch.batch_id.decode(errors="replace"),
                messages=int(batch.last),
                bytes=int(batch.size),
                touched_ns=int(batch.touched),
            )
            for batch in islice(batches.atomic.open.values(), max(most, 0))
        ]
        found += [
            BatchStats(
                kind="fast",
                id=batch.batch_id.decode(errors="replace"),
                messages=int(batch.last),
                bytes=None,
                touched_ns=int(batch.touched),
            )
            for batch in islice(batches.fast.open.values(), max(most - len(found), 0))
        ]
        return found

    def store(self) -> StreamStore:
        """Return its state on disk."""
        log = self._stream.log
        counts = log.upkeep.counts
        window = self._stream.checks.window
        return StreamStore(
            kind=str(self.config.storage.value),
            durability=durability(self._stream),
            segments=len(log.segments.list_files()),
            file_bytes=log.segments.disk_bytes,
            duplicates=len(window),
            duplicates_limit=DUPLICATE_IDS_MAX,
            staged_position=log.staged.position,
            durable_position=log.index.position,
            ahead_ns=self._stream.ahead(),
            cache_bytes=log.reader.cache.size,
            cache_limit=log.reader.cache.budget,
            lost_messages=log.quarantine.lost_messages,
            lost_bytes=log.quarantine.lost_bytes,
            uncounted_places=log.quarantine.uncounted_places,
            doubtful_bytes=log.quarantine.doubtful_bytes,
            quarantined_bytes=sum(
                damage.length
                for damage in log.quarantine.known.values()
                if damage not in log.quarantine.waiting
            ),
            scrubbed_ns=min(log.upkeep.scrubbed.values(), default=None),
            compactions=counts.compactions,
            compaction_read_bytes=counts.compaction_read,
            compaction_written_bytes=counts.compaction_written,
            compactions_failed=counts.compactions_failed,
            segments_removed=counts.segments_removed,
            segments_condensed=counts.segments_indexed,
            scrubs=counts.scrubs,
            scrub_read_bytes=counts.scrub_read,
            scrub_damage=counts.scrub_damage,
            scrubs_failed=counts.scrubs_failed,
            read_only=log.access.read_only,
        )


def write_problem(log: StreamLog) -> str:
    """Return why a stream accepts no messages now; empty if it does."""
    if log.access.read_only:
        return "read-only after a disk error"
    return "the disk is full; messages are refused until there is space" if log.access.full else ""


def read_problem(refused: dict[int, str]) -> str:
    """Return what cannot be read now; empty if everything can."""
    if not refused:
        return ""
    first = min(refused)
    if len(refused) == 1:
        return f"message {first} cannot be read now: {refused[first]}"
    return f"{len(refused)} messages from {first} on cannot be read now: {refused[first]}"


class AccountStatus:
    """One account, in general and for JetStream."""

    def __init__(self, account: Account, server: "Server") -> None:
        system = server.directory.system_account
        # An account that a reload removed keeps its streams until a restart.
        known = server.directory.accounts.get(account.name)
        granted = known.jetstream if known is not None else None
        self._account = account
        self._server = server
        self.max_memory = granted.max_memory if granted is not None else -1
        self.max_storage = granted.max_store if granted is not None else -1
        # Its clients that were disconnected as slow consumers.
        self.slow_consumers: int | None = account.slow_consumers
        self.name: str = account.name
        self.name_tag: str = account.name
        self.is_system: bool = system is not None and account.name == system.name
        self.jetstream_enabled: bool = account.driver is not None
        self.traffic: TrafficView = account.router.traffic
        self.connection_count: int = account.clients
        # The counters of $JS.API.INFO.
        engine = account.driver.engine if account.driver is not None else None
        self.api_total: int = engine.api.total if engine is not None else 0
        self.api_errors: int = engine.api.errors if engine is not None else 0

    def sublist(self) -> SublistCounts:
        """Return its subscription counts."""
        sublist = self._account.router.sublist
        return SublistCounts(
            subscriptions=sublist.count,
            inserts=(sublist.generation + sublist.count) // 2,
            removes=(sublist.generation - sublist.count) // 2,
        )

    def details(self) -> AccountDetails:
        """Return its configuration."""
        server = self._server
        return account_details(server.settings, self.name, server.config_loaded_ns)

    def streams(self) -> Collection[StreamStatus]:
        """Return its streams, by name."""
        if self._account.driver is None:
            return ()
        streams = self._account.driver.engine.streams
        return Views([streams[name] for name in sorted(streams)], StreamStatus)


class JetStreamStatus:
    """JetStream of the server."""

    api_level = API_LEVEL
    api_inflight = 0

    def __init__(
        self,
        accounts: list[AccountStatus],
        settings: JetStreamSettings,
        runtime: JetStreamRuntime,
    ) -> None:
        budgets = runtime.usage.limits
        self._accounts = accounts
        self._counts = runtime.counts
        self._journal = runtime.journal
        self._unopened = runtime.unopened
        self._unadopted = runtime.unadopted
        self._foreign = runtime.foreign
        self._journal_notes = runtime.journal_notes
        self.echo: JetStreamEcho = jetstream_echo(
            settings,
            store_dir=str(runtime.folder),
            # If the machine's resources are unknown, 0 says so.
            max_memory=max(budgets[Storage.MEMORY], 0),
            max_storage=max(budgets[Storage.FILE], 0),
        )

    def accounts(self) -> Collection[AccountStatus]:
        """Return the accounts with JetStream."""
        return self._accounts

    def lost_streams(self) -> Sequence[LostStream]:
        """Return the streams that could not be opened, by folder: their names are unknown."""
        return [
            LostStream(
                account=each.folder.parent.name, stream=each.folder.name, reason=each.reason
            )
            for each in self._unopened.all
        ]

    def journal_notes(self) -> Sequence[str]:
        """Return what the start found wrong with the journal."""
        return self._journal_notes

    def foreign_entries(self) -> Sequence[str]:
        """Return entries between the streams that do not belong there, relative to the store."""
        return [f"{path.parent.name}/{path.name}" for path in self._foreign]

    def lost_consumers(self) -> Sequence[LostConsumer]:
        """Return consumers with unusable records: their streams are served without them."""
        return [LostConsumer(*found) for found in self._unadopted]

    def commits(self) -> CommitStats | None:
        """Return the statistics of the committer."""
        counts = self._counts
        return CommitStats(
            groups=counts.groups,
            messages=counts.messages,
            bytes=counts.bytes,
            errors=counts.errors,
            no_space=counts.no_space,
            inline=counts.inline,
            shared=counts.shared,
            journal_frames=self._journal.frames,
            journal_disk_bytes=self._journal.disk_bytes,
            journal_failures=self._journal.failures,
            duration_counts=tuple(counts.duration_counts),
            duration_sum_ns=counts.duration_sum_ns,
            duration_p50_ns=counts.percentile(0.50),
            duration_p99_ns=counts.percentile(0.99),
            duration_max_ns=counts.duration_max_ns,
        )


class ServerStatus:
    """The server."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._closed = ClosedConnections(server.settings.max_closed_clients)
        self.identity: Identity = Identity(
            server_id=server.server_id,
            server_name=server.server_name,
            version=NATS_VERSION,
            jetspark_version=VERSION,
            compiled=COMPILED,
            start_ns=server.clock.now_ns(),
        )

    def note_closed(self, connection: Connection, reason: str) -> None:
        """Record a connection that ends."""
        now = self._server.clock.now_ns()
        self._closed.add(ConnectionStatus(connection, connection.session), now, reason)

    @property
    def echo(self) -> ServerEcho:
        """Return its configuration."""
        server = self._server
        return server_echo(
            server.settings,
            port=server.port,
            http_port=server.http_port,
            https_port=server.https_port,
            config_load_ns=server.config_loaded_ns,
            auth_required=server.authenticator.announced,
            pending_of_all=server.unread.limit,
            input_of_all=server.input.limit,
        )

    def now_ns(self) -> int:
        """Return engine time, for durations."""
        return self._server.clock.now_ns()

    def date(self, time_ns: int) -> Timestamp:
        """Return the date of an engine time."""
        return Timestamp(time_ns + self._server.clock.wall_lead_ns)

    def counters(self) -> Counters:
        """Return the counters since the start."""
        server = self._server
        return Counters(
            total_connections=server.total_connections,
            slow_consumers=server.slow_consumers,
            stale_connections=server.keepalive.stale,
            stalled_clients=server.stalls,
            internal_errors=server.failures.count,
            refused_connections=server.connection_limits.refused,
            unchecked_logins=server.login_limits.refused,
            closed_largest=server.unread.closed,
            unread_bytes=server.unread.total,
            closed_keeping=server.input.closed,
            kept_input_bytes=server.input.total,
        )

    def readiness(self) -> Readiness:
        """Return its readiness."""
        server = self._server
        recovered = sum(len(a.streams()) for a in self.accounts())
        return Readiness(
            accepting=server.listening,
            ready=server.listening and not server.lame_duck,
            reason="lame duck mode" if server.lame_duck else "",
            streams_recovered=recovered,
            streams_total=recovered,
        )

    def accounts(self) -> Collection[AccountStatus]:
        """Return all accounts."""
        return [AccountStatus(account, self._server) for account in self._server.accounts.values()]

    def connections(self) -> Collection[ConnectionView]:
        """Return the open connections of clients."""
        # Two lists: tens of thousands of pairs would cost passes of the garbage collector.
        found = list(self._server.connections)
        sessions = [each.session for each in found]
        return Views(range(len(found)), lambda at: ConnectionStatus(found[at], sessions[at]))

    def closed(self) -> Iterable[ClosedConnection]:
        """Return the most recently closed connections, oldest first."""
        return self._closed

    def remotes(self) -> Sequence[RemoteState]:
        """Return the servers that streams can be copied from."""
        return self._server.remotes.states()

    def replica(self) -> ReplicaState | None:
        """Return its state as a read replica; None if it is none."""
        return self._server.replica_state()

    def jetstream(self) -> JetStreamStatus | None:
        """Return JetStream; None while it is off."""
        runtime = self._server.runtime
        if runtime is None:
            return None
        with_streams = [account for account in self.accounts() if account.jetstream_enabled]
        return JetStreamStatus(with_streams, self._server.settings.jetstream, runtime)
