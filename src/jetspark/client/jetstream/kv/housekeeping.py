"""Removal of deletion markers: ``KeyValue.purge_deletes``."""

import asyncio
import math
from datetime import timedelta
from typing import Final

from jetspark.client.jetstream.kv.backend import Backend, Stored, WatchPlan
from jetspark.client.jetstream.kv.entry import Operation
from jetspark.client.jetstream.kv.listing import initial_pages
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.clock import SystemClock

OLDER_THAN: Final = 30 * 60.0  # seconds, as in nats.go
REQUESTS_AT_ONCE: Final = 50


async def purge_deletes(
    backend: Backend, older_than: float | timedelta, timeout: Timeout | None
) -> int:
    """Remove markers and return how many; a young one stays, but earlier entries are removed.

    Only up to the marker: a value written meanwhile stays in any case.
    """
    age = call_seconds(older_than, OLDER_THAN, "older_than")
    if not 0 <= age < math.inf:
        raise ValueError(f"older_than={older_than}: expected seconds, 0 or more")
    limit = SystemClock().now_ns() - round(age * 1e9)
    found: dict[str, Stored] = {}
    async for page in initial_pages(backend, WatchPlan(meta_only=True), timeout):
        for stored in page:
            if stored.operation is Operation.PUT:
                found.pop(stored.key, None)
            else:
                found[stored.key] = stored
    waiting = iter(found.values())
    removed = 0

    async def work() -> None:
        nonlocal removed
        for marker in waiting:
            # With older_than 0 all are removed, regardless of clock differences.
            young = bool(age) and marker.time_ns > limit
            below = marker.revision if young else marker.revision + 1
            if below > 1:
                await backend.erase(marker.key, below=below, timeout=timeout)
            removed += not young

    workers = [asyncio.ensure_future(work()) for _ in range(min(REQUESTS_AT_ONCE, len(found)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()  # the others, if one failed
    return removed
