"""The embedded servers: `jetspark.Server` and `jetspark.ReplicaServer`.

They wrap the server of `jetspark.server` or `jetspark.replica`, and add what belongs above these
layers: a client, and the connections to the configured ``remotes``.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from jetspark.client.opening import opens
from jetspark.server.arguments import ServerArguments
from jetspark.server.config.settings import Settings
from jetspark.server.server import Server as _Server
from jetspark.upstreams import connect_upstream

if TYPE_CHECKING:
    from jetspark.client.client import Client
    from jetspark.client.connect_arguments import ConnectArguments


class Server:
    """A NATS server with JetStream in this process: ``async with jetspark.Server() as server``.

    `jetspark.server.arguments.ServerArguments` lists its arguments.
    """

    def __init__(self, **arguments: Unpack[ServerArguments]) -> None:
        arguments["upstreams"] = arguments.get("upstreams") or connect_upstream
        self._inner: _Server = _Server(**arguments)
        self._add_dashboard()

    @property
    def client_url(self) -> str:
        """The URL that clients connect to."""
        return self._inner.client_url

    @property
    def port(self) -> int:
        """The port the server listens on; known once it has started."""
        return self._inner.port

    @property
    def monitor_url(self) -> str:
        """The URL of the monitoring endpoints; empty if monitoring is off."""
        return self._inner.monitor_url

    @property
    def listening(self) -> bool:
        """Whether clients can connect."""
        return self._inner.listening

    @opens
    async def connect(self, **options: "Unpack[ConnectArguments]") -> "Client":
        """Connect a client to this server; the options are those of `jetspark.connect`."""
        from jetspark.client.client import connect

        return await connect(self.client_url, **options)

    def _add_dashboard(self) -> None:
        """Serve the dashboard, if the settings say so."""
        if self._inner.settings.jetspark.dashboard.enabled:
            from jetspark.dashboard.embedded import add_dashboard

            add_dashboard(self._inner)

    async def start(self) -> None:
        """Recover the store and listen."""
        await self._inner.start()

    async def reload(self, settings: Settings) -> None:
        """Apply new settings while running: all of them or, with ConfigRefused, none.

        Users that changed or were removed are disconnected, as nats-server does. Clients are
        served meanwhile.
        """
        await self._inner.reload(settings)

    async def close(self) -> None:
        """Stop listening, write everything staged to disk, disconnect clients, close the store."""
        await self._inner.close()

    def __repr__(self) -> str:
        return repr(self._inner)

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
        **arguments: Unpack[ServerArguments],
    ) -> None:
        from jetspark.replica.server import ReplicaServer as _ReplicaServer

        self._inner = _ReplicaServer(
            of, streams=streams, no_reads=no_reads, read_only=read_only, **arguments
        )
        self._add_dashboard()
