"""Long lists are read in steps."""

from __future__ import annotations

import asyncio
import time

from jetspark.server.pacing import STEP_NS, paced


async def test_a_step_ends_early_if_its_items_take_long() -> None:
    done: list[int] = []
    turns: list[int] = []

    async def read() -> None:
        async for number in paced(range(6)):
            until = time.thread_time_ns() + STEP_NS
            while time.thread_time_ns() < until:
                pass
            done.append(number)

    reading = asyncio.create_task(read())
    while not reading.done():
        await asyncio.sleep(0)
        turns.append(len(done))

    assert turns[:6] == [1, 2, 3, 4, 5, 6]
