"""The blocking twin of the embedded server: ``with jetspark.sync.Server() as server``.

Each server runs on a loop and a thread of its own, so that it and the blocking clients of the
same process never wait for each other; both end when it closes.
"""

from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from jetspark.client.connect_arguments import ConnectArguments
from jetspark.server.arguments import OurSettings
from jetspark.server.config import Settings
from jetspark.server.remotes import UpstreamFactory
from jetspark.server.server import Server as _Server
from jetspark.sync.client import Client, connect
from jetspark.sync.portal import Portal
from jetspark.upstreams import connect_upstream


class Server:
    """A NATS server with JetStream, in a thread of this process. Arguments: `jetspark.Server`."""

    def __init__(
        self,
        *,
        host: str | None = None,
        port: int | None = None,
        store_dir: str | Path | None = None,
        jetstream: bool | None = None,
        server_name: str | None = None,
        http_port: int | None = None,
        config: str | Path | Settings | None = None,
        upstreams: UpstreamFactory | None = None,
        **ours: Unpack[OurSettings],
    ) -> None:
        self._inner = _Server(
            host=host,
            port=port,
            store_dir=store_dir,
            jetstream=jetstream,
            server_name=server_name,
            http_port=http_port,
            config=config,
            upstreams=upstreams or connect_upstream,
            **ours,
        )
        self._portal: Portal | None = None

    @property
    def client_url(self) -> str:
        """Where clients connect."""
        return self._inner.client_url

    @property
    def port(self) -> int:
        """The port the server listens on; known once it has started."""
        return self._inner.port

    @property
    def monitor_url(self) -> str:
        """Where monitoring is; empty when it is off."""
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
        """Put everything staged on disk, say goodbye, end the thread."""
        portal, self._portal = self._portal, None
        if portal is not None:
            portal.call(self._inner.close())
            portal.stop()

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
