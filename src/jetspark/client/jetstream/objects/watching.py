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
    """Objects as they change: ``async for`` gives an ObjectInfo each, and never ends by itself.

    ``initial`` iterates over what was there when the watch began, and ends; ``ready`` waits until
    all of that is here. Made by ``ObjectStore.watch``; end it with ``close`` or ``async with``.
    """

    def __init__(
        self, feed: WatchFeed[ObjectInfo, ObjectInfo], bucket: str, timeout: float
    ) -> None:
        self._feed = feed
        self._bucket = bucket
        self._timeout = timeout

    @property
    def initial_done(self) -> bool:
        """Whether everything that was there when the watch began has been taken."""
        return not self._feed.initial_left

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._feed.is_stopped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ObjectInfo:
        info = await self._feed.next()
        if info is None:
            raise StopAsyncIteration
        return info

    async def next(self, *, timeout: Timeout | None = None) -> ObjectInfo:
        """The next change; RequestTimeout when none comes within ``timeout`` seconds."""
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
        """Iterate over what was there when the watch began; ends there, at once if there is none.

        The watch goes on with the changes since.
        """
        return Pager(self._feed.initial())

    def marked(self) -> Pager[ObjectInfo | None]:
        """Iterate over everything, with one None where the initial data ends."""
        return Pager(self._feed.marked())

    async def ready(self, *, timeout: Timeout | None = None) -> None:
        """Wait until everything that was there when the watch began is here."""
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
        """What is there after waiting for one; the blocking twin iterates with it."""
        return await self._feed.next_ahead(count)

    def _put_back(self, objects: list[ObjectInfo]) -> None:
        """Take back what the blocking twin has read ahead."""
        self._feed.put_back(objects)


def watch_feed(
    follow: BucketFollow, report: Report, *, ignore_deletes: bool
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
    follow: BucketFollow, report: Report, timeout: float
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
                raise ConnectionClosed("the client was drained before all objects came")
            found = [info for info in readable(stored, report) if not info.deleted]
            if found:
                yield found
    finally:
        await follow.stop()
