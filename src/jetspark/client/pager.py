"""Async iterators over pages, one item or one page at a time."""

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Generic, Self, TypeVar

from jetspark.errors import AlreadyEnded

T = TypeVar("T")


class Pager(Generic[T]):
    """An async iterator over pages.

    ``async for`` yields single items; ``next_chunk`` returns what is available at once, so that
    the blocking client crosses threads once per page.

    After an error or a cancellation the iteration cannot continue: the result would look
    complete.
    """

    def __init__(self, pages: AsyncGenerator[Sequence[T], None]) -> None:
        self._pages = pages
        self._items: deque[T] = deque()
        self._cut_off = ""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._items and not await self._fill():
            raise StopAsyncIteration
        return self._items.popleft()

    async def next_chunk(self, count: int) -> list[T]:
        """Up to ``count`` items, waiting for a page if none are left; empty at the end."""
        if not self._items and not await self._fill():
            return []
        return [self._items.popleft() for _ in range(min(count, len(self._items)))]

    async def aclose(self) -> None:
        """Stop; requests in flight are dropped."""
        self._items.clear()
        await self._pages.aclose()

    def __repr__(self) -> str:
        return f"Pager({'interrupted' if self._cut_off else 'iterate over it'})"

    async def _fill(self) -> bool:
        """Fetch the next page that is not empty; False at the end."""
        if self._cut_off:
            raise AlreadyEnded(
                f"the iteration was interrupted by {self._cut_off}: start a new one"
            )
        try:
            while not self._items:
                self._items.extend(await anext(self._pages))
        except StopAsyncIteration:
            return False
        except BaseException as error:
            self._cut_off = type(error).__name__
            raise
        return True
