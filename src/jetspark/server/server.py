"""The server: a listener, its connections, and JetStream behind them. Embed it or run it.

::

    async with Server() as server:
        client = await jetspark.connect(server.client_url)
"""

import asyncio
import logging
import secrets
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from jetspark.clock import SystemClock
from jetspark.engine.engine import Engine
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.config import API_LEVEL
from jetspark.ids import Nuid
from jetspark.protocol.encoder import encode_info
from jetspark.protocol.handshake import JetsparkInfo, ServerInfo
from jetspark.protocol.limits import CONTROL_LINE_MAX, PAYLOAD_MAX
from jetspark.server.connection import Connection
from jetspark.server.driver import EngineDriver
from jetspark.server.router import ClientHandler, Router
from jetspark.store.committer import ThreadCommitter
from jetspark.store.files import OsFiles
from jetspark.store.manifest import Identity
from jetspark.store.recovery import Recovery
from jetspark.store.store import FileStore
from jetspark.version import NATS_VERSION, VERSION

log = logging.getLogger("jetspark.server")

READ_BUFFER: Final = 256 * 1024  # speed.md 6
GLOBAL_ACCOUNT: Final = "$G"


class Server:
    """A NATS server with JetStream in this process.

    ``port`` -1 takes any free port. ``store_dir`` None keeps the store in a private folder that is
    removed when the server closes.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = -1,
        store_dir: str | Path | None = None,
        jetstream: bool = True,
        server_name: str | None = None,
    ) -> None:
        self.clock = SystemClock()
        self.connections: set[Connection] = set()
        self.read_buffer = memoryview(bytearray(READ_BUFFER))
        self._host = host
        self._port = port
        self._store_dir = Path(store_dir).absolute() if store_dir is not None else None
        self._private_dir: Path | None = None
        self._jetstream = jetstream
        self._server_id = Nuid().next()
        self._server_name = server_name or self._server_id
        self._outbox = Outbox()
        self.router = Router(self._outbox)
        self._driver: EngineDriver | None = None
        self._engine: Engine | None = None
        self._listener: asyncio.Server | None = None
        self._last_client_id = 0
        self._no_connections = asyncio.Event()
        self._no_connections.set()

    def joined(self, connection: Connection) -> None:
        """A client connected."""
        self.connections.add(connection)
        self._no_connections.clear()

    def left(self, connection: Connection) -> None:
        """A client is gone."""
        self.connections.discard(connection)
        if not self.connections:
            self._no_connections.set()

    @property
    def port(self) -> int:
        """The port the server listens on; known once it has started."""
        if self._listener is None:
            raise RuntimeError("the server is not running: use `async with Server()` or `start()`")
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def client_url(self) -> str:
        """Where clients connect."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"nats://{host}:{self.port}"

    async def start(self) -> None:
        """Recover the store and listen."""
        if self._jetstream:
            self._start_jetstream()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._accept, self._host, max(self._port, 0), backlog=1024
        )
        log.info("Listening for client connections on %s:%d", self._host, self.port)
        log.info("Server is ready")

    def _start_jetstream(self) -> None:
        folder = self._store_dir
        if folder is None:
            folder = self._private_dir = Path(tempfile.mkdtemp(prefix="jetspark-"))
            log.info("Streams are kept in %s and removed when the server stops", folder)
        else:
            log.info("Streams are kept in %s", folder)
        files = OsFiles()
        self._engine = Engine(
            FileStore(files, folder),
            account=GLOBAL_ACCOUNT,
            random_id=lambda: secrets.randbits(64),
        )
        self._engine.open(report_recovery)
        self._driver = EngineDriver(self._engine, self.router, self._outbox, self.clock)
        self._driver.committer = ThreadCommitter(
            files,
            self._driver.report,
            asyncio.get_running_loop().call_soon_threadsafe,
            self.clock.monotonic_ns,
        )

    def _accept(self) -> Connection:
        self._last_client_id += 1
        client = ClientHandler(self.router, CONTROL_LINE_MAX, PAYLOAD_MAX)
        return Connection(self, client, self._last_client_id)

    def greeting(self, client_id: int, client_ip: str) -> bytes:
        """The INFO line for a new connection."""
        return encode_info(
            ServerInfo(
                server_id=self._server_id,
                server_name=self._server_name,
                version=NATS_VERSION,
                proto=1,
                host=self._host,
                port=self.port,
                headers=True,
                max_payload=PAYLOAD_MAX,
                jetstream=self._jetstream,
                client_id=client_id,
                client_ip=client_ip,
                api_lvl=API_LEVEL,
                jetspark=JetsparkInfo(version=VERSION, min_last_seq=True),
            )
        )

    def flush(self) -> None:
        """Write what the last chunk caused."""
        if self._driver is not None:
            self._driver.flush()
            return
        for client in self.router.take_dirty():
            if client.connection is not None:
                client.connection.flush()

    async def close(self) -> None:
        """Stop listening, put everything staged on disk, say goodbye, close the store."""
        if self._listener is not None:
            self._listener.close()
        if self._driver is not None:
            await self._driver.settle()
        for connection in list(self.connections):
            connection.close()
        await self._no_connections.wait()
        if self._driver is not None:
            self._driver.close()
        if self._engine is not None:
            self._engine.close()
        if self._private_dir is not None:
            shutil.rmtree(self._private_dir, ignore_errors=True)
        self._listener = self._driver = self._engine = self._private_dir = None

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


def report_recovery(identity: Identity, recovery: Recovery) -> None:
    """Say what opening a stream found."""
    log.info("Recovered stream %r: %d records", identity.name, recovery.records)
    if recovery.torn_bytes:
        log.warning(
            "Stream %r: %d bytes behind the last whole record were cut off; "
            "they were never acknowledged",
            identity.name,
            recovery.torn_bytes,
        )
    for offset, length in recovery.damaged:
        log.error(
            "Stream %r: %d bytes at offset %d of the log do not check and are skipped",
            identity.name,
            length,
            offset,
        )
