"""Iterates over long lists without blocking the loop (contracts.md, Reads)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

ITEMS_PER_TURN: Final = 256

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


async def paced(items: Iterable[_T], per_turn: int = ITEMS_PER_TURN) -> AsyncIterator[_T]:
    """Iterate over a copy of ``items``, and let the loop do other work after every ``per_turn``.

    The items may change meanwhile; a count may be a few turns newer than another.
    """
    copied = items if isinstance(items, Views) else list(items)
    for number, item in enumerate(copied, start=1):
        yield item
        if number % per_turn == 0:
            await asyncio.sleep(0)
