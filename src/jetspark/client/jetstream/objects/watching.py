"""Watching and listing the objects of a store."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from types import TracebackType
from typing import Self

from jetspark.client.chunk_callback import ItemCallback
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.follow import BucketFollow
from jetspark.client.jetstream.kv.watch import WatchFeed
from jetspark.client.jetstream.objects.info import ObjectInfo, decode_info
from jetspark.client.pager import Pager
from jetspark.client.reprs import closed_mark
from jetspark.client.thread_callback import Report
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import ConnectionClosed, ProtocolViolation, RequestTimeout

ObjectCallback = ItemCallback[ObjectInfo]


class ObjectWatcher:
    """Objects as they change: ``async for`` yields an ObjectInfo each, without end.

    ``initial`` iterates over the existing objects, and ends; ``ready`` waits until all of them
    have arrived. Created by ``ObjectStore.watch``; end it with ``close`` or ``async with``.
    """

    def __init__(
        self, feed: WatchFeed[ObjectInfo, ObjectInfo], bucket: str, timeout: float
    ) -> None:
        self._feed = feed
        self._bucket = bucket
        self._timeout = timeout

    @property
    def initial_done(self) -> bool:
        """Whether all initial data has been read."""
        return not self._feed.initial_left

    @property
    def is_closed(self) -> bool:
        """Whether the watch was closed."""
        return self._feed.is_stopped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ObjectInfo:
        info = await self._feed.next()
        if info is None:
            raise StopAsyncIteration
        return info

    async def next(self, *, timeout: Timeout | None = None) -> ObjectInfo:
        """Wait for the next change; RequestTimeout if none arrives within ``timeout`` seconds."""
        seconds = call_seconds(timeout, self._timeout)
        try:
            async with asyncio.timeout(seconds):
                info = await self._feed.next()
        except TimeoutError:
            raise RequestTimeout(
                f"watch of store {self._bucket!r}: no change within {seconds} s"
            ) from None
        if info is None:
            raise self._feed.ended_error(f"the watch of store {self._bucket!r} has ended")
        return info

    def initial(self) -> Pager[ObjectInfo]:
        """Iterate over the initial data; ends after it, at once if it is empty.

        The watch continues with the changes since.
        """
        return Pager(self._feed.initial())

    def marked(self) -> Pager[ObjectInfo | None]:
        """Iterate over everything, with one None where the initial data ends."""
        return Pager(self._feed.marked())

    async def ready(self, *, timeout: Timeout | None = None) -> None:
        """Wait until all initial data has arrived."""
        await self._feed.wait_initial(call_seconds(timeout, self._timeout))

    async def close(self) -> None:
        """End the watch."""
        await self._feed.stop()

    def __repr__(self) -> str:
        return f"ObjectWatcher(bucket={self._bucket!r}{closed_mark(self.is_closed)})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _next_chunk(self, count: int) -> list[ObjectInfo]:
        """Wait for a change and return all available ones; the blocking twin iterates with it."""
        return await self._feed.next_ahead(count)

    def _put_back(self, objects: list[ObjectInfo]) -> None:
        """Take back objects that the blocking twin has read ahead."""
        self._feed.put_back(objects)


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
    """The existing objects, without deleted ones; ``timeout`` limits the wait for each part."""
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
            found = [info for info in readable(stored, report) if not info.deleted]
            if found:
                yield found
    finally:
        await follow.stop()
