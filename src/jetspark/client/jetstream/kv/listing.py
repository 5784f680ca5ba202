"""The current contents of a bucket: the initial data of a watch, as pages of entries or keys."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from jetspark.client.jetstream.kv.backend import Backend, Stored, WatchPlan
from jetspark.client.jetstream.kv.coding import Coding
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.client.timeouts import Timeout
from jetspark.errors import ConnectionClosed, RequestTimeout

PAGE_SIZE: Final = 1024


async def initial_pages(
    backend: Backend, plan: WatchPlan, timeout: Timeout | None
) -> AsyncGenerator[list[Stored], None]:
    """The initial data of a watch, which is ended afterwards.

    RequestTimeout if nothing arrives for ``timeout`` seconds although more is expected.
    """
    seconds = backend.seconds(timeout)
    source = backend.watch(plan)
    await source.start(timeout=seconds)
    try:
        while not source.initial_done:
            try:
                async with asyncio.timeout(seconds):
                    page = await source.next_chunk(PAGE_SIZE)
            except TimeoutError:
                raise RequestTimeout(
                    f"bucket {backend.bucket!r}: expected more entries, but none arrived within "
                    f"{seconds} s"
                ) from None
            if page:
                yield page
            elif not source.initial_done:
                raise ConnectionClosed(
                    f"bucket {backend.bucket!r}: the client was drained before all entries arrived"
                )
    finally:
        await source.stop()


async def key_pages(
    backend: Backend, coding: Coding, plan: WatchPlan, timeout: Timeout | None
) -> AsyncGenerator[list[str], None]:
    """The keys that have a value, each once."""
    seen: set[str] = set()  # a key that changes during the listing appears twice
    async for page in initial_pages(backend, plan, timeout):
        puts = (stored.key for stored in page if stored.operation is Operation.PUT)
        fresh = [key for key in dict.fromkeys(puts) if key not in seen]
        seen.update(fresh)
        if fresh:
            yield coding.decode_keys(fresh)


async def value_pages(
    coding: Coding, pages: AsyncGenerator[list[Stored], None]
) -> AsyncGenerator[list[Entry], None]:
    """The entries that are values."""
    async for page in pages:
        entries = [coding.entry(each) for each in page if each.operation is Operation.PUT]
        if entries:
            yield entries


async def stored_keys(
    backend: Backend, filters: tuple[str, ...], timeout: Timeout | None
) -> list[str]:
    """The stored keys that match and have a value, sorted."""
    found: set[str] = set()
    plan = WatchPlan(filters=filters, meta_only=True)
    async for page in initial_pages(backend, plan, timeout):
        found.update(each.key for each in page if each.operation is Operation.PUT)
    return sorted(found)
