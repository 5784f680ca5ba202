"""Watching and listing the objects of a store."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from types import TracebackType
from typing import Self

from jetspark.client.chunk_callback import ItemCallback
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.kv.watch import CHUNK_MAX, WatchFeed
from jetspark.client.jetstream.objects.info import ObjectInfo, decode_info
from jetspark.client.thread_callback import Report
from jetspark.errors import ProtocolViolation, RequestTimeout

ObjectCallback = ItemCallback[ObjectInfo | None]


class ObjectWatcher:
    """Objects as they change: ``async for`` gives an ObjectInfo each, and None once.

    None says that everything that was there when the watch began has been seen. Made by
    ``ObjectStore.watch``; end it with ``stop`` or ``async with``.
    """

    def __init__(self, feed: WatchFeed[ObjectInfo, ObjectInfo]) -> None:
        self._feed = feed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ObjectInfo | None:
        feed = self._feed
        feed.check_unclaimed()
        if not feed.items and not await feed.fill(CHUNK_MAX):
            raise StopAsyncIteration
        return feed.take()

    async def stop(self) -> None:
        """End the watch."""
        await self._feed.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _next_chunk(self, count: int) -> list[ObjectInfo | None]:
        """What is there after waiting for one; the blocking twin iterates with it."""
        self._feed.check_unclaimed()
        return await self._feed.next_chunk(count)


def watch_feed(
    follow: Follow, report: Report, *, ignore_deletes: bool
) -> WatchFeed[ObjectInfo, ObjectInfo]:
    """The objects that ``follow`` finds; what cannot be read goes to ``report``."""

    def select(stored: list[Stored]) -> list[ObjectInfo]:
        found = readable(stored, report)
        return [info for info in found if not (ignore_deletes and info.deleted)]

    return WatchFeed(follow, select, itself)


def itself(info: ObjectInfo) -> ObjectInfo:
    """Objects are read when they are selected."""
    return info


def read_info(stored: Stored) -> ObjectInfo:
    """The object that a meta message is about."""
    return decode_info(stored.data, stored.revision, stored.time_ns)


def readable(entries: Iterable[Stored], report: Report) -> Iterator[ObjectInfo]:
    """The objects of meta messages; one that cannot be read is told of, and hides no others."""
    for stored in entries:
        try:
            yield read_info(stored)
        except ProtocolViolation as error:
            report(error)


async def info_pages(
    follow: Follow, report: Report, timeout: float
) -> AsyncGenerator[list[ObjectInfo], None]:
    """What is there now, without deleted objects; ``timeout`` bounds the wait for each part."""
    await follow.start(timeout=timeout)
    try:
        while not follow.initial_done:
            try:
                async with asyncio.timeout(timeout):
                    stored = await follow.next_chunk(256)
            except TimeoutError:
                raise RequestTimeout(
                    f"more objects are due and none came within {timeout} s"
                ) from None
            if not stored and not follow.initial_done:
                return
            found = [info for info in readable(stored, report) if not info.deleted]
            if found:
                yield found
    finally:
        await follow.stop()
