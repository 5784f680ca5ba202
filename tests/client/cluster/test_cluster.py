"""The client on a real cluster of three: a node killed during publishing, discovery, lame duck."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.cluster import Cluster
from tests.support.fast_ingest import Ingest

from jetspark import JetStream, Stream, StreamConfig, connect
from jetspark.errors import ApiError, ConnectionClosed, NoResponders, RequestTimeout

QUICK: Any = {"reconnect_wait": 0.02, "reconnect_wait_max": 0.2}

# One worker, one cluster.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for the module; who kills a node starts it again."""
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


async def test_the_other_nodes_are_discovered(cluster: Cluster) -> None:
    await cluster.wait_ready()
    async with await connect(cluster.urls[0]) as nc:
        while len(nc.servers) < 3:
            await asyncio.sleep(0.02)

        assert sorted(f"nats://{label}" for label in nc.servers) == sorted(cluster.urls)
    async with await connect(cluster.urls[0], ignore_discovered=True) as nc:
        await nc.flush()

        assert len(nc.servers) == 1


async def test_a_node_killed_while_publishing_loses_no_acknowledged_message(
    cluster: Cluster, name: str
) -> None:
    """The node that the client is connected to and that leads the streams.

    Each publish is repeated under its id until it is acknowledged. At the same time two fast
    batches are in progress, one of each kind.
    """
    await cluster.wait_ready()
    async with await connect(cluster.urls, **QUICK) as nc:
        stream, ingest = await ingested(nc.jetstream(timeout=5.0), name, 0)
        node = int((await leader_of(stream)).removeprefix("n"))
    others = [url for url in cluster.urls if url != cluster.urls[node]]
    async with await connect([cluster.urls[node], *others], **QUICK) as nc:
        js = nc.jetstream(timeout=2.0)
        stream = await js.stream(name)
        ingest = Ingest(js, stream, name, 6000)
        _, lossy = await ingested(js, f"{name}-ok", 6000)
        await js.create_stream(
            StreamConfig(name=f"{name}-p", subjects=(f"{name}-p",), num_replicas=3), timeout=20
        )
        publishing = Publishing(js, f"{name}-p")
        await publishing.run(50)
        going_on = asyncio.gather(publishing.run(200), ingest.run("fail"), lossy.run("ok"))
        await ingest.well_begun.wait()
        await lossy.well_begun.wait()
        await asyncio.to_thread(cluster.kill, node)
        try:
            await asyncio.wait_for(going_on, 60)
        finally:
            await asyncio.to_thread(cluster.start, node)
            await cluster.wait_ready()

        assert cluster.node_of(nc.connected_server) != node
        await publishing.check(await js.stream(f"{name}-p"))
        assert ingest.batches > 1
        await ingest.check()
        await lossy.check(exact=False)


async def test_leaders_that_step_down_lose_no_acknowledged_message(
    cluster: Cluster, name: str
) -> None:
    await cluster.wait_ready()
    async with await connect(cluster.urls, **QUICK) as nc:
        js = nc.jetstream(timeout=2.0)
        stream = await js.create_stream(
            StreamConfig(name=name, subjects=(name,), num_replicas=3), timeout=20
        )
        publishing = Publishing(js, name)
        leaders = set()
        for step in range(1, 4):
            leaders.add(await leader_of(stream))
            going_on = asyncio.ensure_future(publishing.run(step * 100))
            await nc.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}", timeout=20)
            await asyncio.wait_for(going_on, 60)

        assert len(leaders) > 1
        await publishing.check(stream)


class Publishing:
    """Publishes numbered messages, each under its id until it is acknowledged."""

    def __init__(self, js: JetStream, subject: str) -> None:
        self._js = js
        self._subject = subject
        self._acked: dict[bytes, int] = {}

    async def run(self, count: int) -> None:
        """Continue until this many are acknowledged."""
        while len(self._acked) < count:
            text = b"%d" % len(self._acked)
            try:
                ack = await self._js.publish(self._subject, text, msg_id=text.decode())
            except (RequestTimeout, NoResponders, ConnectionClosed, ApiError):
                continue
            self._acked[text] = ack.seq

    async def check(self, stream: Stream) -> None:
        """Everything acknowledged exists, once, and nothing else."""
        stored = {seq: (await stream.get_msg(seq=seq)).data for seq in self._acked.values()}
        assert {seq: text for text, seq in self._acked.items()} == stored
        assert (await stream.info()).state.messages == len(self._acked)


async def leader_of(stream: Stream) -> str:
    """The name of the leader, when there is one."""
    async with asyncio.timeout(20):
        while True:
            placed = (await stream.info()).cluster
            if placed is not None and placed.leader:
                return placed.leader
            await asyncio.sleep(0.05)


async def ingested(js: JetStream, name: str, count: int) -> tuple[Stream, Ingest]:
    """A stream on three nodes and an ingest for it."""
    config = StreamConfig(
        name=name, subjects=(name,), num_replicas=3, allow_batched=True, allow_direct=True
    )
    stream = await js.create_stream(config, timeout=20)
    return stream, Ingest(js, stream, name, count)


@pytest.mark.parametrize("gap", ["fail", "ok"])
async def test_fast_ingest_over_leader_changes(cluster: Cluster, name: str, gap: str) -> None:
    """ADR-50: with gaps allowed the batch survives; otherwise it says where it ended."""
    await cluster.wait_ready()
    async with await connect(cluster.urls, **QUICK) as nc:
        js = nc.jetstream(timeout=5.0)
        stream, ingest = await ingested(js, name, 6000)
        before = await leader_of(stream)
        going_on = asyncio.ensure_future(ingest.run(gap))
        await ingest.well_begun.wait()
        await nc.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}", timeout=20)
        await going_on

        assert await leader_of(stream) != before
        assert ingest.lost if gap == "ok" else ingest.batches > 1
        assert not ingest.looked_up
        await ingest.check()


async def test_a_lame_duck_is_announced_and_left(cluster: Cluster, name: str) -> None:
    await cluster.wait_ready()
    ducks: list[str] = []
    lost: list[Exception] = []
    async with await connect(
        cluster.urls,
        lame_duck_callback=lambda info: ducks.append(info.server_name),
        disconnected_callback=lost.append,
        **QUICK,
    ) as nc:
        subscription = await nc.subscribe(name)
        await nc.flush()
        node = cluster.node_of(nc.connected_server)
        cluster.lame_duck(node)
        while not nc.stats.reconnects:
            await asyncio.sleep(0.02)
        nc.publish(name, b"elsewhere")
        received = await subscription.next()

        assert received.data == b"elsewhere"
        assert cluster.node_of(nc.connected_server) != node
    assert ducks == [f"n{node}"]
    assert len(lost) == 1
    await asyncio.to_thread(cluster.kill, node)
    await asyncio.to_thread(cluster.start, node)


async def test_a_paused_node_is_left_for_another(cluster: Cluster, name: str) -> None:
    """The connection stays open and silent: only pings can tell."""
    await cluster.wait_ready()
    async with await connect(cluster.urls, ping_interval=0.2, connect_timeout=0.5, **QUICK) as nc:
        subscription = await nc.subscribe(name)
        await nc.flush()
        node = cluster.node_of(nc.connected_server)
        cluster.pause(node)
        try:
            while not nc.stats.reconnects:
                await asyncio.sleep(0.02)
            nc.publish(name, b"elsewhere")

            assert (await subscription.next()).data == b"elsewhere"
            assert cluster.node_of(nc.connected_server) != node
        finally:
            cluster.resume(node)
