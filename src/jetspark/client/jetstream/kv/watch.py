"""Watching keys: entries as they change, and the end of the initial data (ADR-8, watchers)."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from jetspark.client.chunk_callback import ChunkCallback, ItemCallback
from jetspark.client.jetstream.kv.backend import Stored, WatchSource
from jetspark.client.jetstream.kv.entry import Entry, Operation
from jetspark.client.thread_callback import Report
from jetspark.errors import CodecFailed

CHUNK_MAX: Final = 256

EntryCallback = ItemCallback[Entry | None]


class KeyWatcher:
    """Entries of a watch: ``async for`` gives an Entry each, and None once.

    None says that everything that was there when the watch began has been seen; it always comes,
    at once when there is nothing. Made by ``KeyValue.watch``; end it with ``stop`` or
    ``async with``. A watch with a callback is not iterated over.

    What the codecs of the handle cannot decode raises CodecFailed (with a callback, the error
    callback is told); the iteration goes on behind it.
    """

    def __init__(
        self,
        source: WatchSource,
        convert: Callable[[Stored], Entry],
        on_stop: Callable[["KeyWatcher"], None],
        *,
        ignore_deletes: bool,
    ) -> None:
        self._source = source
        self._convert = convert
        self._on_stop = on_stop
        self._ignore_deletes = ignore_deletes
        self._items: deque[Stored | None] = deque()
        self._told = False
        self._stopped = False
        self._calling: ChunkCallback[Entry | None] | None = None

    @property
    def initial_done(self) -> bool:
        """Whether the end of the initial data was handed out."""
        return self._told and None not in self._items

    def call(self, callback: EntryCallback, report: Report) -> None:
        """Hand everything to a callback; for ``KeyValue.watch``."""

        async def next_decodable(count: int) -> list[Entry | None]:
            while True:
                try:
                    return await self._next_chunk(count)
                except CodecFailed as error:
                    report(error)

        self._calling = ChunkCallback(next_decodable, callback, report)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry | None:
        self._check_mine()
        if not self._items and not await self._fill(CHUNK_MAX):
            raise StopAsyncIteration
        stored = self._items.popleft()
        return None if stored is None else self._convert(stored)

    async def next_chunk(self, count: int) -> list[Entry | None]:
        """Wait for an entry, then return what is there, up to ``count``; empty at the end."""
        self._check_mine()
        return await self._next_chunk(count)

    async def _next_chunk(self, count: int) -> list[Entry | None]:
        if not self._items:
            await self._fill(count)
        convert, items = self._convert, self._items
        taken: list[Entry | None] = []
        while items and len(taken) < count:
            stored = items[0]
            try:
                taken.append(None if stored is None else convert(stored))
            except CodecFailed:
                if taken:
                    break  # those before it are handed out first
                items.popleft()
                raise
            items.popleft()
        return taken

    async def initial(self) -> list[Entry]:
        """Everything up to the end of the initial data; the watch goes on behind it."""
        entries: list[Entry] = []
        while not self._told or self._items:
            entry = await anext(self, None)
            if entry is None:
                break
            entries.append(entry)
        return entries

    async def stop(self) -> None:
        """End the watch; entries that were not taken are given up."""
        self._stopped = True
        self._items.clear()
        self._on_stop(self)
        await self._source.stop()
        if self._calling is not None:
            await self._calling.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _check_mine(self) -> None:
        if self._calling is not None:
            raise ValueError("the callback of this watch takes its entries: watch without one")

    async def _fill(self, count: int) -> bool:
        """Get entries; False at the end."""
        while not self._items:
            if self._stopped:
                return False
            if not self._told and self._source.initial_done:
                self._tell()
                return True
            stored = await self._source.next_chunk(count)
            if not stored and (self._told or not self._source.initial_done):
                return False
            if self._ignore_deletes:
                stored = [each for each in stored if each.operation is Operation.PUT]
            self._items.extend(stored)
            if not self._told and self._source.initial_done:
                self._tell()
        return True

    def _tell(self) -> None:
        self._told = True
        self._items.append(None)


async def next_within(watcher: KeyWatcher, seconds: float | None) -> list[Entry | None] | None:
    """The next entries, none at the end; None when nothing came within ``seconds``."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await watcher.next_chunk(CHUNK_MAX)
    return None
