"""Cases of bench.clients about consumers and buckets."""

from collections.abc import Awaitable, Callable
from typing import Any

from bench.raw_api import bucket_request, checked, consumer_request, stream_request

PAYLOAD = b"x" * 128
BATCH = 500

Measure = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
Case = Callable[[Any, str, int, Measure], Awaitable[None]]


async def filled(nc: Any, client: str, count: int) -> Any:
    """A memory stream with ``count`` messages; returns the JetStream handle."""
    js = nc.jetstream()
    if client == "jetspark":
        request = stream_request("BENCH", subjects=["bench.js"], storage="memory")
        checked(await nc.request(*request))
        for _ in range(count):
            await js.publish_async("bench.js", PAYLOAD)
        await js.publish_async_complete(timeout=60)
        return js
    from nats.js.api import StorageType

    await js.add_stream(name="BENCH", subjects=["bench.js"], storage=StorageType.MEMORY)
    for _ in range(count):
        await js.publish_async("bench.js", PAYLOAD, wait_stall=60.0)
    await js.publish_async_completed()
    return js


def fetching(*, ack: bool) -> Case:
    """Pull in batches of 500, with or without acknowledging each message."""

    async def case(nc: Any, client: str, count: int, measure: Measure) -> None:
        js = await filled(nc, client, count)
        if client == "jetspark":
            policy = {"ack_policy": "explicit", "max_ack_pending": count} if ack else {}
            checked(await nc.request(*consumer_request("BENCH", "bench", **policy)))
            consumer = await (await js.stream("BENCH")).consumer("bench")

            async def ours() -> None:
                left = count
                while left:
                    messages = await consumer.fetch(BATCH)
                    left -= len(messages)
                    if ack:
                        for message in messages:
                            message.ack()
                await nc.flush()

            await measure(ours)
            return
        from nats.js import api

        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.EXPLICIT if ack else api.AckPolicy.NONE,
            max_ack_pending=count if ack else None,
        )
        subscription = await js.pull_subscribe("bench.js", config=config)

        async def theirs() -> None:
            left = count
            while left:
                messages = await subscription.fetch(BATCH)
                left -= len(messages)
                if ack:
                    for message in messages:
                        await message.ack()
            await nc.flush()

        await measure(theirs)

    return case


async def bucket_of(nc: Any, client: str, keys: int) -> Any:
    """A memory bucket with values."""
    js = nc.jetstream()
    if client == "jetspark":
        checked(await nc.request(*bucket_request("BENCH", storage="memory")))
        kv = await js.key_value("BENCH")
        await kv.put_many({f"k.{n}": PAYLOAD for n in range(keys)}, timeout=60)
        return kv
    from nats.js.api import StorageType

    kv = await js.create_key_value(bucket="BENCH", storage=StorageType.MEMORY, direct=True)
    for n in range(keys):
        await kv.put(f"k.{n}", PAYLOAD)
    return kv


async def kv_get(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Get values one at a time, by direct get."""
    kv = await bucket_of(nc, client, 100)

    async def work() -> None:
        for n in range(count):
            await kv.get(f"k.{n % 100}")

    await measure(work)


async def kv_put(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Put values one at a time."""
    kv = await bucket_of(nc, client, 1)

    async def work() -> None:
        for n in range(count):
            await kv.put(f"k.{n % 100}", PAYLOAD)

    await measure(work)


async def kv_keys(nc: Any, client: str, count: int, measure: Measure) -> None:
    """List all keys."""
    kv = await bucket_of(nc, client, count)

    async def ours() -> None:
        pager = kv.keys()
        assert len([key async for key in pager]) == count

    async def theirs() -> None:
        assert len(await kv.keys()) == count

    await measure(ours if client == "jetspark" else theirs)


CASES: dict[str, tuple[Case, int]] = {
    "fetch(500)": (fetching(ack=False), 20_000),
    "fetch(500) and ack": (fetching(ack=True), 20_000),
    "kv.get": (kv_get, 4_000),
    "kv.put": (kv_put, 4_000),
    "kv.keys": (kv_keys, 4_000),
}
