"""The client on a real cluster of three: a node killed during publishing, discovery, lame duck."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.cluster import Cluster

from jetspark.api.stream import StreamConfig
from jetspark.client import connect
from jetspark.errors import ApiError, ConnectionClosed, NoResponders, RequestTimeout

QUICK: Any = {"reconnect_wait": 0.02, "reconnect_wait_max": 0.2}

pytestmark = pytest.mark.timeout(90)


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
    """Issue 7, Proof: each publish is repeated under its id until it is acknowledged."""
    await cluster.wait_ready()
    async with await connect(cluster.urls, **QUICK) as nc:
        js = nc.jetstream(timeout=2.0)
        stream = await js.create_stream(
            StreamConfig(name=name, subjects=(name,), num_replicas=3, allow_direct=True),
            timeout=20,
        )
        acked: dict[bytes, int] = {}
        killed = asyncio.Event()

        async def publish() -> None:
            n = after = 0
            while after < 100:
                text = b"%d" % n
                try:
                    ack = await js.publish(name, text, msg_id=text.decode())
                except (RequestTimeout, NoResponders, ConnectionClosed, ApiError):
                    continue
                acked[text] = ack.seq
                n += 1
                after += killed.is_set()

        publishing = asyncio.ensure_future(publish())
        while len(acked) < 100:
            await asyncio.sleep(0.01)
        node = cluster.node_of(nc.connected_server)
        await asyncio.to_thread(cluster.kill, node)
        killed.set()
        await asyncio.wait_for(publishing, 60)
        await asyncio.to_thread(cluster.start, node)
        await cluster.wait_ready()
        stored = {seq: (await stream.get_msg(seq=seq)).data for seq in acked.values()}

        assert cluster.node_of(nc.connected_server) != node
        assert {seq: text for text, seq in acked.items()} == stored
        assert (await stream.info()).state.messages == len(acked)


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
        received = await subscription.next_msg()

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

            assert (await subscription.next_msg()).data == b"elsewhere"
            assert cluster.node_of(nc.connected_server) != node
        finally:
            cluster.resume(node)
