"""A fair queue of the requests to the monitoring port."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial

from jetspark.server.monitor.web.request_queue import RequestQueue


async def test_addresses_take_turns_and_urgent_work_of_one_is_first() -> None:
    queue, done = RequestQueue(1), list[str]()
    for number in range(4):
        queue.run("busy", number, partial(done.append, f"busy {number}"))
    queue.run("other", 1, partial(done.append, "other"))
    queue.run("busy", "u", partial(done.append, "urgent"), urgent=True)
    while len(done) < 6:
        await asyncio.sleep(0)

    assert done == ["busy 0", "urgent", "other", "busy 1", "busy 2", "busy 3"]


async def test_a_few_pieces_of_work_are_done_per_turn_of_the_loop() -> None:
    queue, done = RequestQueue(3), list[int]()
    for number in range(10):
        queue.run("a", number, partial(done.append, number))
    counts = [len(done)]
    while len(done) < 10:
        await asyncio.sleep(0)
        counts.append(len(done))

    assert done == list(range(10))
    assert max(after - before for before, after in itertools.pairwise(counts)) <= 3


async def test_who_no_longer_waits_for_a_turn_delays_no_one() -> None:
    queue = RequestQueue(1)
    first = asyncio.create_task(queue.wait("a", 1))
    second = asyncio.create_task(queue.wait("a", 2))
    third = asyncio.create_task(queue.wait("b", 3))
    await asyncio.sleep(0)
    second.cancel()

    await asyncio.wait_for(asyncio.gather(first, third), 5)


async def test_work_that_fails_ends_no_other() -> None:
    queue, done, problems = RequestQueue(1), list[str](), list[object]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: problems.append(context["exception"])
    )

    def fail() -> None:
        raise ValueError

    queue.run("a", 1, partial(done.append, "first"))
    queue.run("a", 2, fail)
    queue.run("a", 3, partial(done.append, "second"))
    while len(done) < 2:
        await asyncio.sleep(0)

    assert done == ["first", "second"]
    assert len(problems) == 1


async def test_nothing_is_kept_for_an_owner_that_left() -> None:
    queue, done = RequestQueue(1), list[int]()
    for number in range(100):
        queue.run("a", number, partial(done.append, number))
    for number in range(1, 100):
        assert queue.drop("a", number) is not None
    queue.run("b", 1, partial(done.append, -1))
    while len(done) < 2:
        await asyncio.sleep(0)

    assert done == [0, -1]
    assert queue.drop("a", 5) is None


async def test_work_that_continues_comes_before_new_work_if_there_is_much_of_it() -> None:
    queue, done = RequestQueue(1), list[str]()
    queue.run("a", 0, partial(done.append, "first"))
    for number in range(5):
        queue.run("a", f"new {number}", partial(done.append, "new"))
        queue.run("a", number, partial(done.append, "continued"), continues=True)
    while len(done) < 11:
        await asyncio.sleep(0)

    assert done == ["first", "continued", "continued", *["new"] * 5, *["continued"] * 3]
