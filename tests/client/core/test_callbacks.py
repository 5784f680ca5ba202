"""Subscriptions by callback: order, errors, closing."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from jetspark import Client, Message
from jetspark.errors import AlreadyClaimed, RequestTimeout

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


async def test_a_failing_callback_is_reported_and_continues(client: Connect, name: str) -> None:
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


async def test_a_callback_may_drain_its_subscription(client: Connect, name: str) -> None:
    """It gets the rest of what has arrived when it returns: it cannot wait for itself."""
    received: list[bytes] = []
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:

        async def callback(message: Message) -> None:
            received.append(message.data)
            if message.data == b"1":
                await subscription.drain(timeout=2)
                received.append(b"drained")

        subscription = await nc.subscribe(name, callback=callback)
        for n in range(4):
            nc.publish(name, b"%d" % n)
        await nc.flush()
        await subscription.drain()

    assert received == [b"0", b"1", b"drained", b"2", b"3"]
    assert errors == []


async def test_a_callback_may_drain_its_client(client: Connect, name: str) -> None:
    """What has arrived is processed, with a connection to publish on, and then it closes."""
    received: list[bytes] = []
    errors: list[Exception] = []
    closed = asyncio.Event()
    async with client(error_callback=errors.append, closed_callback=lambda _: closed.set()) as nc:

        async def callback(message: Message) -> None:
            received.append(message.data)
            nc.publish(f"{name}.done", message.data)
            if message.data == b"1":
                await nc.drain(timeout=2)

        await nc.subscribe(name, callback=callback)
        for n in range(4):
            nc.publish(name, b"%d" % n)
        await asyncio.wait_for(closed.wait(), 2)

    assert received == [b"0", b"1", b"2", b"3"]
    assert errors == []


async def test_unsubscribe_calls_a_callback_no_more(client: Connect, name: str) -> None:
    received: list[bytes] = []
    async with client() as nc:

        async def callback(message: Message) -> None:
            received.append(message.data)
            await subscription.unsubscribe()

        subscription = await nc.subscribe(name, callback=callback)
        for n in range(4):
            nc.publish(name, b"%d" % n)
        await nc.flush()
        await subscription.drain()

    assert received == [b"0"]


async def test_unsubscribe_gives_up_what_a_drain_waits_for(client: Connect, name: str) -> None:
    received: list[bytes] = []
    begun = asyncio.Event()

    async def slow(message: Message) -> None:
        received.append(message.data)
        begun.set()
        await asyncio.sleep(0.02)

    async with client() as nc:
        subscription = await nc.subscribe(name, callback=slow)
        for n in range(500):
            nc.publish(name, b"%d" % n)
        draining = asyncio.ensure_future(subscription.drain())
        await begun.wait()
        await nc.flush()
        await subscription.unsubscribe()
        await asyncio.wait_for(draining, 1)

    assert len(received) < 50


async def test_a_callback_that_waits_for_something_cancelled_continues(
    client: Connect, name: str
) -> None:
    """Only the end of the client cancels a callback; anything else is a failure to report."""
    received: list[bytes] = []
    errors: list[Exception] = []

    async def callback(message: Message) -> None:
        received.append(message.data)
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        await cancelled

    async with client(error_callback=errors.append) as nc:
        subscription = await nc.subscribe(name, callback=callback)
        nc.publish(name, b"0")
        nc.publish(name, b"1")
        await subscription.drain()

    assert received == [b"0", b"1"]
    assert ["awaited something that was cancelled" in str(error) for error in errors] == [
        True,
        True,
    ]


async def test_a_subscription_with_a_callback_is_not_read(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name, callback=lambda _: None)
        with pytest.raises(
            AlreadyClaimed, match=r"the subscription .* has a callback, which takes its"
        ):
            await subscription.next()
        with pytest.raises(AlreadyClaimed, match="subscribe without one"):
            async for _ in subscription:
                pass


async def test_close_waits_for_a_closed_callback_that_awaits(client: Connect) -> None:
    """At the end of a program nothing else would run it to its end."""
    told: list[Exception | None] = []

    async def closed(reason: Exception | None) -> None:
        await asyncio.sleep(0.01)
        told.append(reason)

    async with client(closed_callback=closed):
        pass

    assert told == [None]


async def test_close_ends_callbacks_of_subscriptions_that_ended_before(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.client.core.CALLBACKS_TIMEOUT", 0.01)
    ended = asyncio.Event()
    begun = asyncio.Event()

    async def stuck(_message: Message) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with client() as nc:
        subscription = await nc.subscribe(name, callback=stuck)
        nc.publish(name)
        await begun.wait()
        await subscription.unsubscribe()

    await asyncio.wait_for(ended.wait(), 2)


async def test_what_a_callback_raises_is_logged_with_its_place(
    client: Connect, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without an error callback the log is all there is."""

    def broken(_message: Message) -> None:
        raise LookupError("no such thing")

    async with client() as nc:
        subscription = await nc.subscribe(name, callback=broken)
        nc.publish(name)
        await subscription.drain()

    assert "in broken" in caplog.text


async def test_two_drains_at_once_both_end(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)
        nc.publish(name)
        await nc.flush()
        drains = asyncio.gather(subscription.drain(timeout=2), subscription.drain(timeout=2))
        await asyncio.sleep(0.01)
        await subscription.next()

        await drains


async def test_a_drain_that_was_not_done_names_what_is_left(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.subscribe(name)
        nc.publish(name)
        nc.publish(name)
        with pytest.raises(RequestTimeout, match=f"2 messages of '{name}' were not processed"):
            await nc.drain(timeout=0.1)
