"""Bulk reading and read-after-write over real servers."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jetspark import Client, JetStream, MessageColumns, Stream, StreamConfig, StreamSource
from jetspark.api.base import Timestamp
from jetspark.errors import ApiError, MinLastSequence, StreamNotFound

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def filled(js: JetStream, name: str, count: int, **changes: Any) -> Stream:
    """A stream with ``count`` messages on ten subjects; every fifth has a header."""
    given: dict[str, Any] = {"subjects": (f"{name}.>",), "allow_direct": True}
    stream = await js.create_stream(StreamConfig(name=name, **(given | changes)))
    for n in range(1, count + 1):
        headers = {"n": str(n)} if n % 5 == 0 else None
        await js.publish_async(f"{name}.{n % 10}", b"%d" % n, headers=headers)
    await js.publish_async_complete()
    return stream


async def rows(stream: Stream, *arguments: Any, **options: Any) -> list[int]:
    """The sequences that a scan yields."""
    return [seq async for chunk in stream.scan(*arguments, **options) for seq in chunk.sequences]


@pytest.mark.parametrize("batch", [1, 7, 250, 5000])
async def test_a_scan_reads_everything_whatever_the_page(
    client: Connect, name: str, batch: int
) -> None:
    count = 250 if batch > 1 else 30
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, count)
        chunks = [chunk async for chunk in stream.scan(batch=batch)]

    assert [seq for chunk in chunks for seq in chunk.sequences] == list(range(1, count + 1))
    assert [p for chunk in chunks for p in chunk.data] == [b"%d" % n for n in range(1, count + 1)]
    assert chunks[-1].subjects[-1] == f"{name}.0"
    assert chunks[-1].headers[-1] == b"NATS/1.0\r\nn: %d\r\n\r\n" % count
    assert max(len(chunk) for chunk in chunks) <= batch
    times = [t for chunk in chunks for t in chunk.times]
    assert times == sorted(times)


async def test_times_and_headers_are_those_of_single_gets(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 10)
        chunk = await anext(aiter(stream.scan()))
        single = [await stream.get_msg(seq=n) for n in range(1, 11)]

    assert chunk.times == [message.time_ns for message in single]
    assert chunk.headers == [message.header_block for message in single]
    assert chunk.subjects == [message.subject for message in single]


async def test_a_range_has_both_ends(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 100)

        assert await rows(stream, 20, 30) == list(range(20, 31))
        assert await rows(stream, 20, 30, batch=4) == list(range(20, 31))
        assert await rows(stream, 95) == list(range(95, 101))
        assert await rows(stream, 101) == []
        assert await rows(stream, 50, 49) == []
        with pytest.raises(ValueError, match="first=0: expected at least 1"):
            await rows(stream, 0)


async def test_deleted_messages_are_stepped_over(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 60)
        for seq in (1, 20, 21, 22, 30, 60):
            await stream.delete_msg(seq)

        assert await rows(stream, 1, 10, batch=3) == list(range(2, 11))
        assert await rows(stream, 18, 30, batch=3) == [18, 19, *range(23, 30)]
        assert await rows(stream, 20, 22) == []
        assert await rows(stream, 55, 60) == [55, 56, 57, 58, 59]


async def test_an_empty_or_purged_stream_has_no_rows(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 0)
        assert await rows(stream) == []

        await nc.jetstream().publish(f"{name}.a")
        await stream.purge()
        assert await rows(stream) == []
        assert await rows(stream, 1, 1) == []


async def test_filters_are_read_one_after_the_other(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 40)

        assert await rows(stream, filters=[f"{name}.3"]) == [3, 13, 23, 33]
        assert await rows(stream, filters=[f"{name}.7", f"{name}.3"], batch=2) == [
            7, 17, 27, 37, 3, 13, 23, 33,
        ]  # fmt: skip
        assert await rows(stream, filters=[f"{name}.*"]) == list(range(1, 41))
        assert await rows(stream, filters=["nothing.>"]) == []


async def test_only_the_columns_asked_for_are_filled(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 5)
        chunk = await anext(aiter(stream.scan(columns=["data"])))

    assert isinstance(chunk, MessageColumns)
    assert (len(chunk), len(chunk.data)) == (5, 5)
    assert (chunk.times, chunk.subjects, chunk.headers) == ([], [], [])


async def test_pages_are_bounded_by_bytes(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 50)
        chunks = [chunk async for chunk in stream.scan(max_bytes=300)]

    assert len(chunks) > 3
    assert sum(len(chunk) for chunk in chunks) == 50


async def test_a_scan_that_is_given_up_leaves_no_request(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 100)
        scan = stream.scan(batch=10)
        await anext(scan)
        await scan.aclose()

        assert nc.stats.requests_pending == 0


async def test_a_range_that_the_stream_has_not_reached_is_no_short_read(
    client: Connect, name: str
) -> None:
    """Never a silent stale read (our server waits 500 ms first)."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 5)

        with pytest.raises(MinLastSequence, match="did not reach sequence 6"):
            await rows(stream, 1, 6, timeout=0.7)


async def test_a_range_is_waited_for(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 5)
        reading = asyncio.ensure_future(rows(stream, 1, 8))
        await nc.flush()
        for _ in range(3):
            await js.publish(f"{name}.late")

        assert await reading == list(range(1, 9))


async def test_a_stream_without_direct_get_is_scanned_too(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 30, allow_direct=False)
        await stream.delete_msg(4)
        chunks = [chunk async for chunk in stream.scan(2, 20)]

        assert await rows(stream, filters=[f"{name}.7"]) == [7, 17, 27]

    assert [seq for c in chunks for seq in c.sequences] == [2, 3, *range(5, 21)]
    assert chunks[0].headers[2] == b"NATS/1.0\r\nn: 5\r\n\r\n"
    assert chunks[0].data[0] == b"2"


async def test_a_scan_of_a_deleted_stream_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        await js.delete_stream(name)

        with pytest.raises(StreamNotFound):
            await rows(stream, 1, 1)


# get_batch.


async def test_a_batch_follows_its_pages(client: Connect, name: str) -> None:
    """ADR-31, batched requests."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 60)
        everything = [message.seq async for message in stream.get_batch(batch=7)]
        some = [message.seq async for message in stream.get_batch(seq=10, limit=5)]
        filtered = [m async for m in stream.get_batch(next_by_subject=f"{name}.5", seq=6)]
        start = Timestamp((await stream.get_msg(seq=50)).time_ns)
        timed = [m.seq async for m in stream.get_batch(start_time=start, batch=4)]

    assert everything == list(range(1, 61))
    assert some == [10, 11, 12, 13, 14]
    assert [m.seq for m in filtered] == [15, 25, 35, 45, 55]
    assert filtered[0].headers["n"] == "15"
    assert timed == list(range(50, 61))


async def test_a_batch_that_must_see_a_sequence_fails_without_it(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 5)

        assert [m.seq async for m in stream.get_batch(min_last_seq=5)] == [1, 2, 3, 4, 5]
        with pytest.raises(MinLastSequence):
            await anext(stream.get_batch(seq=4, min_last_seq=9, timeout=0.7, limit=9))


# Read-after-write on single gets.


async def check_read_after_write(nc: Client, stream: Stream) -> None:
    name = stream.name

    assert (await stream.get_msg(seq=2, min_last_seq=5)).seq == 2
    assert (await stream.get_msg(last_by_subject=f"{name}.3", min_last_seq=4)).seq == 3
    with pytest.raises(MinLastSequence, match="sequence 6"):
        await stream.get_msg(seq=2, min_last_seq=6, timeout=0.7)

    waiting = asyncio.ensure_future(stream.get_msg(seq=2, min_last_seq=6))
    await nc.flush()
    await nc.jetstream().publish(f"{name}.late")
    assert (await waiting).seq == 2


async def test_a_direct_get_that_must_see_a_sequence(client: Connect, name: str) -> None:
    """Accept a reply with proof, else the leader decides; bounded."""
    async with client() as nc:
        await check_read_after_write(nc, await filled(nc.jetstream(), name, 5))


async def test_a_get_from_the_leader_that_must_see_a_sequence(client: Connect, name: str) -> None:
    """The same without ``allow_direct``."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 5, allow_direct=False)
        await check_read_after_write(nc, stream)


async def test_a_handle_reads_its_own_writes(client: Connect, name: str) -> None:
    """`read_after_write=True` remembers what it wrote or saw."""
    async with client() as nc:
        js = nc.jetstream(read_after_write=True)
        stream = await filled(js, name, 5)
        for n in range(20):
            await js.publish(f"{name}.key", b"%d" % n)
            assert (await stream.get_msg(last_by_subject=f"{name}.key")).data == b"%d" % n
        await js.delete_stream(name)
        again = await filled(js, name, 1)

        assert (await again.get_msg(seq=1)).seq == 1


# Copies that are not to be trusted: a filtered mirror answers for its upstream.


async def test_a_filtered_mirror_does_not_shorten_a_scan(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 60)
        source = StreamSource(name=name, filter_subject=f"{name}.1")
        mirror = await js.create_stream(
            StreamConfig(name=f"{name}-m", mirror=source, mirror_direct=True)
        )
        while (await mirror.info()).state.messages < 6:
            await asyncio.sleep(0.01)
        for _ in range(4):
            assert await rows(stream, batch=20) == list(range(1, 61))
            assert await rows(stream, 11, 20) == list(range(11, 21))
            assert len([m async for m in stream.get_batch(min_last_seq=60)]) == 60
            assert (await stream.get_msg(seq=2, min_last_seq=60)).seq == 2
            last = [m.seq async for m in stream.get_last_many([f"{name}.*"], min_last_seq=60)]
            assert sorted(last) == list(range(51, 61))
            one = [m.seq async for m in stream.get_last_many([f"{name}.2"], min_last_seq=60)]
            assert one == [52]


async def test_a_stored_header_is_no_proof_that_a_copy_is_new_enough(
    client: Connect, name: str
) -> None:
    """ADR-53: the proof is what the server adds; anybody may store a header of that name."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        try:
            await js.publish(f"{name}.1", headers={"Nats-Min-Last-Sequence": "1000000"})
        except ApiError:
            pytest.skip("this server refuses the header when it is published")

        with pytest.raises(MinLastSequence):
            await stream.get_msg(seq=2, min_last_seq=1000, timeout=0.7)
