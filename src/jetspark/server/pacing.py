"""Iterates over long lists without blocking the loop (contracts.md, Reads)."""

import asyncio
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

ITEMS_PER_TURN: Final = 256
# A step also ends after this much CPU time: an item may be a client with 10,000 subscriptions.
STEP_NS: Final = 1_000_000

_S = TypeVar("_S")
_T = TypeVar("_T")


class Views(Collection[_T], Generic[_S, _T]):
    """Views of items that were copied, each made when it is reached: a list may be long."""

    def __init__(self, items: Sequence[_S], make: Callable[[_S], _T]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[_T]:
        return map(self._make, self._items)

    def __contains__(self, item: object) -> bool:
        return any(each == item for each in self)


class Pacing:
    """The steps of one piece of work; ``wait`` returns when it is its turn again."""

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._wait = wait
        self._until_ns = time.thread_time_ns() + STEP_NS

    def is_over(self) -> bool:
        """Return whether a step has taken its time."""
        return time.thread_time_ns() >= self._until_ns

    async def rest(self) -> None:
        """End a step, and begin the next one."""
        await self._wait()
        self._until_ns = time.thread_time_ns() + STEP_NS


# That of the request which is being answered: such requests share the turns of the loop.
current_pacing: ContextVar[Pacing | None] = ContextVar("current_pacing", default=None)


async def _next_turn() -> None:
    await asyncio.sleep(0)


async def paced(items: Iterable[_T], per_turn: int = ITEMS_PER_TURN) -> AsyncIterator[_T]:
    """Iterate over a copy of ``items``, and let the loop do other work after every ``per_turn``.

    Earlier if they take long. The items may change meanwhile; a count may be a few turns newer
    than another.
    """
    copied = items if isinstance(items, Views) else list(items)
    pacing = current_pacing.get() or Pacing(_next_turn)
    for number, item in enumerate(copied, start=1):
        yield item
        if number % per_turn == 0 or pacing.is_over():
            await pacing.rest()
