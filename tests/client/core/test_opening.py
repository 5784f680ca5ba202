"""What is opened works with ``await`` and with ``async with``, and is closed by the latter."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.support.servers import ServerProcess

import jetspark
from jetspark import Client
from jetspark.errors import BucketNotFound, ConnectFailed, ObjectNotFound, StreamNotFound

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def test_a_client_is_opened_and_closed_by_async_with(server: ServerProcess) -> None:
    async with jetspark.connect(server.url) as nc:
        assert nc.is_connected
        async with nc.subscribe("a.b.c") as subscription:
            nc.publish("a.b.c", b"1")
            async for message in subscription:
                assert message.data == b"1"
                break
        assert subscription.is_closed
    assert nc.is_closed

    awaited = await jetspark.connect(server.url)
    assert awaited.is_connected
    await awaited.close()


async def test_everything_that_is_opened_is_closed_by_async_with(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(name, subjects=[name])
        await js.publish(name, b"1")
        async with js.subscribe(name) as push:
            message = await anext(push)
            assert message.data == b"1"
        assert push.is_closed
        async with js.pull_subscribe(name, durable="d") as pull:
            assert len(await pull.fetch(1)) == 1
        assert pull.is_closed
        async with js.replica(name) as replica:
            assert replica.get_last(name).data == b"1"

        async with js.create_key_value(name) as kv:
            await kv.put("a", b"1")
            async with kv.watch("a") as watcher:
                entry = await watcher.next()
                assert entry.value == b"1"
            with pytest.raises(StopAsyncIteration):
                await anext(watcher)
            async with kv.typed(int).watch("a") as typed:
                first = await typed.next()
                assert first.value == 1
            async with kv.replica() as copy:
                assert copy.value("a") == b"1"
            async with kv.members("g", ttl=5).join("me"):
                assert [each async for each in kv.keys("g.*")] == ["g.me"]
            assert [each async for each in kv.keys("g.*")] == []
        async with js.key_value(name) as again:
            assert (await again.get("a")).value == b"1"

        store = await js.create_object_store(name)
        await store.put("f", b"12")
        async with store.open("f") as reader:
            assert await reader.read() == b"12"
        async with store.watch() as objects:
            info = await objects.next()
            assert info.name == "f"


async def test_what_cannot_be_opened_raises_before_the_block(client: Connect, name: str) -> None:
    entered = False
    with pytest.raises(ConnectFailed):
        async with jetspark.connect("nats://127.0.0.1:1", connect_timeout=5):
            entered = True
    async with client() as nc:
        js = nc.jetstream()
        with pytest.raises(StreamNotFound):
            async with js.subscribe(name):
                entered = True
        with pytest.raises(BucketNotFound):
            async with js.key_value(name):
                entered = True
        store = await js.create_object_store(name)
        with pytest.raises(ObjectNotFound):
            async with store.open("x"):
                entered = True
    assert not entered


async def test_an_error_in_the_block_closes_and_passes(server: ServerProcess) -> None:
    with pytest.raises(ZeroDivisionError):
        async with jetspark.connect(server.url) as nc:
            raise ZeroDivisionError
    assert nc.is_closed


async def test_what_is_being_opened_can_be_a_task(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await asyncio.create_task(nc.subscribe(name))
        nc.publish(name, b"1")
        assert (await subscription.next(timeout=30)).data == b"1"
