"""Copies of a stream of three nodes that die, stand still and hand over the lead.

A consumer may live on any node, and a node that was away has old news. In the end the mirror and
the source hold what the stream holds: nothing was skipped, nothing came twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from tests.support.cluster import NODES, Cluster
from tests.support.remotes import HUB, as_copied, caught_up, copying, info_until, make, rows

from jetspark import Client, StreamConfig, connect
from jetspark.errors import Error

PATIENCE = 60.0


class ClusterCopies:
    """One cluster, one server that copies from it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.published = self.broken = 0
        self._random = random.Random(seed)
        self._cluster = Cluster(folder)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.close()

    async def run(self, deadline: float) -> None:
        """Break something, again and again; then compare."""
        cluster = self._cluster
        await cluster.wait_ready(PATIENCE)
        async with (
            await connect(cluster.urls, reconnect_wait=0.02, reconnect_wait_max=0.2) as there,
            copying(",".join(cluster.urls)) as server,
            await connect(server.client_url) as here,
        ):
            config = StreamConfig(name="A", subjects=("a",), num_replicas=NODES, allow_direct=True)
            await there.jetstream().create_stream(config, timeout=20)
            await make(here, "M", mirror={"name": "A", "external": HUB})
            await make(here, "S", sources=[{"name": "A", "external": HUB}])
            while time.monotonic() < deadline or self.broken == 0:
                await self._publish(there, self._random.randrange(5, 60))
                await self._break(there)
                self.broken += 1
            await cluster.wait_ready(PATIENCE)
            await self._compare(there, here)

    async def _break(self, there: Client) -> None:
        cluster, node = self._cluster, self._random.randrange(NODES)
        match self._random.choice(("step down", "kill", "pause")):
            case "kill":
                await asyncio.to_thread(cluster.kill, node)
                await self._publish(there, 20)
                await asyncio.to_thread(cluster.start, node)
            case "pause":
                cluster.pause(node)
                try:
                    await asyncio.sleep(self._random.random() * 3)
                finally:
                    cluster.resume(node)
            case _:
                there.publish("$JS.API.STREAM.LEADER.STEPDOWN.A", reply=there.new_inbox())

    async def _publish(self, there: Client, count: int) -> None:
        js = there.jetstream(timeout=2)
        for _ in range(count):
            self.published += 1
            number = self.published
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        await js.publish("a", b"%d" % number, msg_id=f"{number}")
                    except Error:  # there may be no leader now
                        await asyncio.sleep(0.05)
                    else:
                        break

    async def _compare(self, there: Client, here: Client) -> None:
        stream = await there.jetstream(timeout=20).stream("A")
        await caught_up(here, "M", (await stream.info()).state.last_seq)
        await info_until(here, "S", lambda found: found["state"]["messages"] >= self.published)
        held = await rows(there, "A")
        assert [row[4] for row in held] == [b"%d" % n for n in range(1, self.published + 1)]
        assert await rows(here, "M") == as_copied(held)
        assert [row[4] for row in await rows(here, "S")] == [row[4] for row in held]
