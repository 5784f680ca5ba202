"""Watching and listing the objects of a store."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator

from jetspark.client.callbacks.chunk import ItemCallback
from jetspark.client.callbacks.thread import Report
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.follow import BucketFollow
from jetspark.client.jetstream.kv.watch import WatchFeed
from jetspark.client.jetstream.objects.info import ObjectInfo, decode_info
from jetspark.errors import ConnectionClosed, ProtocolViolation, RequestTimeout

ObjectCallback = ItemCallback[ObjectInfo]


def watch_feed(
    follow: BucketFollow, report: Report, *, ignore_deletes: bool
) -> WatchFeed[ObjectInfo, ObjectInfo]:
    """The objects found by ``follow``; undecodable ones are passed to ``report``."""

    def select(stored: list[Stored]) -> list[ObjectInfo]:
        found = readable(stored, report)
        return [info for info in found if not (ignore_deletes and info.deleted)]

    return WatchFeed(follow, select, itself)


def itself(info: ObjectInfo) -> ObjectInfo:
    """Objects are decoded when they are selected."""
    return info


def read_info(stored: Stored) -> ObjectInfo:
    """The object of a meta message."""
    return decode_info(stored.data, stored.revision, stored.time_ns)


def readable(entries: Iterable[Stored], report: Report) -> Iterator[ObjectInfo]:
    """The objects of meta messages; an undecodable one is reported and hides no others."""
    for stored in entries:
        try:
            yield read_info(stored)
        except ProtocolViolation as error:
            report(error)


async def info_pages(
    follow: BucketFollow, report: Report, timeout: float
) -> AsyncGenerator[list[ObjectInfo], None]:
    """The existing objects, each once, without deleted ones.

    ``timeout`` limits the wait for each part.
    """
    seen: set[str] = set()  # an object that is replaced during the listing appears twice
    await follow.start(timeout=timeout)
    try:
        while not follow.initial_done:
            try:
                async with asyncio.timeout(timeout):
                    stored = await follow.next_chunk(256)
            except TimeoutError:
                raise RequestTimeout(
                    f"the list of objects is incomplete: nothing more arrived within {timeout} s"
                ) from None
            if not stored and not follow.initial_done:
                raise ConnectionClosed("the client was drained before all objects arrived")
            newest = {info.name: info for info in readable(stored, report)}
            found = [
                info for info in newest.values() if not info.deleted and info.name not in seen
            ]
            seen.update(info.name for info in found)
            if found:
                yield found
    finally:
        await follow.stop()
