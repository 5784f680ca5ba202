"""The server as a program embeds it: `jetspark.Server`.

It is the server of `jetspark.server` with what stands above that layer: a client of its own, and
the connections to the ``remotes`` it is configured with.
"""

from typing import Unpack

from jetspark.client.client import Client, connect
from jetspark.client.connect_arguments import ConnectArguments
from jetspark.client.opening import opens
from jetspark.server.arguments import ServerArguments
from jetspark.server.server import Server as _Server
from jetspark.upstreams import connect_upstream


class Server(_Server):
    """A NATS server with JetStream in this process: ``async with jetspark.Server() as server``.

    `jetspark.server.arguments.ServerArguments` lists what it takes.
    """

    def __init__(self, **arguments: Unpack[ServerArguments]) -> None:
        arguments["upstreams"] = arguments.get("upstreams") or connect_upstream
        super().__init__(**arguments)

    @opens
    async def connect(self, **options: Unpack[ConnectArguments]) -> Client:
        """Connect a client to this server; the options are those of `jetspark.connect`."""
        return await connect(self.client_url, **options)
