"""Async iterators that come in pages, one message at a time or a page at a time."""

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Pager(Generic[T]):
    """An async iterator over pages.

    ``async for`` gives single items; ``next_chunk`` gives what is there at once, which is how
    the blocking client crosses threads once per page.
    """

    def __init__(self, pages: AsyncGenerator[Sequence[T], None]) -> None:
        self._pages = pages
        self._items: deque[T] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            self._items.extend(await anext(self._pages))
        return self._items.popleft()

    async def next_chunk(self, count: int) -> list[T]:
        """Up to ``count`` items, waiting for a page if none are left; empty at the end."""
        while not self._items:
            try:
                self._items.extend(await anext(self._pages))
            except StopAsyncIteration:
                return []
        return [self._items.popleft() for _ in range(min(count, len(self._items)))]

    async def aclose(self) -> None:
        """Give up the rest; requests under way are dropped."""
        self._items.clear()
        await self._pages.aclose()
