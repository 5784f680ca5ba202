"""Waiting for what must come, for as long as a busy machine may need."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

# No one waits so long unless something is wrong.
PATIENCE_S = 60.0


async def until(
    condition: Callable[[], bool | Awaitable[bool]],
    what: str = "it did not come",
    *,
    every: float = 0.005,
) -> None:
    """Wait until a condition holds; ``what`` is said when it never does. It may be a coroutine."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < deadline, f"{what} ({PATIENCE_S:.0f} s)"
        await asyncio.sleep(every)


def wait_until(
    condition: Callable[[], bool], what: str = "it did not come", *, every: float = 0.02
) -> None:
    """Wait until a condition holds, without a loop."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} ({PATIENCE_S:.0f} s)"
        time.sleep(every)
