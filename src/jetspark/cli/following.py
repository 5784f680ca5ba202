"""Following a bucket or a store until enough was seen."""

from collections.abc import Callable
from typing import TypeVar

from jetspark.client.jetstream.kv.watch import Watcher

_T = TypeVar("_T")


async def follow(watcher: Watcher[_T], count: int, show: Callable[[_T], None]) -> None:
    """Show what a watcher sees: ``count`` items, or with 0 all that come."""
    seen = 0
    async for item in watcher:
        show(item)
        seen += 1
        if seen == count:
            return
