"""Cleaning up after deletions: ``KeyValue.purge_deletes``."""

import asyncio
from typing import Final

from jetspark.client.jetstream.kv.backend import Backend, WatchPlan
from jetspark.client.jetstream.kv.entry import Operation
from jetspark.client.jetstream.kv.listing import initial_pages
from jetspark.clock import SystemClock

OLDER_THAN: Final = 30 * 60.0  # seconds, as nats.go
REQUESTS_AT_ONCE: Final = 50


async def purge_deletes(backend: Backend, older_than: float, timeout: float | None) -> int:
    """Remove markers; of the young ones keep the marker and remove what is behind it."""
    if older_than < 0:
        raise ValueError(f"older_than={older_than}: expected seconds from 0 on")
    limit = SystemClock().now_ns() - round(older_than * 1e9)
    found: dict[str, int] = {}
    async for page in initial_pages(backend, WatchPlan(meta_only=True), timeout):
        for stored in page:
            if stored.operation is Operation.PUT:
                found.pop(stored.key, None)
            else:
                found[stored.key] = stored.time_ns
    waiting = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def erase(key: str, time_ns: int) -> None:
        async with waiting:
            # With older_than 0 all go, whatever the two clocks say.
            keep = 1 if older_than and time_ns > limit else 0
            await backend.erase(key, keep=keep, timeout=timeout)

    await asyncio.gather(*(erase(key, time_ns) for key, time_ns in found.items()))
    return len(found)
