"""What is not needed is not asked for, and an end that was given a time keeps to it."""

import asyncio

import pytest
from tests.client.conftest import Connect

from jetspark import Client, JetStreamMessage, Stream
from jetspark.errors import MessageNotFound, RequestTimeout


async def filled(nc: Client, name: str, *, allow_direct: bool) -> Stream:
    js = nc.jetstream()
    stream = await js.create_stream(name, subjects=[f"{name}.>"], allow_direct=allow_direct)
    for number in range(40):
        await js.publish_async(f"{name}.{number % 4}", b"%d" % number)
    await js.publish_async_complete()
    return stream


@pytest.mark.parametrize(("batch", "pages"), [(1000, 1), (4, 3)])
async def test_a_batch_with_a_limit_reads_no_more_than_that(
    client: Connect, name: str, batch: int, pages: int
) -> None:
    async with client() as nc:
        stream = await filled(nc, name, allow_direct=True)
        before = nc.stats.in_msgs
        found = [each.seq async for each in stream.get_batch(limit=10, batch=batch)]
        await nc.flush()  # a page that was requested needlessly has arrived by then

        assert found == list(range(1, 11))
        assert nc.stats.in_msgs - before == 10 + pages  # and the end of each page


async def test_a_limit_holds_when_the_leader_is_asked(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc, name, allow_direct=False)
        before = nc.stats.in_msgs
        found = [each.seq async for each in stream.get_batch(limit=10)]
        await nc.flush()

        assert found == list(range(1, 11))
        assert nc.stats.in_msgs - before == 10


async def test_a_handle_that_knows_that_direct_gets_are_off_does_not_ask_for_them(
    client: Connect, name: str
) -> None:
    async with client() as nc, client() as other:
        stream = await filled(nc, name, allow_direct=False)
        direct = f"$JS.API.DIRECT.GET.{name}"
        asked = [await other.subscribe(direct), await other.subscribe(f"{direct}.>")]
        await other.flush()

        assert (await stream.get_msg(seq=2)).data == b"1"
        assert (await stream.get_msg(last_by_subject=f"{name}.3")).seq == 40
        with pytest.raises(MessageNotFound):
            await stream.get_msg(seq=41)
        assert len([each async for each in stream.get_batch(seq=31)]) == 10
        assert sum([len(chunk) async for chunk in stream.scan(21, 40)]) == 20
        assert len([each async for each in stream.get_last_many([f"{name}.*"])]) == 4
        await nc.flush()
        await other.flush()
        assert [each.pending_msgs for each in asked] == [0, 0]

        await stream.update(allow_direct=True)
        assert (await stream.get_msg(seq=2)).data == b"1"
        await nc.flush()
        await other.flush()
        assert [each.pending_msgs for each in asked] == [1, 0]


async def test_a_drain_ends_when_its_time_is_up_whatever_callbacks_do(
    client: Connect, name: str
) -> None:
    async with client() as nc, client() as other:
        js = nc.jetstream()
        stream = await filled(nc, name, allow_direct=False)
        called = asyncio.Event()
        given_up = asyncio.Event()

        async def busy(_message: JetStreamMessage) -> None:
            called.set()
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

        await js.subscribe(f"{name}.0", durable="push", callback=busy)
        await stream.create_consumer(durable="pull")
        messages = (await stream.consumer("pull")).messages()
        await messages.next()  # and no one takes the others that have come
        await called.wait()
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(RequestTimeout, match=r"drain did not finish within 0\.2 s"):
            async with asyncio.timeout(30):
                await nc.drain(timeout=0.2)

        assert given_up.is_set()  # it was not waited for as long as close() does
        assert loop.time() - began < 20
        assert nc.is_closed
        left = await other.jetstream().stream(name)
        assert [each async for each in left.consumer_names()] == ["pull"]


async def test_a_change_of_a_stream_takes_two_requests(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await nc.jetstream().create_stream(name, subjects=[name])
        before = nc.stats.out_msgs
        await stream.update(max_msgs=5)
        assert nc.stats.out_msgs - before == 2
        changed = await nc.jetstream().update_stream(name, max_bytes=10_000)
        assert nc.stats.out_msgs - before == 4
        assert (changed.config.max_msgs, changed.config.max_bytes) == (5, 10_000)
