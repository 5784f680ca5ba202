"""The server: a listener, its connections, and JetStream. Embed it or run it.

::

    async with Server() as server:
        client = await jetspark.connect(server.client_url)
"""

import asyncio
import logging
import platform
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack

from jetspark.clock import Clock, SystemClock
from jetspark.engine.failures import Failures
from jetspark.engine.stream.config import API_LEVEL
from jetspark.errors import AlreadyEnded, InvalidState
from jetspark.errors.extras import extra
from jetspark.ids import Nuid
from jetspark.protocol.handshake import JetsparkInfo, ServerInfo
from jetspark.server.accounts import Account
from jetspark.server.arguments import (
    ServerArguments,
    combined,
    raise_open_files_limit,
)
from jetspark.server.auth.authenticator import Accepted, Authenticator
from jetspark.server.auth.connection_limits import TOO_MANY, ConnectionLimits, Surplus
from jetspark.server.auth.login_limits import LoginLimits
from jetspark.server.auth.password_checks import PasswordChecks
from jetspark.server.auth.users import Directory, build_directory
from jetspark.server.auth.violations import AUTHORIZATION_VIOLATION
from jetspark.server.close_reason import CloseReason
from jetspark.server.config.blocks.accounts import AccountJetStream
from jetspark.server.config.language.problem import ConfigProblem, ConfigRefused
from jetspark.server.config.packages import MONITORING, check_packages
from jetspark.server.config.settings import Settings
from jetspark.server.jetstream.budgets import input_budget, output_budget
from jetspark.server.jetstream.remotes import Remotes
from jetspark.server.jetstream.runtime import JetStreamRuntime
from jetspark.server.net.busy_poll import BusyPoll
from jetspark.server.net.connection import Connection
from jetspark.server.net.crowd import Crowd
from jetspark.server.net.freed_memory import FreedMemory
from jetspark.server.net.joins import Joins
from jetspark.server.net.keepalive import Keepalive
from jetspark.server.net.large_writes import LargeWrites
from jetspark.server.net.listening import BACKLOG, Acceptor, open_listener, shown_address
from jetspark.server.net.shared_memory import SharedMemory, kept_input, unread_output
from jetspark.server.net.tls import TlsRuntime, tls_runtime
from jetspark.server.net.turn_queue import FanOuts, TurnQueue
from jetspark.server.pacing import paced
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.flusher import Flusher
from jetspark.server.routing.receiver import Pending, Receiver
from jetspark.server.routing.router import Router
from jetspark.server.start_errors import cannot_listen
from jetspark.store.files import Files
from jetspark.turn import Turn
from jetspark.units import Nanoseconds, seconds
from jetspark.version import NATS_VERSION, VERSION

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from jetspark.server.auth.users import Account as ConfiguredAccount
    from jetspark.server.auth.users import User
    from jetspark.server.monitor.monitor import Monitor
    from jetspark.server.monitor.replica_state import ReplicaState
    from jetspark.server.prepared import Prepared

log: logging.Logger = logging.getLogger("jetspark.server")

READ_BUFFER: Final = 256 * 1024  # hot-path.md, Loop and sockets
AUTHORIZATION_TIMEOUT: Final = seconds(2)
# How long clients may keep reading when the server closes.
CLOSING_S: Final = 2.0
# Of a reload; an account takes about ten times as long as a connection.
ACCOUNTS_PER_TURN: Final = 16
CONNECTIONS_PER_TURN: Final = 64
# nats-server reports its Go version in INFO; this one reports Python.
GO: Final = f"python{platform.python_version()}"


class Server:
    """A NATS server with JetStream in this process; ``ServerArguments`` lists its arguments.

    It uses neither the client nor remote servers: ``upstreams`` connects to those.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        **arguments: Unpack[ServerArguments],
    ) -> None:
        self._files = files
        self.settings: Settings = combined(arguments)
        check_packages(self.settings)
        self.mounts: dict[str, ASGIApp] = dict(arguments.get("mounts") or {})
        # Started once the server listens, and cancelled when it closes.
        self.background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self.clock: Clock = clock or SystemClock()
        self.remotes: Remotes = Remotes(self.settings, arguments.get("upstreams"), self.clock)
        self.pending: Pending = Pending()
        self.flusher: Flusher = Flusher(self.pending, self._fan_out)
        self.turn: Turn = Turn(self._call_soon)
        self.turns: TurnQueue = TurnQueue(
            self._call_soon, self.clock.monotonic_ns, self.turn.crowd
        )
        self.large_writes: LargeWrites = LargeWrites(self._call_soon)
        self.connections: set[Connection] = set()
        # Those of them that have not authenticated yet.
        self.strangers: Crowd[Connection] = Crowd()
        # Closed connections that may still read their output.
        self._closing: set[Connection] = set()
        self.read_buffer: memoryview[int] = memoryview(bytearray(READ_BUFFER))
        self.slow_consumers: int = 0
        self.stalls: int = 0
        self.failures: Failures = Failures()
        self.config_loaded_ns: int = self.clock.now_ns()
        self.total_connections: int = 0
        self.headers: bool = not self.settings.no_header_support
        self.directory: Directory = build_directory(self.settings)
        self.authenticator: Authenticator = Authenticator(self.directory)
        self.accounts: dict[str, Account] = {
            name: Account(name, self.turn) for name in self.directory.accounts
        }
        self.default_account: Account = self.accounts[self.directory.default_user.account.name]
        self.tls: TlsRuntime | None = tls_runtime(self.settings.tls) if self.settings.tls else None
        self.keepalive: Keepalive = Keepalive(
            self.clock,
            self.flush,
            ping_interval_ns=self.settings.ping_interval,
            ping_max=self.settings.ping_max,
            auth_timeout_ns=self.authorization_timeout,
            write_deadline_ns=self.settings.write_deadline,
        )
        self.server_id: str = Nuid().next()
        self.server_name: str = self.settings.server_name or self.server_id
        self.lame_duck: bool = False
        self.busy_poll: BusyPoll | None = None
        self.runtime: JetStreamRuntime | None = None
        self._monitor: Monitor | None = None
        self._listener: Acceptor | None = None
        self._port = 0
        self._life: Literal["new", "running", "over"] = "new"
        self._last_client_id = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.password_checks: PasswordChecks = PasswordChecks()
        ours = self.settings.jetspark
        self.login_limits: LoginLimits = LoginLimits(self.clock, ours.limits)
        self.connection_limits: ConnectionLimits = ConnectionLimits(ours.limits)
        self.unread: SharedMemory = unread_output(output_budget(ours.memory.pending))
        self.input: SharedMemory = kept_input(input_budget(ours.memory.input))
        self.joins: Joins = Joins()
        self._freed_memory = FreedMemory()
        self._no_connections = asyncio.Event()
        self._no_connections.set()
        self._reloading = asyncio.Lock()
        for account in self.accounts.values():
            self._limit_account(account)

    @property
    def _monitored(self) -> bool:
        """Whether a monitoring port is configured."""
        return bool(self.settings.http_port or self.settings.https_port)

    @property
    def authorization_timeout(self) -> Nanoseconds:
        """How long a client may take to authenticate."""
        return self.settings.authorization.timeout or AUTHORIZATION_TIMEOUT

    @property
    def max_payload(self) -> int:
        """The size of the largest message that a client may send."""
        return self.settings.max_payload

    # Address -----------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port the server listens on; known once it has started."""
        if self._listener is None:
            raise InvalidState("the server is not running: use `async with Server()` or `start()`")
        return self._port

    @property
    def client_url(self) -> str:
        """The URL that clients connect to."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.settings.host, self.settings.host)  # noqa: S104
        scheme = "tls" if self.tls is not None else "nats"
        return f"{scheme}://{shown_address(host, self.port)}"

    def replica_state(self) -> "ReplicaState | None":
        """The state of a read replica; None unless a subclass is one."""
        return None

    # Lifecycle ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover the store and listen."""
        self._begin()
        raise_open_files_limit()
        loop = asyncio.get_running_loop()
        self.busy_poll = BusyPoll(loop.call_soon, self.clock.monotonic_ns)
        if self.settings.jetstream.enabled:
            granted = self._granted()
            accounts = [(self.accounts[name], granted[name]) for name in granted]
            name = self.server_name
            self.runtime = JetStreamRuntime(
                self.settings, self.clock, name, self.remotes, self.failures, self._files
            )
            try:
                self.runtime.open(accounts, self.flush)
            except BaseException:
                self._life = "over"
                raise
            for account in self.accounts.values():
                if account.name not in granted:
                    account.refuse_jetstream()
        try:
            await self.before_listening()
            self._listen()
            await self._start_monitor()
        except (OSError, ConfigRefused):
            await self.close()
            raise
        at = shown_address(self.settings.host, self.port)
        log.info("Listening for client connections on %s", at)
        log.info("Server is ready")
        if self.runtime is not None:
            self.runtime.keep_house()
        for work in self.background:
            self.run(work())

    def mount(
        self, path: str, app: "ASGIApp", work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Serve an application on the monitoring port; ``work`` runs while the server does."""
        self.mounts[path] = app
        self.background.append(work)

    def _begin(self) -> None:
        """Refuse to start twice: what the first start opened would be lost."""
        if self._life == "over":
            raise AlreadyEnded("the server was closed, or could not start: make a new one")
        if self._life == "running":
            raise InvalidState("the server is already running")
        self._life = "running"

    def _listen(self) -> None:
        """Open the port for clients."""
        host, port = self.settings.host, max(self.settings.port, 0)
        try:
            opened = open_listener(host, port, BACKLOG)
        except OSError as error:
            raise cannot_listen("clients", host, port, error) from error
        self._listener = Acceptor(opened, self._accept, "clients")
        self._port = self._listener.port

    async def before_listening(self) -> None:
        """Hook for subclasses: the store is open, no client is connected yet."""

    async def _start_monitor(self) -> None:
        """Open the configured monitoring ports; only then is that code loaded."""
        if not self._monitored:
            return
        from jetspark.server.monitor.monitor import Monitor

        self._monitor = Monitor(self)
        with extra(*MONITORING):
            await self._monitor.start()

    async def code_loaded(self) -> None:
        """Return when the code of the monitoring ports is loaded: after the start."""
        if self._monitor is not None:
            await self._monitor.loaded()

    @property
    def listening(self) -> bool:
        """Whether clients can connect."""
        return self._listener is not None and self._listener.is_serving()

    @property
    def monitor_url(self) -> str:
        """The URL of the monitoring endpoints; empty if monitoring is off."""
        return self._monitor.url if self._monitor is not None else ""

    @property
    def http_port(self) -> int:
        """The actual port of HTTP monitoring; 0 if it is off."""
        return self._monitor.http_port if self._monitor is not None else 0

    @property
    def https_port(self) -> int:
        """The actual port of HTTPS monitoring; 0 if it is off."""
        return self._monitor.https_port if self._monitor is not None else 0

    def _granted(self) -> dict[str, AccountJetStream]:
        """Return the accounts with JetStream, with their limits."""
        return {
            name: account.jetstream
            for name, account in self.directory.accounts.items()
            if account.jetstream is not None
        }

    def stop_listening(self) -> None:
        """Accept no new connections."""
        if self._listener is not None:
            self._listener.close()

    async def enter_lame_duck_mode(self, stop: asyncio.Event) -> None:
        """Lame duck mode: let clients move elsewhere, then set ``stop``.

        There are no new connections. Existing ones are notified by an INFO with ``ldm``, have a
        grace period, and are then closed one by one over the rest of the duration, so that another
        server does not get all of them at once.
        """
        if self.lame_duck:
            return
        log.info("Entering lame duck mode, stop accepting new clients")
        self.lame_duck = True
        self.stop_listening()
        await self._send_info()
        grace_s = self.settings.lame_duck_grace_period / 1e9
        spread_s = max(0.0, self.settings.lame_duck_duration / 1e9 - grace_s)
        if self.connections:
            await asyncio.sleep(grace_s)
        remaining = list(self.connections)
        if remaining:
            log.info("Closing existing clients")
        pause_s = spread_s / len(remaining) if remaining else 0.0
        for connection in remaining:
            if connection in self.connections:
                connection.close(CloseReason.SERVER_SHUTDOWN)
                # At most a second, as in nats-server: a longer wait has no benefit.
                await asyncio.sleep(min(pause_s, 1.0))
        stop.set()

    async def close(self) -> None:
        """Stop listening, write everything staged to disk, disconnect clients, close the store."""
        self._life = "over"
        self.stop_listening()
        if self._listener is not None:
            await self._listener.wait_closed()
        for connection in self.connections:
            # Input from now on would delay the end for as long as clients send.
            connection.pause_reading()
        await self.remotes.close()
        if self.runtime is not None:
            self.runtime.end_requests()
            self.flush()
            await self.runtime.settle()
        if self._monitor is not None:
            await self._monitor.stop()
            self._monitor = None
        for connection in list(self.connections):
            connection.close(CloseReason.SERVER_SHUTDOWN)
        for task in self._tasks:
            task.cancel()
        await self._all_disconnected()
        self.keepalive.stop()
        if self.runtime is not None:
            await self.runtime.close()
        self.password_checks.close()
        self.joins.close()
        self._freed_memory.close()
        self._listener = self.runtime = None

    async def _all_disconnected(self) -> None:
        """Wait for clients to disconnect; those that do not read are not waited for."""
        for _ in range(2):
            try:
                async with asyncio.timeout(CLOSING_S):
                    await self._no_connections.wait()
            except TimeoutError:
                for connection in [*self.connections, *self._closing]:
                    connection.abort(CloseReason.SERVER_SHUTDOWN)
            else:
                return

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client_url if self.listening else 'not running'!r})"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # Connections -------------------------------------------------------------------------------

    def _accept(self) -> Connection:
        settings = self.settings
        client = ConnectedClient(
            self.default_account.router,
            Receiver(self.pending),
            settings.max_control_line,
            settings.max_payload,
            settings.max_subscription_tokens,
        )
        return Connection(self, client)

    def next_client_id(self) -> int:
        """Return the next connection id."""
        self._last_client_id += 1
        return self._last_client_id

    def joined(self, connection: Connection) -> Surplus | None:
        """Add a connected client; return why it may not stay, if so."""
        limit = self.settings.max_connections
        full = limit > 0 and len(self.connections) + len(self._closing) >= limit
        if full and self._close_stranger(connection):
            full = False
        self.connections.add(connection)
        self.total_connections += 1
        self._no_connections.clear()
        surplus = self.connection_limits.join(connection.session.network)
        return Surplus(f"more than max_connections {limit}") if full else surplus

    def _close_stranger(self, newcomer: Connection) -> bool:
        """Close a client that has not authenticated; False if the newcomer is the one.

        Otherwise clients without credentials would keep out those that have some.
        """
        if not self.strangers:
            return False
        found = self.strangers.oldest(self.strangers.busiest())
        if found is None or found is newcomer:
            return False
        found.abort(CloseReason.MAXIMUM_CONNECTIONS)
        return True

    def ended(self, connection: Connection) -> None:
        """Remove a client; its socket may live a little longer."""
        self.connections.discard(connection)
        self.strangers.discard(connection)
        self._closing.add(connection)
        self.keepalive.expect_end(connection)
        user = connection.session.user
        if user is not None:
            self.note_exit(user)
        if self._monitor is not None:
            try:
                self._monitor.note_closed(connection)
            except Exception as error:  # noqa: BLE001 - only a line of /connz
                self.failures.note(f"{connection.session}, closing", error)

    def note_exit(self, user: "User") -> None:
        """Note that a connection of this user ended, or becomes another user."""
        self.accounts[user.account.name].exit()
        self.connection_limits.exit(user)

    def note_stall(self) -> None:
        """Count a pause of a publisher whose receivers cannot keep up."""
        self.stalls += 1

    def note_slow_consumer(self, user: "User | None") -> None:
        """Count a client that was disconnected because it read too slowly."""
        self.slow_consumers += 1
        if user is not None:
            self.accounts[user.account.name].note_slow_consumer()

    def note_freed(self, size: int) -> None:
        """Count memory that a client no longer needs."""
        self._freed_memory.note(size)

    def left(self, connection: Connection) -> None:
        """Remove a closed connection."""
        parser = connection.client.parser
        self._freed_memory.note(connection.most_waiting + parser.held())
        parser.drop()
        self.keepalive.forget(connection)
        self.unread.forget(connection)
        self.input.forget(connection)
        self.connection_limits.leave(connection.session.network)
        self._closing.discard(connection)
        if not self.connections and not self._closing:
            self._no_connections.set()

    async def reload(self, settings: Settings) -> None:
        """Apply new settings while running: all of them or, with ConfigRefused, none.

        Users that changed in any way, or were removed, are disconnected. Clients are served
        meanwhile: settings are compared and checked in a thread, and applied to many accounts and
        connections in steps.
        """
        from jetspark.server.prepared import prepare

        async with self._reloading:
            before = self.settings
            outdated: list[object] = [before, self.directory]
            prepared = await asyncio.to_thread(prepare, before, settings)
            del before
            self._check_returning(prepared.directory)
            await self._apply(prepared)
            # Thousands of accounts take milliseconds to free.
            with suppress(RuntimeError):  # a thread cannot be started
                await asyncio.to_thread(outdated.clear)

    def _check_returning(self, directory: Directory) -> None:
        """Refuse another JetStream for accounts that an earlier reload removed.

        Their streams are still open: without JetStream they would still be served.
        """
        if self.runtime is None:
            return
        problems: list[ConfigProblem] = []
        for name in self.accounts.keys() - self.directory.accounts.keys():
            found = directory.accounts.get(name)
            had = self.accounts[name].driver is not None
            if found is not None and (found.jetstream is not None) != had:
                text = (
                    f"accounts.{name}.jetstream: JetStream of an account can only be enabled or "
                    "disabled at the start, also if the account was removed meanwhile; restart"
                )
                problems.append(ConfigProblem("", 0, text))
        if problems:
            raise ConfigRefused(tuple(problems))

    async def _apply(self, prepared: "Prepared") -> None:
        """Apply new settings that have been checked.

        The users change at once; connections that were made before keep the users of that time
        until their step.
        """
        settings, directory = prepared.settings, prepared.directory
        added = directory.accounts.keys() - self.accounts.keys()
        async for name in paced(added, ACCOUNTS_PER_TURN):
            self._add_account(directory.accounts[name])
        if self._life == "over":
            return
        for change in prepared.changes:
            log.info("Reloaded: %s = %s", change.name, change.new)
        self.settings = settings
        self.config_loaded_ns = self.clock.now_ns()
        self.remotes.follow(settings)
        self.tls = prepared.tls
        self.directory = directory
        self.authenticator = prepared.authenticator
        self.login_limits.follow(settings.jetspark.limits)
        self.connection_limits.follow(settings.jetspark.limits)
        self.unread.follow(output_budget(settings.jetspark.memory.pending))
        self.input.follow(input_budget(settings.jetspark.memory.input))
        self.keepalive.follow(
            ping_interval_ns=settings.ping_interval,
            ping_max=settings.ping_max,
            auth_timeout_ns=self.authorization_timeout,
            write_deadline_ns=settings.write_deadline,
        )
        await self._change_users(prepared)
        if self.runtime is not None:
            self.runtime.change(settings)
            granted = self._granted()
            async for driver in paced(self.runtime.drivers, ACCOUNTS_PER_TURN):
                self.runtime.change_driver(driver, granted)
        async for account in paced(self.accounts.values()):
            self._limit_account(account)
        await self._close_surplus()
        await self._send_info()

    def _add_account(self, found: "ConfiguredAccount") -> None:
        """Serve an account that a reload added."""
        account = Account(found.name, self.turn)
        if self.runtime is not None and found.jetstream is not None:
            self.runtime.serve(account, found.jetstream, self.flush)
        elif self.runtime is not None:
            account.refuse_jetstream()
        self._limit_account(account)
        self.accounts[found.name] = account

    def _limit_account(self, account: Account) -> None:
        """Apply the limit of subscriptions to an account."""
        account.router.limit_subscriptions(self.settings.jetspark.limits.subscriptions_per_account)

    async def _change_users(self, prepared: "Prepared") -> None:
        """Disconnect clients whose user changed, and apply the new settings to the others."""
        unnamed_may_stay = self._admits_without_name()
        async for connection in paced(self.connections, CONNECTIONS_PER_TURN):
            if connection not in self.connections:
                continue  # it left meanwhile
            user = connection.session.user
            name = user.name if user is not None else ""
            stays = user is not None and name in prepared.unchanged
            if stays and (name or unnamed_may_stay):
                connection.session.admission.follow(self.authenticator)
                connection.follow_settings()
            else:
                connection.client.close(
                    AUTHORIZATION_VIOLATION, CloseReason.AUTHENTICATION_FAILURE
                )
                self.flush()

    def _admits_without_name(self) -> bool:
        """Return whether clients without a name are admitted: by a token, or anonymously."""
        if self.settings.authorization.token:
            return True
        silent = self.authenticator.examine_silent()
        return isinstance(silent, Accepted) and not silent.user.name

    async def _close_surplus(self) -> None:
        """Close surplus connections: of the server at random, as nats-server does.

        Of an address, a user or an account it closes the newest.
        """
        staying = [each.session for each in self.connections if not each.client.closing]
        staying.sort(key=lambda session: session.client_id)
        recount = self.connection_limits.recount(self.directory)
        async for session in paced(staying, CONNECTIONS_PER_TURN):
            found = recount.judge(session)
            if found is not None:
                session.close_surplus(found)
                self.flush()
        remaining = [each for each in self.connections if not each.client.closing]
        limit = self.settings.max_connections
        surplus = len(remaining) - limit if limit > 0 else 0
        if surplus <= 0:
            return
        async for connection in paced(random.sample(remaining, surplus), CONNECTIONS_PER_TURN):
            connection.client.close(TOO_MANY, CloseReason.MAXIMUM_CONNECTIONS)
            self.flush()
        log.info("Closed %d connections to fall within max_connections", surplus)

    async def _send_info(self) -> None:
        """Send INFO again to the clients that support it."""
        async for connection in paced(self.connections, CONNECTIONS_PER_TURN):
            session = connection.session
            understands = session.connected and session.options.protocol >= 1
            if understands and not connection.client.closing:
                connection.client.receiver.queue(session.info())
                self.flush()

    def info(self, client_id: int, client_ip: str, account: str) -> ServerInfo:
        """Return INFO for a client; ``account`` once it is known."""
        tls, settings = self.tls, self.settings
        return ServerInfo(
            server_id=self.server_id,
            server_name=self.server_name,
            version=NATS_VERSION,
            proto=1,
            # Current clients do not connect to a server that omits these.
            git_commit=VERSION,
            go=GO,
            host=settings.client_advertise.rpartition(":")[0] or settings.host,
            port=int(settings.client_advertise.rpartition(":")[2] or self.port),
            headers=self.headers,
            auth_required=self.authenticator.announced,
            tls_required=tls is not None,
            tls_verify=tls is not None and tls.verify,
            max_payload=settings.max_payload,
            jetstream=self.runtime is not None,
            client_id=client_id,
            client_ip=client_ip,
            connect_info=bool(account),
            remote_account=account,
            ldm=self.lame_duck,
            domain=settings.jetstream.domain,
            api_lvl=API_LEVEL,
            jetspark=JetsparkInfo(
                version=VERSION,
                min_last_seq=self.runtime is not None,
                fast_header_dialect=self.runtime is not None,
            ),
        )

    def flush(self, router: Router | None = None) -> bool:
        """Write what was queued; True if a client cannot keep up."""
        return self.flusher.flush(router)

    def _fan_out(self, router: Router) -> None:
        """Deliver an account's messages for very many receivers in the following turns."""
        # All clients of the account wait for it if there is too much of it.
        self.turns.add(FanOuts(router.fan_out, lambda: self.flush(router)), first=True)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    # Background work ---------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task of the server; it is cancelled when the server closes."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A task of the server failed", exc_info=task.exception())
