"""Consumers, watches and buckets over a connection that is cut again and again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.chaos_proxy import ChaosProxy

from jetspark import AckPolicy, Client, ConsumerConfig, KeyValueConfig, StreamConfig, connect
from jetspark.errors import Error

CUTS = 12
MESSAGES = 400
QUICK: Any = {
    "reconnect_wait": 0.005,
    "reconnect_wait_max": 0.02,
    "reconnect_jitter": 0.0,
    "max_reconnects": -1,
    "error_callback": lambda _error: None,
}


async def cutting(proxy: ChaosProxy, dice: random.Random, over: Callable[[], bool]) -> int:
    """Cut until enough is enough; returns how often."""
    cuts = 0
    while cuts < CUTS or not over():
        await asyncio.sleep(dice.uniform(0.01, 0.06))
        if cuts < CUTS:
            proxy.write_size = dice.choice([0, 0, 7])
            proxy.cut()
            cuts += 1
        else:
            proxy.calm()
    return cuts


async def publishing(direct: Client, name: str) -> None:
    js = direct.jetstream()
    for n in range(MESSAGES):
        await js.publish(f"{name}.a", b"%d" % n)
        if n % 20 == 0:
            await asyncio.sleep(0.01)


async def campaign(server: Any, name: str, read: Callable[[Client], Awaitable[None]]) -> None:
    async with ChaosProxy(server.address) as proxy, await connect(server.url) as direct:
        await direct.jetstream().create_stream(
            StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True)
        )
        async with await connect(proxy.url, timeout=5.0, **QUICK) as nc:
            reading = asyncio.ensure_future(read(nc))
            await asyncio.gather(
                publishing(direct, name), cutting(proxy, random.Random(5), reading.done)
            )
            await reading


@pytest.mark.parametrize("push", [False, True], ids=["pull", "push"])
async def test_an_ordered_consumer_misses_nothing(server: Any, name: str, push: bool) -> None:
    seen: list[int] = []

    async def read(nc: Client) -> None:
        stream = await retried(lambda: nc.jetstream().stream(name))
        messages = stream.ordered_consumer(push=push).messages(heartbeat=0.3)
        async for message in messages:
            seen.append(int(message.data))
            if len(seen) == MESSAGES:
                break
        await messages.close()

    async with asyncio.timeout(50):
        await campaign(server, name, read)

    assert seen == list(range(MESSAGES))


async def test_a_durable_consumer_delivers_everything_at_least_once(
    server: Any, name: str
) -> None:
    seen: set[int] = set()

    async def read(nc: Client) -> None:
        stream = await retried(lambda: nc.jetstream().stream(name))
        config = ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT, ack_wait=1)
        consumer = await retried(lambda: stream.create_consumer(config))
        async with consumer.messages(prefetch=50, heartbeat=0.3) as messages:
            async for message in messages:
                seen.add(int(message.data))
                message.ack()
                if len(seen) == MESSAGES:
                    return

    async with asyncio.timeout(50):
        await campaign(server, name, read)

    assert seen == set(range(MESSAGES))


async def test_fetch_ends_in_time_and_loses_nothing(server: Any, name: str) -> None:
    seen: set[int] = set()

    async def read(nc: Client) -> None:
        stream = await retried(lambda: nc.jetstream().stream(name))
        config = ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT, ack_wait=1)
        consumer = await retried(lambda: stream.create_consumer(config))
        while len(seen) < MESSAGES:
            async with asyncio.timeout(5):
                try:
                    fetched = await consumer.fetch(30, timeout=0.5)
                except Error:
                    continue
            for message in fetched:
                seen.add(int(message.data))
                message.ack()

    async with asyncio.timeout(50):
        await campaign(server, name, read)

    assert seen == set(range(MESSAGES))


async def test_a_watch_ends_with_the_last_value_of_every_key(server: Any, name: str) -> None:
    final: dict[str, bytes] = {}

    async def read(nc: Client) -> None:
        kv = await retried(lambda: nc.jetstream().key_value(name))
        async with await retried(kv.watch) as watcher:
            revision = 0
            async for entry in watcher:
                if entry is None:
                    continue
                assert entry.revision > revision
                revision = entry.revision
                final[entry.key] = entry.value
                if entry.key == "end":
                    return

    async with ChaosProxy(server.address) as proxy, await connect(server.url) as direct:
        kv = await direct.jetstream().create_key_value(KeyValueConfig(bucket=name))
        written: dict[str, bytes] = {}

        async def write() -> None:
            for n in range(MESSAGES):
                key = f"k.{n % 13}"
                written[key] = b"%d" % n
                await kv.put(key, written[key])
                if n % 20 == 0:
                    await asyncio.sleep(0.01)
            written["end"] = b""
            await kv.put("end", b"")

        async with asyncio.timeout(50), await connect(proxy.url, timeout=5.0, **QUICK) as nc:
            reading = asyncio.ensure_future(read(nc))
            await asyncio.gather(write(), cutting(proxy, random.Random(7), reading.done))
            await reading

    assert final == written


async def retried(call: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a call that may be interrupted."""
    while True:
        try:
            return await call()
        except Error:
            await asyncio.sleep(0.01)
