"""The latest entries of many keys, at the current point in time.

One answer of the server is a consistent snapshot. A larger result cannot be read page by page: a
key written meanwhile would be missing from all pages, because a bucket without history no longer
has its old value. So the bucket is watched until nothing is pending: that is a consistent snapshot
too, with every key.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from jetspark.client.jetstream.kv.backend import Stored, WatchPlan
from jetspark.client.jetstream.kv.config import is_pattern
from jetspark.client.jetstream.kv.follow import QUIET_SECONDS, BucketFollow
from jetspark.errors import RequestTimeout
from jetspark.subjects.match import matches

CHUNK: Final = 256
FILTERS_MAX: Final = 100  # of a consumer; servers compare all pairs

Watch = Callable[[WatchPlan], BucketFollow]


async def collect_newest(
    bucket: str, watch: Watch, filters: Sequence[str], min_last_revision: int, seconds: float
) -> list[Stored]:
    """The last entry of each matching key, once a watch of last values is up to date."""
    if len(filters) <= FILTERS_MAX:
        plan = WatchPlan(filters=tuple(filters), min_last_revision=min_last_revision)
        return await _collect(bucket, watch(plan), seconds)
    plan = WatchPlan(filters=(covering(filters),), min_last_revision=min_last_revision)
    found = await _collect(bucket, watch(plan), seconds)
    literal = {each for each in filters if not is_pattern(each)}
    patterns = [each.encode() for each in filters if is_pattern(each)]
    return [
        stored
        for stored in found
        if stored.key in literal
        or any(matches(stored.key.encode(), pattern) for pattern in patterns)
    ]


def covering(filters: Sequence[str]) -> str:
    """One filter for all keys that the filters match: their common leading tokens, and ``>``."""
    split = [each.split(".") for each in filters]
    shared: list[str] = []
    # One token is left for the wildcard.
    for tokens in zip(*(each[:-1] for each in split), strict=False):
        if len(set(tokens)) > 1 or is_pattern(tokens[0]):
            break
        shared.append(tokens[0])
    return ".".join([*shared, ">"])


async def _collect(bucket: str, source: BucketFollow, seconds: float) -> list[Stored]:
    await source.start(timeout=seconds)
    found: dict[str, Stored] = {}
    loop = asyncio.get_running_loop()
    pending = 0 if source.initial_done else 1
    deadline = loop.time() + seconds
    try:
        # nats-server reports zero pending too early if values are overwritten while they are read,
        # so every key must have been received as well.
        while pending or not source.initial_done or len(found) < source.due:
            if not source.initial_done:
                deadline = loop.time() + seconds
            chunk = await _next(source, bucket, deadline)
            if not chunk:
                break
            for stored in chunk:
                found[stored.key] = stored
            pending = chunk[-1].delta
    finally:
        await source.stop()
    return sorted(found.values(), key=lambda stored: stored.revision)


async def _next(source: BucketFollow, bucket: str, deadline: float) -> list[Stored]:
    """The next entries; empty if everything pending has arrived or was deleted."""
    loop = asyncio.get_running_loop()
    if loop.time() < deadline:
        quiet = loop.time() + QUIET_SECONDS if source.initial_done else deadline
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(quiet, deadline)):
                return await source.next_chunk(CHUNK)
        if source.initial_done:
            return []
    raise RequestTimeout(
        f"bucket {bucket!r}: the end was not reached in time; it may change faster than it is read"
    )
