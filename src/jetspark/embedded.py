"""The server as a program embeds it: `jetspark.Server`.

It is the server of `jetspark.server` with what stands above that layer: a client of its own, and
the connections to the ``remotes`` it is configured with.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from jetspark.client.client import Client, connect
from jetspark.client.connect_arguments import ConnectArguments
from jetspark.server.arguments import OurSettings
from jetspark.server.config import Settings
from jetspark.server.remotes import UpstreamFactory
from jetspark.server.server import Server as _Server
from jetspark.upstreams import connect_upstream

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Server(_Server):
    """A NATS server with JetStream in this process: ``async with jetspark.Server() as server``.

    ``port`` -1 takes any free port. ``store_dir`` None keeps the store in a private folder that is
    removed when the server closes. ``http_port`` opens the monitoring port (-1: any free one), on
    which ``mounts`` are served too, ASGI applications by path. ``config`` is a configuration file
    in nats-server's language, or `Settings`; what is given here as an argument wins over it.
    ``ours`` are the settings of the ``jetspark`` block, such as ``commit_delay="2ms"`` or
    ``remotes={"hub": {"url": "nats://hub:4222"}}``; ``upstreams`` connects to remotes in another
    way than `jetspark.replica.connect_remote` does.
    """

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
        mounts: "Mapping[str, ASGIApp] | None" = None,
        upstreams: UpstreamFactory | None = None,
        **ours: Unpack[OurSettings],
    ) -> None:
        super().__init__(
            host=host,
            port=port,
            store_dir=store_dir,
            jetstream=jetstream,
            server_name=server_name,
            http_port=http_port,
            config=config,
            mounts=mounts,
            upstreams=upstreams or connect_upstream,
            **ours,
        )

    async def connect(self, **options: Unpack[ConnectArguments]) -> Client:
        """Connect a client to this server; the options are those of `jetspark.connect`."""
        return await connect(self.client_url, **options)
