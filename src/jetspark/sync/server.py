"""The blocking twin of the embedded server: ``with jetspark.sync.Server() as server``.

Each server has its own loop and thread, so that it and the blocking clients of the same process
never wait for each other; both end when it closes.
"""

from types import TracebackType
from typing import Self, Unpack

from jetspark.client.connect_arguments import ConnectArguments
from jetspark.server.arguments import ServerArguments
from jetspark.server.server import Server as _Server
from jetspark.sync.client import Client, connect
from jetspark.sync.portal import Portal
from jetspark.upstreams import connect_upstream


class Server:
    """A NATS server with JetStream, in a thread; the arguments are those of `jetspark.Server`."""

    def __init__(self, **arguments: Unpack[ServerArguments]) -> None:
        arguments["upstreams"] = arguments.get("upstreams") or connect_upstream
        self._inner = _Server(**arguments)
        if self._inner.settings.jetspark.dashboard.enabled:
            from jetspark.dashboard.embedded import add_dashboard

            add_dashboard(self._inner)
        self._portal: Portal | None = None

    @property
    def client_url(self) -> str:
        """The URL for clients."""
        return self._inner.client_url

    @property
    def port(self) -> int:
        """The port the server listens on; known once it has started."""
        return self._inner.port

    @property
    def monitor_url(self) -> str:
        """The monitoring URL; empty if monitoring is off."""
        return self._inner.monitor_url

    def connect(self, **options: Unpack[ConnectArguments]) -> Client:
        """Connect a client to this server; the options are those of `jetspark.sync.connect`."""
        return connect(self.client_url, **options)

    def start(self) -> None:
        """Recover the store and listen."""
        portal = Portal()
        try:
            portal.call(self._inner.start())
        except BaseException:
            portal.stop()
            raise
        self._portal = portal

    def close(self) -> None:
        """Write everything staged to disk, disconnect clients, end the thread."""
        portal, self._portal = self._portal, None
        if portal is not None:
            portal.call(self._inner.close())
            portal.stop()

    def __repr__(self) -> str:
        return repr(self._inner)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
