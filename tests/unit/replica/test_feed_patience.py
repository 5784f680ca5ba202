"""How often a remote that does not answer is asked again: after 2 s, up to 2 min."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from jetspark.clock import SystemClock
from jetspark.errors import ConnectFailed
from jetspark.replica import feed as module
from jetspark.replica.feed import RemoteFeed
from jetspark.replica.times import LinkTimes
from jetspark.replica.upstream import RemoteUpstream


class Unreachable:
    """An upstream without a connection."""

    def __init__(self, tries: int) -> None:
        self.left = tries
        self.done = asyncio.Event()

    async def api(self) -> Any:
        """Say why there is none."""
        self.left -= 1
        if self.left == 0:
            self.done.set()
            await asyncio.Event().wait()
        raise ConnectFailed("connection refused")

    def explain(self, error: Exception) -> str:
        """What is wrong, in words."""
        return f"remote hub: {error}"

    def forget(self, _feed: RemoteFeed) -> None:
        """It is closed."""


async def opened(upstream: Unreachable, woken: list[None]) -> RemoteFeed:
    return RemoteFeed(
        cast("RemoteUpstream", upstream), "A", [], lambda: woken.append(None),
        reader="r", takes=False, clock=SystemClock(), times=LinkTimes(),
    )  # fmt: skip


async def test_a_remote_that_does_not_answer_is_asked_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    real = asyncio.timeout

    class Impatient:
        """asyncio, whose timeouts are over at once."""

        def timeout(self, seconds: float) -> asyncio.Timeout:
            waits.append(seconds)
            return real(0)

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

    monkeypatch.setattr(module, "asyncio", Impatient())
    upstream = Unreachable(9)
    woken: list[None] = []
    feed = await opened(upstream, woken)

    await upstream.done.wait()
    feed.close(for_good=True)

    assert waits == [2, 4, 8, 16, 32, 64, 120, 120]
    assert b"remote hub: connection refused" in feed.error
    assert (feed.origin, feed.contact_ns, feed.lag) == (None, 0, 0)
    assert len(woken) == 8


async def test_a_connection_that_is_back_is_used_at_once() -> None:
    upstream = Unreachable(2)
    feed = await opened(upstream, [])
    await asyncio.sleep(0)

    feed.renew()

    async with asyncio.timeout(1):  # and not after two seconds
        await upstream.done.wait()
    feed.close(for_good=True)
