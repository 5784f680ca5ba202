"""The read replica server: copies of a leader's streams, and a relay for everything else.

::

    async with ReplicaServer("nats://leader:4222", streams=["KV_*"]) as replica:
        client = await jetspark.connect(replica.client_url)

Reads of copied streams are answered here; everything else is forwarded to the leader, with the
replica's own credentials. Clients authenticate here, as configured for the replica.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

import msgspec

from jetspark.clock import Clock
from jetspark.engine.direct.gate import HeldReads
from jetspark.engine.replicate.upstream import Upstream
from jetspark.protocol.handshake import JetsparkInfo, ServerInfo
from jetspark.replica.announce import Announcer, announced_url
from jetspark.replica.bridge import Bridge
from jetspark.replica.copied_stream import CopiedStream
from jetspark.replica.forwarding import ForwardedReads
from jetspark.replica.leader import leader_remote, refused, with_replica
from jetspark.replica.local import LocalStreams
from jetspark.replica.own_traffic import OwnTraffic
from jetspark.replica.read_only import WriteGuard
from jetspark.replica.read_requests import ReadRequests
from jetspark.replica.reconciler import CopyReconciler
from jetspark.replica.relay import ReplicaRelay
from jetspark.replica.state import replica_state
from jetspark.replica.stored_subjects import StoredSubjects
from jetspark.replica.times import DEFAULT_TIMES, ReplicaTimes
from jetspark.replica.upstream import RemoteUpstream, remote_options
from jetspark.server.accounts import Account
from jetspark.server.arguments import ServerArguments, combined
from jetspark.server.config.blocks.jetspark import Remote
from jetspark.server.config.settings import Settings
from jetspark.server.monitor.replica_state import ReplicaState
from jetspark.server.net.connection import Connection
from jetspark.server.pacing import paced
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.router import Router
from jetspark.server.server import Server
from jetspark.version import VERSION

log: logging.Logger = logging.getLogger("jetspark.replica")


@dataclass(slots=True)
class Parts:
    """The parts of a running replica."""

    bridge: Bridge
    reconciler: CopyReconciler
    forwarded: ForwardedReads
    reads: ReadRequests
    router: Router
    guard: WriteGuard | None
    stored: StoredSubjects


class ReplicaServer(Server):
    """A read replica of the server at ``of``: its URL, those of its cluster, or a remote's name.

    ``streams`` are the names to copy, with ``*`` and ``?``; ``no_reads`` are copied streams whose
    reads still go to the leader; ``read_only`` refuses writes. The other arguments are those of
    `Server`; a configuration may contain all of this in its ``jetspark.replica`` block.
    """

    def __init__(
        self,
        of: str | Sequence[str] = (),
        *,
        streams: Sequence[str] | None = None,
        no_reads: Sequence[str] | None = None,
        read_only: bool | None = None,
        times: ReplicaTimes = DEFAULT_TIMES,
        **arguments: Unpack[ServerArguments],
    ) -> None:
        for name in ("jetstream", "upstreams"):
            if name in arguments:
                raise TypeError(f"ReplicaServer() has no {name!r}: a replica sets it itself")
        arguments["jetstream"] = True
        settings = combined(arguments)
        settings = with_replica(
            settings,
            of=(of,) if isinstance(of, str) else tuple(of),
            streams=streams,
            no_reads=no_reads,
            read_only=read_only,
        )
        self._times = times

        leader = leader_remote(settings)
        self._own = OwnTraffic(leader.inbox_prefix)

        def upstream(remote: Remote, clock: Clock) -> Upstream:
            own = self._own if remote.name == leader.name else None
            return RemoteUpstream(remote, clock, times.copying, own, self._on_doubt)

        super().__init__(config=settings, mounts=arguments.get("mounts"), upstreams=upstream)
        assert self.settings.jetspark.replica is not None
        self.replica: Final = self.settings.jetspark.replica
        self._leader_info: ServerInfo | None = None
        self._path: tuple[str, ...] = ()
        self._was_up = False
        self._own_bridges: dict[ConnectedClient, Bridge] = {}
        self._parts: Parts | None = None

    # Lifecycle ---------------------------------------------------------------------------------

    async def before_listening(self) -> None:
        """Adopt the existing copies, and connect to the leader: now, then in the background."""
        account = self._account()
        driver, router = account.driver, account.router
        assert driver is not None
        bridge = self._bridge(router, self._on_change, shared=None)
        local = LocalStreams(driver, self.clock)
        stored = StoredSubjects()
        guard = WriteGuard(router, bridge, stored) if self.replica.read_only else None
        reconciler = CopyReconciler(
            bridge,
            local,
            leader_remote(self.settings).name,
            self.replica.streams,
            self.replica.no_reads,
            stored.follow,
            self._times.poll,
        )
        reconciler.adopt()
        ours = self.settings.jetspark
        held = HeldReads(ours.held_reads_max)
        forwarded = ForwardedReads(router, bridge, ours.min_last_seq_wait / 1e9, held)
        reads = ReadRequests(router, bridge, reconciler, forwarded, local.describe)
        router.relay_to(
            ReplicaRelay(
                bridge, reads, guard, self._own_bridges, self._make_own, reconciler.suspect
            )
        )
        self._parts = Parts(bridge, reconciler, forwarded, reads, router, guard, stored)
        await bridge.open()
        self.run(reconciler.run())

    def _account(self) -> Account:
        """Return the account whose clients are served; there can be only one."""
        served = [
            self.accounts[name]
            for name, account in self.directory.accounts.items()
            if not account.system
        ]
        used = [account for account in served if self.directory.accounts[account.name].users]
        if len(used) > 1:
            names = ", ".join(sorted(account.name for account in used))
            raise refused(
                f"a replica has one account, that of its user at the leader; this configuration "
                f"has {names}: run one replica for each"
            )
        account = used[0] if used else self.default_account
        if account.driver is None:
            raise refused(
                f"account {account.name} has no JetStream, which stores the copies: add "
                "'jetstream: enabled' to it"
            )
        return account

    async def start(self) -> None:
        """Recover the copies, listen, and announce the replica."""
        await super().start()
        assert self._parts is not None
        Announcer(
            self._parts.bridge,
            self._parts.reconciler,
            self._parts.stored,
            self.server_id,
            self.server_name,
            announced_url(self.settings, self.port),
            read_only=self.replica.read_only,
        ).start()

    async def _open(self, bridge: Bridge) -> None:
        await bridge.open()

    async def close(self) -> None:
        """Disconnect from the leader, then close as any server does."""
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.forwarded.close()
            if parts.guard is not None:
                parts.guard.close()
            await parts.bridge.close()
        for bridge in list(self._own_bridges.values()):
            await bridge.close()
        await super().close()

    async def reload(self, settings: Settings) -> None:
        """Apply new settings; the leader cannot change."""
        await super().reload(
            with_replica(settings, of=(), streams=None, no_reads=None, read_only=None)
        )

    # The leader --------------------------------------------------------------------------------

    def _bridge(
        self, router: Router, on_change: Callable[[], None], *, shared: Bridge | None
    ) -> Bridge:
        name = f"jetspark replica {self.server_name}"
        options = remote_options(leader_remote(self.settings), self._times.bridge, name)
        options = msgspec.structs.replace(
            options,
            inbox_prefix=self._own.inbox,
            reconnect_buffer_bytes=0,
            echo=shared is None,
            disconnected_callback=self._on_lost if shared is None else None,
            error_callback=self._on_error,
        )
        return Bridge(
            options,
            router,
            lambda: self.flush(router),
            on_change,
            self._on_shown,
            self._on_doubt,
            self._own,
            self.settings.max_control_line,
            shared,
        )

    def _make_own(self, client: ConnectedClient, shared: Bridge) -> Bridge:
        """Create the connection of a client that wants no echo of its messages."""
        bridge = self._bridge(client.router, lambda: None, shared=shared)
        self._own_bridges[client] = bridge
        self.run(self._open(bridge))
        return bridge

    def _on_shown(self, stream: str, seq: int) -> None:
        """Note that a client has seen a sequence: it must not read from before it here."""
        if self._parts is not None:
            self._parts.reconciler.note_shown(stream, seq)

    def _on_doubt(self, stream: str) -> None:
        """Suspect that a copy's stream was deleted: its advisory may be late, or invisible."""
        if self._parts is not None:
            self._parts.reconciler.suspect(stream)

    def _on_lost(self, error: Exception) -> None:
        log.warning(
            "The leader cannot be reached (%s): copies answer what they can, other requests get "
            "no responders; retrying",
            error,
        )

    def _on_error(self, error: Exception) -> None:
        log.warning(
            "The leader refused: %s (the replica's user needs the permissions of its clients)",
            error,
        )

    def _on_change(self) -> None:
        """Handle a change of the connection or of the leader's INFO."""
        parts = self._parts
        if parts is None:
            return
        bridge = parts.bridge
        info = bridge.core.server_info
        path: tuple[str, ...] = (self.server_id,)
        payload = self.max_payload
        if bridge.core.link.connection is not None:
            theirs = (info.jetspark.path if info.jetspark is not None else ()) or (info.server_id,)
            looped = self.server_id in theirs
            if looped and not bridge.blocked:
                log.error(
                    "The leader %s is this server, or a replica of it: nothing is forwarded; give "
                    "--replica-of the server that has the streams",
                    self.replica.shown,
                )
            bridge.block("a replica of this server" if looped else "")
            path += theirs[: theirs.index(self.server_id)] if looped else theirs
            self._leader_info = info
        if bridge.up and not self._was_up:
            log.info("Replica of %s (%s)", info.server_name, bridge.label)
            lost = bridge.take_lost()
            if lost:
                log.warning("%d messages were lost while it could not be reached", lost)
        self._was_up = bridge.up
        if path != self._path or payload != self.max_payload:
            self._path = path
            self.run(self._pass_on())

    async def _pass_on(self) -> None:
        """Tell the clients what changed at the leader."""
        async for connection in paced(self.connections):
            connection.session.follow_limits()
        await self._send_info()

    @property
    def max_payload(self) -> int:
        """The maximum payload of clients: no more than the leader accepts."""
        own = self.settings.max_payload
        theirs = self._leader_info.max_payload if self._leader_info is not None else 0
        if theirs <= 0:
            return own
        return min(own, theirs) if own > 0 else theirs

    # Clients -----------------------------------------------------------------------------------

    def ended(self, connection: Connection) -> None:
        """Remove a client."""
        super().ended(connection)
        if self._parts is not None:
            self._parts.bridge.queue.forget(connection.client)
        bridge = self._own_bridges.pop(connection.client, None)
        if bridge is not None:
            self.run(bridge.close())

    def info(self, client_id: int, client_ip: str, account: str) -> ServerInfo:
        """Return INFO: clients can do here what they can do at the leader."""
        info = super().info(client_id, client_ip, account)
        leader = self._leader_info
        theirs = leader.jetspark if leader is not None else None
        ours = JetsparkInfo(
            version=VERSION,
            min_last_seq=theirs is not None and theirs.min_last_seq,
            fast_header_dialect=theirs is not None and theirs.fast_header_dialect,
            path=self._path or (self.server_id,),
        )
        changes: dict[str, Any] = {"jetspark": ours, "max_payload": self.max_payload}
        if leader is not None:
            changes |= {"version": leader.version, "api_lvl": leader.api_lvl}
        return msgspec.structs.replace(info, **changes)

    def replica_state(self) -> ReplicaState | None:
        """The state of leader and copies."""
        parts = self._parts
        if parts is None:
            return None
        return replica_state(
            parts.bridge,
            parts.reconciler,
            self._leader_info,
            self.clock.now_ns(),
            read_only=self.replica.read_only,
            reads_answered=self.reads_answered,
            reads_passed=self.reads_passed,
        )

    # For monitoring and tests ------------------------------------------------------------------

    @property
    def followed(self) -> dict[str, CopiedStream]:
        """The copied streams, by name."""
        return self._parts.reconciler.streams if self._parts is not None else {}

    @property
    def leader_is_up(self) -> bool:
        """Whether the leader can be reached."""
        return self._parts is not None and self._parts.bridge.up

    @property
    def reads_answered(self) -> int:
        """The number of reads answered here."""
        return self._parts.reads.answered if self._parts is not None else 0

    @property
    def reads_passed(self) -> int:
        """The number of reads forwarded to the leader, because the copy was not new enough."""
        return self._parts.forwarded.count if self._parts is not None else 0
