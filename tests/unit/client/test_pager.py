import asyncio
from collections.abc import AsyncGenerator

import pytest

from jetspark.client.pager import Pager
from jetspark.errors import AlreadyEnded


async def pages(*contents: list[int]) -> AsyncGenerator[list[int], None]:
    for content in contents:
        yield content


async def test_items_come_one_by_one_across_pages_and_empty_pages() -> None:
    assert [item async for item in Pager(pages([1, 2], [], [3]))] == [1, 2, 3]


async def test_a_chunk_never_spans_two_pages_and_an_empty_one_is_the_end() -> None:
    pager = Pager(pages([1, 2, 3], [], [4]))

    chunks = [await pager.next_chunk(2) for _ in range(5)]

    assert chunks == [[1, 2], [3], [4], [], []]


async def test_closing_stops_the_source() -> None:
    source = pages([1, 2], [3])
    pager = Pager(source)
    await anext(pager)
    await pager.aclose()

    with pytest.raises(StopAsyncIteration):
        await anext(pager)


async def test_an_interrupted_iteration_does_not_look_complete() -> None:
    async def slow() -> AsyncGenerator[list[int], None]:
        yield [1]
        await asyncio.sleep(60)
        yield [2]

    pager = Pager(slow())
    first = await anext(pager)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(pager), 0.01)

    assert first == 1
    with pytest.raises(AlreadyEnded, match="interrupted by CancelledError: start a new one"):
        await anext(pager)
    with pytest.raises(AlreadyEnded, match="interrupted"):
        await pager.next_chunk(5)
