"""A watch that ends before its initial data is here says so: it is not taken for all there is."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from jetspark import Timeout
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.watch import WatchFeed, everything
from jetspark.client.pager import Pager
from jetspark.errors import AlreadyEnded, ConnectionClosed, Error

Feed = WatchFeed[Stored, Stored]
ENTRY = Stored("key", b"value", 1, 0)


class Source:
    """One entry, and then what the test decides."""

    initial_done = False

    def __init__(self) -> None:
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._given = False

    async def start(self, *, timeout: Timeout | None = None) -> None:
        """Nothing to do."""

    async def next_chunk(self, count: int) -> list[Stored]:  # noqa: ARG002
        if not self._given:
            self._given = True
            return [ENTRY]
        await asyncio.shield(self._end)
        return []

    async def stop(self) -> None:
        self.end(None)

    def end(self, error: Error | None) -> None:
        """With an error as a closed client does, without one as a drained client does."""
        if self._end.done():
            return
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)


async def ready(feed: Feed) -> None:
    await feed.wait_initial(60)


async def ready_with_callback(feed: Feed) -> None:
    feed.call(lambda _entry: None, lambda _error: None)
    await feed.wait_initial(60)


async def initial(feed: Feed) -> None:
    async for _ in Pager(feed.initial()):
        pass


def closed(source: Source, _feed: Feed) -> None:
    source.end(ConnectionClosed("the client was closed"))


def drained(source: Source, _feed: Feed) -> None:
    source.end(None)


WAITS = [ready, ready_with_callback, initial]


async def ended_by(
    wait: Callable[[Feed], Awaitable[None]], end: Callable[[Source, Feed], object]
) -> None:
    source = Source()
    feed = WatchFeed(source, everything, lambda stored: stored)
    task = asyncio.ensure_future(wait(feed))
    await asyncio.wait([task], timeout=0.02)
    ending = end(source, feed)
    if asyncio.iscoroutine(ending):
        await ending
    await task


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("end", [closed, drained])
async def test_a_client_that_ends_cuts_the_initial_data_off(
    wait: Callable[[Feed], Awaitable[None]], end: Callable[[Source, Feed], None]
) -> None:
    with pytest.raises(ConnectionClosed):
        await ended_by(wait, end)


@pytest.mark.parametrize("wait", WAITS)
async def test_a_watch_that_is_closed_cuts_the_initial_data_off(
    wait: Callable[[Feed], Awaitable[None]],
) -> None:
    with pytest.raises(AlreadyEnded, match="before its initial data had arrived"):
        await ended_by(wait, lambda _source, feed: feed.stop())
