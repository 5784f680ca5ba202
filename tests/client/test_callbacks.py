"""Subscriptions by callback: order, errors, closing (clients.md 4, points 1 and 14)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from jetspark.client import Client, Message

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "coroutine"])
async def test_callbacks_get_messages_in_order(client: Connect, name: str, plain: bool) -> None:
    received: list[bytes] = []

    async def coroutine(message: Message) -> None:
        await asyncio.sleep(0)
        received.append(message.data)

    def function(message: Message) -> None:
        received.append(message.data)

    async with client() as nc:
        subscription = await nc.subscribe(name, callback=function if plain else coroutine)
        for n in range(1000):
            nc.publish(name, b"%d" % n)
        await subscription.drain()

    assert received == [b"%d" % n for n in range(1000)]


async def test_a_failing_callback_is_reported_and_goes_on(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    received: list[bytes] = []

    def callback(message: Message) -> None:
        received.append(message.data)
        if message.data == b"bad":
            raise LookupError("bad message")

    async with client(error_callback=errors.append) as nc:
        subscription = await nc.subscribe(name, callback=callback)
        for payload in (b"good", b"bad", b"good"):
            nc.publish(name, payload)
        await subscription.drain()

    assert received == [b"good", b"bad", b"good"]
    assert [str(error) for error in errors] == ["bad message"]


async def test_drain_of_the_client_runs_callbacks_to_the_end_and_closes(
    client: Connect, name: str
) -> None:
    received: list[bytes] = []
    async with client() as nc:
        await nc.subscribe(name, callback=lambda message: received.append(message.data))
        for _ in range(500):
            nc.publish(name, b"x")
        await nc.drain()

        assert (len(received), nc.is_closed) == (500, True)


async def test_a_callback_may_close_its_client(client: Connect, name: str) -> None:
    async with client() as nc:

        async def last(_message: Message) -> None:
            await nc.close()

        subscription = await nc.subscribe(name, callback=last)
        nc.publish(name)
        async with asyncio.timeout(5):
            while not nc.is_closed:
                await asyncio.sleep(0.01)

    assert subscription.is_closed
