"""A cluster of three with one node that gets everything through proxies."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

from tests.support.chaos_proxy import ChaosProxy
from tests.support.cluster import Cluster
from tests.support.scripted import unused_port

from jetspark import Client, Stream

Proxy = TypeVar("Proxy", bound=ChaosProxy)

LATE = 2  # the node that is reached through the proxies


@contextlib.asynccontextmanager
async def late_cluster(
    folder: Path, proxy: type[Proxy]
) -> AsyncIterator[tuple[Cluster, list[Proxy]]]:
    """A cluster, and the proxies of this kind between the late node and the two others."""
    ports = [unused_port() for _ in range(3)]
    async with (
        proxy(f"127.0.0.1:{ports[0]}") as first,
        proxy(f"127.0.0.1:{ports[1]}") as second,
    ):
        behind = {ports[0]: first.port, ports[1]: second.port}
        cluster = await asyncio.to_thread(Cluster, folder, route_ports=ports, behind=behind)
        try:
            await cluster.wait_ready()
            yield cluster, [first, second]
        finally:
            await asyncio.to_thread(cluster.close)


async def led_elsewhere(nc: Client, stream: Stream) -> None:
    """Make sure that the late node does not lead the stream."""
    async with asyncio.timeout(30):
        while True:
            placed = (await stream.info()).cluster
            if placed is not None and placed.leader not in {"", f"n{LATE}"}:
                return
            await nc.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream.name}")
            await asyncio.sleep(0.2)
