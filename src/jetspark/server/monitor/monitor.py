"""The monitoring ports of a server: loaded and opened only if they are configured.

The ports listen from the start on. What answers is loaded by a thread while clients are served
already: that code takes a third of the start of an empty server, and requests wait for it in the
ports' backlogs.
"""

import asyncio
import logging
import socket
import ssl
import sys
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Final, NamedTuple

from jetspark.errors.extras import extra
from jetspark.server.config.packages import MONITORING
from jetspark.server.monitor.status import ServerStatus
from jetspark.server.monitor.web.base_path import checked_base
from jetspark.server.net.connection import Connection
from jetspark.server.net.listening import BACKLOG, open_listener, shown_address
from jetspark.server.start_errors import cannot_listen

if TYPE_CHECKING:
    from jetspark.server.monitor.web.http import MonitorPort
    from jetspark.server.server import Server

log: logging.Logger = logging.getLogger("jetspark.server")

# What answers, and where it listens; with all that they import.
CODE: Final = ("jetspark.server.monitor.web.app", "jetspark.server.monitor.web.http")


class _Listening(NamedTuple):
    """An open port, whose connections are not accepted yet."""

    listener: socket.socket
    tls: ssl.SSLContext | None


class Monitor:
    """The monitoring ports, and the record of closed connections."""

    def __init__(self, server: "Server") -> None:
        self.url: str = ""
        self.http_port: int = 0
        self.https_port: int = 0
        self._server = server
        self._view = ServerStatus(server)
        self._listening: list[_Listening] = []
        self._ports: list[MonitorPort] = []
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the ports; they answer soon."""
        settings = self._server.settings
        checked_base(settings.http_base_path)
        if settings.http_port:
            self.http_port = self._open("http", settings.http_port, None)
        if settings.https_port:
            tls = self._server.tls
            if tls is None:
                raise OSError("https_port needs a tls block with cert_file and key_file")
            self.https_port = self._open("https", settings.https_port, tls.context)
        if self._server.mounts or all(name in sys.modules for name in CODE):
            # A mount that cannot be served is an error of the start, and has loaded most of it.
            await self._serve()
        else:
            self._loading = asyncio.create_task(self._load(), name="jetspark monitoring")

    def _open(self, scheme: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen, and return the actual port."""
        host = self._server.settings.http_host
        try:
            listener = open_listener(host, max(port, 0), BACKLOG)
        except OSError as error:
            raise cannot_listen(f"{scheme} monitoring", host, port, error) from error
        opened = int(listener.getsockname()[1])
        self._listening.append(_Listening(listener, tls))
        log.info("Starting %s monitor on %s", scheme, shown_address(host, opened))
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
        self.url = self.url or f"{scheme}://{shown_address(reachable, opened)}"
        return opened

    async def _load(self) -> None:
        """Load what answers, then answer; without it there is no monitoring."""
        try:
            await _import_aside()
            await self._serve()
        except Exception as error:
            # The packages are installed (`check_packages`): one of them is damaged.
            log.critical("The monitoring ports are closed: %s", error, exc_info=True)
            self._close_listeners()

    async def _serve(self) -> None:
        """Answer requests."""
        from jetspark.server.monitor.web.app import create_app
        from jetspark.server.monitor.web.http import MonitorPort

        settings = self._server.settings
        app = create_app(
            self._view,
            token=settings.jetspark.monitor_token.value,
            hosts=settings.jetspark.monitor_hosts,
            base_path=settings.http_base_path,
            mounts=self._server.mounts,
        )
        while self._listening:
            opened = self._listening.pop(0)
            port = MonitorPort(app, tls=opened.tls)
            self._ports.append(port)
            await port.serve(opened.listener)

    async def loaded(self) -> None:
        """Return when all code is loaded, for callers that tune the garbage collector."""
        if self._loading is not None:
            await asyncio.wait({self._loading})

    def note_closed(self, connection: Connection) -> None:
        """Record a connection that ends."""
        self._view.note_closed(connection, connection.close_reason)

    async def stop(self) -> None:
        """Close the ports."""
        await self.loaded()
        for port in self._ports:
            await port.stop()
        self._ports.clear()
        self._close_listeners()

    def _close_listeners(self) -> None:
        """Close the ports that nothing answers."""
        for opened in self._listening:
            opened.listener.close()
        self._listening.clear()


async def _import_aside() -> None:
    """Import the code in a thread, or here if none can be started; raises what that raises."""
    loop = asyncio.get_running_loop()
    imported: asyncio.Future[Exception | None] = loop.create_future()

    def tell(error: Exception | None) -> None:
        if not imported.done():
            imported.set_result(error)

    def work() -> None:
        error = _import_code()
        # The loop may have ended without waiting for this.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, error)

    thread = Thread(target=work, name="jetspark-monitoring", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        error = _import_code()
    else:
        error = await imported
        # It has nothing left to do.
        thread.join()
    if error is not None:
        raise error


def _import_code() -> Exception | None:
    """Import the code; return what that raised."""
    try:
        with extra(*MONITORING):
            for name in CODE:
                import_module(name)
    except Exception as error:  # noqa: BLE001 - the caller raises it
        return error
    return None
