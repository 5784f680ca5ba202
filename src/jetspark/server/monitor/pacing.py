"""Iterates over long lists without blocking the loop (contracts.md, Reads)."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

ITEMS_PER_TURN: Final = 256

_T = TypeVar("_T")


async def paced(items: Iterable[_T], per_turn: int = ITEMS_PER_TURN) -> AsyncIterator[_T]:
    """Iterate over a copy of ``items``, and let the loop do other work after every ``per_turn``.

    The items may change meanwhile; a count may be a few turns newer than another.
    """
    for number, item in enumerate(list(items), start=1):
        yield item
        if number % per_turn == 0:
            await asyncio.sleep(0)
