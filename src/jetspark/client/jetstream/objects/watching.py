"""Watching and listing the objects of a store."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from types import TracebackType
from typing import Self

from jetspark.client.chunk_callback import ChunkCallback, ItemCallback
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.objects.info import ObjectInfo, decode_info
from jetspark.client.thread_callback import Report
from jetspark.errors import ProtocolViolation, RequestTimeout

ObjectCallback = ItemCallback[ObjectInfo | None]


class ObjectWatcher:
    """Objects as they change: ``async for`` gives an ObjectInfo each, and None once.

    None says that everything that was there when the watch began has been seen. Made by
    ``ObjectStore.watch``; end it with ``stop`` or ``async with``.
    """

    def __init__(self, follow: Follow, report: Report, *, ignore_deletes: bool) -> None:
        self._follow = follow
        self._report = report
        self._ignore_deletes = ignore_deletes
        self._items: deque[ObjectInfo | None] = deque()
        self._told = False
        self._stopped = False
        self._calling: ChunkCallback[ObjectInfo | None] | None = None

    def call(self, callback: ObjectCallback, report: Report) -> None:
        """Hand everything to a callback; for ``ObjectStore.watch``."""
        self._calling = ChunkCallback(self._next_chunk, callback, report)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ObjectInfo | None:
        self._check_mine()
        if not self._items and not await self._fill():
            raise StopAsyncIteration
        return self._items.popleft()

    async def next_chunk(self, count: int) -> list[ObjectInfo | None]:
        """Wait for a change, then return what is there, up to ``count``; empty at the end."""
        self._check_mine()
        return await self._next_chunk(count)

    async def _next_chunk(self, count: int) -> list[ObjectInfo | None]:
        if not self._items and not await self._fill():
            return []
        return [self._items.popleft() for _ in range(min(count, len(self._items)))]

    async def stop(self) -> None:
        """End the watch."""
        self._stopped = True
        self._items.clear()
        await self._follow.stop()
        if self._calling is not None:
            await self._calling.wait()

    def _check_mine(self) -> None:
        if self._calling is not None:
            raise ValueError("the callback of this watch takes the changes: watch without one")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _fill(self) -> bool:
        while not self._items:
            if self._stopped:
                return False
            if not self._told and self._follow.initial_done:
                self._told = True
                self._items.append(None)
                return True
            stored = await self._follow.next_chunk(256)
            if not stored and (self._told or not self._follow.initial_done):
                return False
            self._items.extend(
                info
                for info in readable(stored, self._report)
                if not (self._ignore_deletes and info.deleted)
            )
        return True


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
