"""The monitoring ports of a server: loaded and opened only if they are configured."""

import logging
import ssl
from typing import TYPE_CHECKING

from jetspark.server.monitor.status import ServerStatus
from jetspark.server.monitor.web.app import create_app
from jetspark.server.monitor.web.http import MonitorPort
from jetspark.server.net.connection import Connection
from jetspark.server.net.listening import shown_address
from jetspark.server.start_errors import cannot_listen

if TYPE_CHECKING:
    from jetspark.server.server import Server

log: logging.Logger = logging.getLogger("jetspark.server")


class Monitor:
    """The monitoring ports, and the record of closed connections."""

    def __init__(self, server: "Server") -> None:
        self.url: str = ""
        self.http_port: int = 0
        self.https_port: int = 0
        self._server = server
        self._view = ServerStatus(server)
        self._ports: list[MonitorPort] = []

    async def start(self) -> None:
        """Open the ports."""
        settings = self._server.settings
        app = create_app(
            self._view,
            token=settings.jetspark.monitor_token.value,
            hosts=settings.jetspark.monitor_hosts,
            base_path=settings.http_base_path,
            mounts=self._server.mounts,
        )
        if settings.http_port:
            self.http_port = await self._open("http", MonitorPort(app), settings.http_port)
        if settings.https_port:
            tls = self._server.tls
            if tls is None:
                raise OSError("https_port needs a tls block with cert_file and key_file")
            context: ssl.SSLContext = tls.context
            served = MonitorPort(app, tls=context)
            self.https_port = await self._open("https", served, settings.https_port)

    async def _open(self, scheme: str, served: MonitorPort, port: int) -> int:
        """Listen, and return the actual port."""
        host = self._server.settings.http_host
        try:
            opened = await served.start(host, port)
        except OSError as error:
            raise cannot_listen(f"{scheme} monitoring", host, port, error) from error
        self._ports.append(served)
        log.info("Starting %s monitor on %s", scheme, shown_address(host, opened))
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
        self.url = self.url or f"{scheme}://{shown_address(reachable, opened)}"
        return opened

    def note_closed(self, connection: Connection) -> None:
        """Record a connection that ends."""
        self._view.note_closed(connection, connection.close_reason)

    async def stop(self) -> None:
        """Close the ports."""
        for port in self._ports:
            await port.stop()
        self._ports.clear()
