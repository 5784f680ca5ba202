"""The kit of a process: one server, and an account of it for each test.

Everything runs on the loop of a thread of its own, so tests of any style use it: with asyncio,
with anyio, and without a loop.
"""

import asyncio
import atexit
import os
import secrets
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Final

from jetspark.client.client import connect
from jetspark.errors import Error, InvalidState
from jetspark.sync.portal import Portal
from jetspark.testing.backends import (
    KINDS,
    Backend,
    JetsparkBackend,
    Login,
    NatsServerBackend,
    find_nats_server,
)
from jetspark.testing.gate import Gate
from jetspark.testing.process import SupervisorProcess
from jetspark.testing.published import PublishLog

KIND_VARIABLE: Final = "JETSPARK_TEST_SERVER"
# Accounts that are configured at once: a reload for every test would cost more than the test.
POOL_SIZE: Final = 16
# Then the next test gets a new server: an account that is no longer used keeps 90 KB.
ACCOUNTS_MAX: Final = 400
# To delete more streams than this takes longer than a new server.
STREAMS_MAX: Final = 20
CLEANUP_TIMEOUT: Final = 30.0


class Kit:
    """The server of this process. Methods run on the loop of ``portal``."""

    def __init__(self, kind: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"unknown test server {kind!r}: expected {' or '.join(KINDS)}")
        self.kind = kind
        self.pid: int = os.getpid()
        self.portal: Portal = Portal()
        self._program = find_nats_server() if kind == "nats-server" else ""
        self._folder = Path(tempfile.mkdtemp(prefix="jetspark-test-"))
        self._supervisor = SupervisorProcess(self._folder, kind)
        self._runs = 0
        self._backend: Backend | None = None
        self._pool: list[Login] = []
        self._accounts: set[Account] = set()
        self._made = 0
        # Accounts of this run of the server.
        self._opened = 0
        # Some of an account that was closed were left.
        self._has_streams = False
        self._running = False
        self._lock = asyncio.Lock()

    @property
    def backend(self) -> Backend:
        """The server; it may be stopped."""
        assert self._backend is not None, "an account was opened before"
        return self._backend

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return self._running

    # Accounts ----------------------------------------------------------------------------------

    async def open_account(self) -> "Account":
        """Give a test an account that no other test has had."""
        async with self._lock:
            if self._backend is not None and not self._accounts and self._is_used_up():
                await self._replace()
            if self._backend is None:
                await self._first_start()
            elif not self._pool:
                self._fill_pool()
                await self._backend.set_logins(self._logins())
            account = Account(self, self._pool.pop(0))
            self._accounts.add(account)
            self._opened += 1
            if self._running:
                await account.gate.listen()
            return account

    async def close_account(self, account: "Account") -> None:
        """Undo what a test did to the server, and remove what it stored."""
        async with self._lock:
            account.gate.close()
            try:
                if not self._running:
                    await self._start()
                self._accounts.discard(account)
                await self.backend.free_disk()
                if self._accounts or not self.backend.ahead_ns:
                    await self._remove_streams(account.login)
            except BaseException:
                # Whatever is wrong with this server, the next test gets another one.
                self._accounts.discard(account)
                if not self._accounts:
                    await self._replace()
                raise

    def _is_used_up(self) -> bool:
        """Whether the next test needs a new server: no clock can be moved back, for example."""
        assert self._backend is not None
        return self._backend.ahead_ns > 0 or self._has_streams or self._opened >= ACCOUNTS_MAX

    def _logins(self) -> list[Login]:
        return [*(each.login for each in self._accounts), *self._pool]

    def _fill_pool(self) -> None:
        for _ in range(POOL_SIZE):
            self._made += 1
            self._pool.append(Login(f"TEST{self._made}", secrets.token_hex(8)))

    async def _first_start(self) -> None:
        self._runs += 1
        folder = self._folder / f"run{self._runs}"
        folder.mkdir()
        self._pool.clear()
        self._fill_pool()
        self._backend = (
            NatsServerBackend(self._supervisor, folder, self._program)
            if self._program
            else JetsparkBackend(self._supervisor, folder)
        )
        try:
            await self._start()
        except BaseException:
            self._backend = None
            raise

    async def _replace(self) -> None:
        if self._running:
            await self._end(signal.SIGKILL)
        folder = self._folder / f"run{self._runs}"
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        self._backend = None
        self._opened = 0
        self._has_streams = False

    async def _remove_streams(self, login: Login) -> None:
        url = f"nats://{login.user}:{login.password}@127.0.0.1:{self.backend.port}"
        async with (
            asyncio.timeout(CLEANUP_TIMEOUT),
            connect(url, allow_reconnect=False, name="jetspark.testing") as client,
        ):
            streams = client.jetstream()
            names = [each async for each in streams.stream_names()]
            if len(names) > STREAMS_MAX and not self._accounts:
                self._has_streams = True
                return
            for name in names:
                try:
                    await streams.delete_stream(name)
                except Error:
                    # A program that still runs may delete its streams, too.
                    if name in [each async for each in streams.stream_names()]:
                        raise

    # The server --------------------------------------------------------------------------------

    async def _start(self) -> None:
        await self.backend.start(self._logins())
        self._running = True
        for account in self._accounts:
            await account.gate.listen()

    async def _end(self, number: int) -> None:
        self._running = False
        for account in self._accounts:
            account.gate.refuse()
        await self.backend.end(number)
        for account in self._accounts:
            account.gate.drop()

    async def start(self) -> None:
        """Start the server that was stopped."""
        async with self._lock:
            if self._running:
                raise InvalidState("the server is running: stop() or crash() it before start()")
            await self._start()

    async def end(self, number: int) -> None:
        """End the server by a signal."""
        async with self._lock:
            if not self._running:
                raise InvalidState("the server is already stopped: start() it")
            await self._end(number)

    async def advance(self, duration_ns: int) -> None:
        """Move the clock of the server."""
        async with self._lock:
            await self.backend.advance(duration_ns)

    def close(self) -> None:
        """End the server, and remove its folder."""
        if self.pid != os.getpid():
            return
        self.portal.call(self._close())
        self._supervisor.close()
        self.portal.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _close(self) -> None:
        for account in self._accounts:
            account.gate.close()
        if self._running:
            await self._end(signal.SIGKILL)
        # Connections that were dropped are closed in the next turn.
        await asyncio.sleep(0)


class Account:
    """What one test has of the server: an account, and an address of its own."""

    def __init__(self, kit: Kit, login: Login) -> None:
        self.kit = kit
        self.login = login
        self.published: PublishLog = PublishLog()
        self.gate: Gate = Gate(lambda: kit.backend.port, self.published.record)

    @property
    def url(self) -> str:
        """The address for clients, with the credentials of this account."""
        return f"nats://{self.login.user}:{self.login.password}@127.0.0.1:{self.gate.port}"


class _Process:
    """The kit of this process, and the server that it is to use."""

    def __init__(self) -> None:
        self.kind = ""
        self.kit: Kit | None = None
        self._lock = threading.Lock()

    def get(self) -> Kit:
        with self._lock:
            # A forked process gets a server of its own: the loop of the other one is not here.
            if self.kit is None or self.kit.pid != os.getpid():
                kit = Kit(self.kind or os.environ.get(KIND_VARIABLE, "") or KINDS[0])
                atexit.unregister(self.close)
                atexit.register(self.close)
                self.kit = kit
            return self.kit

    def close(self) -> None:
        kit, self.kit = self.kit, None
        if kit is not None:
            atexit.unregister(self.close)
            kit.close()


_process: Final = _Process()


def get_kit() -> Kit:
    """The kit of this process; its server is started on first use."""
    return _process.get()


def choose_server(kind: str) -> None:
    """Use this server, instead of the one that the environment names."""
    _process.kind = kind


def close_kit() -> None:
    """End the server of this process; nothing happens if there is none."""
    _process.close()
