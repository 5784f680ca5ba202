"""Watching keys: entries as they change, and the end of the initial data (ADR-8, watchers)."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from jetspark.client.arguments import whole
from jetspark.client.callbacks.chunk import ChunkCallback, ItemCallback
from jetspark.client.callbacks.thread import Report
from jetspark.client.jetstream.kv.backend import Backend, Stored, WatchPlan, WatchSource
from jetspark.client.jetstream.kv.coding import Coding
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.client.pager import Pager
from jetspark.client.reprs import closed_mark
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    AlreadyClaimed,
    AlreadyEnded,
    CodecFailed,
    ConnectionClosed,
    Error,
    RequestTimeout,
)

CHUNK_MAX: Final = 256
_CUT_OFF: Final = "the watch ended before its initial data had arrived"

EntryCallback = ItemCallback[Entry]

S = TypeVar("S")
E = TypeVar("E")


class WatchFeed(Generic[S, E]):
    """Items of a watch in order, and None where the initial data ends.

    ``select`` filters the source's entries, ``convert`` creates an item when it is read. An item
    that cannot be decoded raises CodecFailed when it is reached; later ones follow.
    """

    def __init__(
        self,
        source: WatchSource,
        select: Callable[[list[Stored]], Sequence[S]],
        convert: Callable[[S], E],
    ) -> None:
        self._source = source
        self._select = select
        self._convert = convert
        self._ended_initial = False
        self._stopped = False
        self._callback: ChunkCallback[E] | None = None
        # Set when the end of the initial data is handed out.
        self._initial_over = asyncio.Event()
        self.items: Final[deque[S | None]] = deque()

    @property
    def initial_left(self) -> bool:
        """Whether the end of the initial data was not handed out yet."""
        return not self._ended_initial or None in self.items

    @property
    def is_stopped(self) -> bool:
        """Whether the watch was ended."""
        return self._stopped

    def check_unclaimed(self) -> None:
        """Refuse a reader if a callback takes the items."""
        if self._callback is not None:
            raise AlreadyClaimed("the callback of this watch gets its entries: watch without one")

    def ended_error(self, text: str) -> Error:
        """Why there is no next item: the watch was closed, or the client was drained."""
        return AlreadyEnded(text) if self._stopped else ConnectionClosed(f"{text}: client drained")

    def call(self, callback: ItemCallback[E], report: Report) -> None:
        """Pass all items to a callback from now on."""

        async def next_decodable(count: int) -> list[E]:
            while True:
                try:
                    return await self.next_items(count)
                except CodecFailed as error:
                    report(error)

        self._callback = ChunkCallback(next_decodable, callback, report)

    def take(self) -> E | None:
        """Remove and return the next item; there must be one."""
        stored = self.items.popleft()
        if stored is None:
            self._initial_over.set()
            return None
        return self._convert(stored)

    async def next(self) -> E | None:
        """Wait for the next item; None at the end."""
        self.check_unclaimed()
        while self.items or await self.fill(CHUNK_MAX):
            item = self.take()
            if item is not None:
                return item
        return None

    async def next_ahead(self, count: int) -> list[E]:
        """Like ``next_items``, for a reader that may put some back.

        Nothing after the end of the initial data, which would be passed unnoticed.
        """
        self.check_unclaimed()
        items = self.items
        while items or await self.fill(count):
            if items[0] is None:
                self.take()
                continue
            behind = next((n for n, item in enumerate(items) if item is None), len(items))
            return [item for item in await self.next_chunk(min(count, behind)) if item is not None]
        return []

    def put_back(self, taken: list[E]) -> None:
        """Hand these out again, before everything else."""
        if not isinstance(self._convert, _AfterPutBack):
            self._convert = _AfterPutBack(self._convert)
        returned: list[Any] = [_Converted(item) for item in reversed(taken)]
        self.items.extendleft(returned)

    async def next_items(self, count: int) -> list[E]:
        """Wait for an item, then return all available ones without the end of the initial data."""
        while chunk := await self.next_chunk(count):
            found = [item for item in chunk if item is not None]
            if found:
                return found
        return []

    async def initial(self) -> AsyncGenerator[list[E], None]:
        """Items up to the end of the initial data, one by one: an early break loses none."""
        self.check_unclaimed()
        while self.initial_left:
            if not self.items and not await self.fill(CHUNK_MAX):
                raise self.ended_error(_CUT_OFF)
            item = self.take()
            if item is None:
                return
            yield [item]

    async def marked(self) -> AsyncGenerator[list[E | None], None]:
        """All items, one by one, and None where the initial data ends."""
        self.check_unclaimed()
        while self.items or await self.fill(CHUNK_MAX):
            yield [self.take()]

    async def wait_initial(self, seconds: float) -> None:
        """Wait until all initial data has arrived, and a callback was called with it."""
        try:
            async with asyncio.timeout(seconds):
                if self._callback is not None:
                    await self._callback.wait_for(self._initial_over)
                    if not self._initial_over.is_set():
                        raise self.ended_error(_CUT_OFF)
                while not self._ended_initial:
                    if self._stopped or not await self._receive(CHUNK_MAX):
                        raise self.ended_error(_CUT_OFF)
        except TimeoutError:
            raise RequestTimeout(
                f"the initial data of the watch was not complete within {seconds} s"
            ) from None

    async def next_chunk(self, count: int) -> list[E | None]:
        """Wait for an item, then return the available ones, up to ``count``; empty at the end."""
        if not self.items:
            await self.fill(count)
        convert, items = self._convert, self.items
        taken: list[E | None] = []
        while items and len(taken) < count:
            stored = items[0]
            try:
                taken.append(None if stored is None else convert(stored))
            except CodecFailed:
                if taken:
                    break  # earlier items are handed out first
                items.popleft()
                raise
            items.popleft()
            if stored is None:
                self._initial_over.set()
        return taken

    async def next_within(self, seconds: float | None) -> list[E | None] | None:
        """The next items, none at the end; None if nothing arrived within ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self.next_chunk(CHUNK_MAX)
        return None

    async def fill(self, count: int) -> bool:
        """Wait for items; False at the end."""
        while not self.items:
            if self._stopped or not await self._receive(count):
                return False
        return True

    async def _receive(self, count: int) -> bool:
        """Wait for the source, or for the end of the initial data; False at the end."""
        if not self._ended_initial and self._source.initial_done:
            self._end_initial()
            return True
        stored = await self._source.next_chunk(count)
        if not stored and (self._ended_initial or not self._source.initial_done):
            return False
        self.items.extend(self._select(stored))
        if not self._ended_initial and self._source.initial_done:
            self._end_initial()
        return True

    async def stop(self) -> None:
        """End the watch; unread items are discarded."""
        self._stopped = True
        self.items.clear()
        await self._source.stop()
        if self._callback is not None:
            await self._callback.wait()

    def _end_initial(self) -> None:
        self._ended_initial = True
        self.items.append(None)


class _Converted:
    """An item that was already converted, and put back."""

    __slots__ = ("item",)

    def __init__(self, item: Any) -> None:
        self.item: Any = item


class _AfterPutBack(Generic[S, E]):
    """Converts items, some of which were put back."""

    def __init__(self, convert: Callable[[S], E]) -> None:
        self._convert = convert

    def __call__(self, stored: S) -> E:
        if isinstance(stored, _Converted):
            item: E = stored.item
            return item
        return self._convert(stored)


class Watches:
    """The watches of one handle to a bucket."""

    def __init__(self, backend: Backend, coding: Coding) -> None:
        self._backend = backend
        self._coding = coding
        self._running: set[WatchFeed[Any, Any]] = set()

    async def start(
        self,
        filters: Sequence[str],
        convert: Callable[[Stored], E],
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        resume_from: int = 0,
        min_last_revision: int = 0,
        timeout: Timeout | None = None,
    ) -> WatchFeed[Stored, E]:
        """Follow keys; arguments as in ``KeyValue.watch``."""
        if updates_only and (include_history or resume_from):
            raise ValueError("updates_only excludes include_history and resume_from")
        whole(resume_from, "resume_from")
        whole(min_last_revision, "min_last_revision")
        plan = WatchPlan(
            filters=self._coding.filters(filters),
            start="new" if updates_only else "all" if include_history else "last",
            resume_from=resume_from,
            meta_only=bool(meta_only),
            min_last_revision=min_last_revision,
        )
        source = self._backend.watch(plan)
        await source.start(timeout=timeout)
        feed = WatchFeed(source, values_only if ignore_deletes else everything, convert)
        self._running.add(feed)
        return feed

    def watcher(self, feed: WatchFeed[Stored, E]) -> "Watcher[E]":
        """The handle of a watch."""
        place = f"bucket {self._backend.bucket!r}"
        return Watcher(feed, place, self._backend.seconds, partial(self.stop, feed))

    async def entries(self, filters: Sequence[str]) -> WatchFeed[Stored, Entry]:
        """Follow the entries of keys: the latest ones first."""
        return await self.start(filters, self._coding.entry)

    async def stop(self, feed: WatchFeed[Any, Any]) -> None:
        """End one watch."""
        self._running.discard(feed)
        await feed.stop()

    async def close(self) -> None:
        """End all watches."""
        for feed in list(self._running):
            await self.stop(feed)


def everything(stored: list[Stored]) -> list[Stored]:
    """Deletions and values."""
    return stored


def values_only(stored: list[Stored]) -> list[Stored]:
    """Without deletions."""
    return [each for each in stored if each.operation is Operation.PUT]


class Watcher(Generic[E]):
    """Items of a watch: ``async for`` yields them in order, without end.

    ``initial`` iterates over the initial data, and ends; ``ready`` waits until all of it has
    arrived. Created by ``KeyValue.watch`` (items are `Entry`), ``TypedKeyValue.watch``
    (`TypedEntry`) and ``ObjectStore.watch`` (`ObjectInfo`); end it with ``close`` or ``async
    with``. A watch with a callback cannot be iterated over.

    A value that the codecs of a key-value handle cannot decode, or that is not of its type, raises
    CodecFailed (with a callback, it is reported to the error callback); the iteration continues
    after it.
    """

    def __init__(
        self,
        feed: WatchFeed[Any, E],
        place: str,
        seconds: Callable[[Timeout | None], float],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._feed = feed
        self._place = place
        self._seconds = seconds
        self._stop = stop

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

    async def __anext__(self) -> E:
        item = await self._feed.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def next(self, *, timeout: Timeout | None = None) -> E:
        """Wait for the next item; RequestTimeout if none arrives within ``timeout`` seconds."""
        seconds = self._seconds(timeout)
        try:
            async with asyncio.timeout(seconds):
                item = await self._feed.next()
        except TimeoutError:
            raise RequestTimeout(
                f"watch of {self._place}: nothing arrived within {seconds} s"
            ) from None
        if item is None:
            raise self._feed.ended_error(f"the watch of {self._place} has ended")
        return item

    def initial(self) -> Pager[E]:
        """Iterate over the initial data; ends after it, at once if it is empty.

        The watch continues with the changes since.
        """
        return Pager(self._feed.initial())

    def marked(self) -> Pager[E | None]:
        """Iterate over everything, with one None where the initial data ends."""
        return Pager(self._feed.marked())

    async def ready(self, *, timeout: Timeout | None = None) -> None:
        """Wait until all initial data has arrived.

        With a callback, until it has been called with all of it. RequestTimeout after ``timeout``
        seconds.
        """
        await self._feed.wait_initial(self._seconds(timeout))

    async def close(self) -> None:
        """End the watch; unread items are discarded."""
        await self._stop()

    def __repr__(self) -> str:
        return f"Watcher({self._place}{closed_mark(self.is_closed)})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _next_chunk(self, count: int) -> list[E]:
        """Wait for an item and return all available ones; the blocking twin iterates with it."""
        return await self._feed.next_ahead(count)

    def _put_back(self, items: list[E]) -> None:
        """Take back items that the blocking twin has read ahead."""
        self._feed.put_back(items)
