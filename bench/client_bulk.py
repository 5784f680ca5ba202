"""Rows of bench.clients without a peer: features of our client only, with our server.

nats-py has no fast ingest, no atomic batches and no replica; the targets are the project's.
Messages have 128 bytes; streams are on disk, and acknowledged means synced.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench.raw_api import checked, stream_request

PAYLOAD = b"x" * 128
ROWS = 1000
SUBJECTS = [f"bulk.{n % 100}" for n in range(ROWS)]
PAYLOADS = [PAYLOAD] * ROWS

Measure = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
Case = Callable[[Any, str, int, Measure], Awaitable[None]]


async def made(nc: Any) -> Any:
    """A stream on disk that accepts both kinds of batches."""
    request = stream_request("BULK", subjects=["bulk.*"], allow_batched=True, allow_atomic=True)
    checked(await nc.request(*request))
    return nc.jetstream()


async def fast_columns(nc: Any, _client: str, count: int, measure: Measure) -> None:
    """Fast ingest of columns, a thousand rows at a time."""
    js = await made(nc)

    async def work() -> None:
        async with js.fast_publisher() as fast:
            for _ in range(count // ROWS):
                await fast.extend(SUBJECTS, PAYLOADS)

    await measure(work)


async def fast_messages(nc: Any, _client: str, count: int, measure: Measure) -> None:
    """Fast ingest, a call per message."""
    js = await made(nc)

    async def work() -> None:
        async with js.fast_publisher() as fast:
            for n in range(count):
                await fast.publish(SUBJECTS[n % ROWS], PAYLOAD)

    await measure(work)


def atomic(in_flight: int) -> Case:
    """Atomic batches of a thousand, this many at a time."""

    async def case(nc: Any, _client: str, count: int, measure: Measure) -> None:
        js = await made(nc)

        async def worker() -> None:
            for _ in range(count // ROWS // in_flight):
                async with js.atomic_batch() as batch:
                    batch.extend(SUBJECTS, PAYLOADS)

        async def work() -> None:
            await asyncio.gather(*(worker() for _ in range(in_flight)))

        await measure(work)

    return case


async def replica_get(nc: Any, _client: str, count: int, measure: Measure) -> None:
    """Get entries of a bucket from its copy in this process."""
    kv = await nc.jetstream().create_key_value("BULK")
    await kv.put_many(dict.fromkeys(SUBJECTS, PAYLOAD), timeout=60)
    replica = await kv.replica()

    async def work() -> None:
        get = replica.get
        for _ in range(count // ROWS):
            for key in SUBJECTS:
                get(key)

    await measure(work)
    await replica.close()


# The case, the number of messages, and the target rate on an otherwise idle machine (0: none).
CASES: dict[str, tuple[Case, int, int]] = {
    "our client, fast ingest": (fast_columns, 400_000, 200_000),
    "our client, fast, one by one": (fast_messages, 200_000, 0),
    "our client, atomic, 1 in flight": (atomic(1), 200_000, 150_000),
    "our client, atomic, 4 in flight": (atomic(4), 400_000, 150_000),
    "our client, replica get": (replica_get, 1_000_000, 500_000),
}
