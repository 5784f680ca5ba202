"""Fifty cuts: no acknowledged publish lost, every pending call ends in time."""

import asyncio
import os
import random
from typing import Protocol

import pytest
from tests.client.connection.chaos_campaign import Campaign
from tests.support.chaos_proxy import ChaosProxy

from jetspark import Client, KeyValueConfig, ObjectStoreConfig, Stream, StreamConfig, connect

CUTS = 50
# tools/torture.py gives others.
SEEDS = [int(seed) for seed in os.environ.get("JETSPARK_CHAOS_SEEDS", "1").split(",")]
# A call may take its timeout of half a second, and what a busy machine adds to it.
PATIENCE = dict.fromkeys(
    ["publish", "publish_async", "kv.put", "kv.get", "fetch", "request", "flush"], 3.0
)
# These consist of several calls, or ask again.
PATIENCE |= {"atomic": 4.0, "fast": 10.0, "object.put": 6.0, "object.get": 6.0}


class RunningServer(Protocol):
    """What conftest.py starts."""

    url: str
    address: str


async def torment(proxy: ChaosProxy, nc: Client, seed: int) -> None:
    """Fifty times: wait for a connection, let it work a little, break it as the seed decides."""
    rng = random.Random(seed)
    for cut in range(CUTS):
        proxy.calm()
        async with asyncio.timeout(10):
            while nc.stats.reconnects < cut:
                await asyncio.sleep(0.002)
        proxy.latency = rng.choice((0.0, 0.0, 0.01))
        proxy.write_size = rng.choice((0, 0, 1, 7))
        await asyncio.sleep(rng.uniform(0.02, 0.12))
        kind = rng.choice(("cut", "cut", "black hole", "refuse"))
        if kind == "black hole":
            proxy.black_hole()
        else:
            proxy.refusing = kind == "refuse"
            proxy.cut()
    proxy.calm()


async def prepared(nc: Client, name: str) -> Stream:
    """Everything that the campaign works on, made over a connection that no one cuts."""
    js = nc.jetstream()
    await nc.subscribe(f"{name}-echo", callback=lambda m: m.respond(m.data))
    await js.create_key_value(KeyValueConfig(bucket=name))
    await js.create_object_store(ObjectStoreConfig(bucket=name))
    return await js.create_stream(
        StreamConfig(
            name=name,
            subjects=(f"{name}.*",),
            allow_direct=True,
            allow_atomic=True,
            allow_batched=True,
        )
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_fifty_cuts_lose_nothing_that_was_acknowledged(
    server: RunningServer, name: str, seed: int
) -> None:
    async with await connect(server.url) as plain:
        stream = await prepared(plain, name)
        async with (
            ChaosProxy(server.address) as proxy,
            await connect(
                proxy.url,
                reconnect_wait=0.01,
                reconnect_wait_max=0.05,
                reconnect_jitter=0.01,
                max_reconnects=-1,
                connect_timeout=0.3,
                ping_interval=0.05,
                reconnect_buffer_bytes=10_000,
                error_callback=lambda _error: None,
            ) as nc,
        ):
            campaign = Campaign(nc, name)
            workers = [asyncio.ensure_future(work) for work in campaign.workers()]
            await torment(proxy, nc, seed)
            # On a busy machine the longest calls may not get through between two cuts.
            async with asyncio.timeout(60):
                while campaign.done.keys() != PATIENCE.keys():
                    await asyncio.sleep(0.01)
            campaign.over = True
            await asyncio.wait_for(asyncio.gather(*workers), 30)
            await nc.flush(timeout=10)

            assert nc.stats.reconnects >= CUTS
            assert nc.stats.requests_pending == 0
            assert nc.stats.subscriptions == 0
        stored = {message.seq: message.data async for message in stream.get_batch(seq=1)}
        kv = await plain.jetstream().key_value(name)
        values = await kv.get_many(list(campaign.put))
        objects = await plain.jetstream().object_store(name)
        campaign.check_object(await objects.get("o"))

    campaign.check(stored)
    for key, (revision, value) in campaign.put.items():
        entry = values[key]
        assert entry.revision > revision or entry.value == value
    assert campaign.done.keys() == PATIENCE.keys(), "every kind of call worked now and then"
    late = {kind: took for kind, took in campaign.slowest.items() if took > PATIENCE[kind]}
    assert not late, f"{campaign.done} of {campaign.calls} calls worked"


async def test_one_byte_at_a_time_is_only_slow(server: RunningServer, name: str) -> None:
    async with ChaosProxy(server.address) as proxy:
        proxy.write_size = 1
        async with await connect(proxy.url) as nc:
            subscription = await nc.subscribe(name)
            for n in range(20):
                nc.publish(name, b"%d" % n, headers={"n": str(n)})
            received = [await subscription.next() for _ in range(20)]

    assert [(m.data, m.headers["n"]) for m in received] == [(b"%d" % n, str(n)) for n in range(20)]


async def test_a_black_hole_is_noticed_by_pings(server: RunningServer, name: str) -> None:
    lost: list[Exception] = []
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(
            proxy.url,
            ping_interval=0.05,
            reconnect_wait=0.01,
            disconnected_callback=lost.append,
        ) as nc,
    ):
        subscription = await nc.subscribe(name)
        await nc.flush()
        proxy.black_hole()
        while not nc.stats.reconnects:
            await asyncio.sleep(0.01)
        nc.publish(name, b"again")

        assert (await subscription.next()).data == b"again"
    assert "did not answer 2 PINGs" in str(lost[0])
