"""How callbacks of consumers end: from outside, from inside themselves, by accident.

ADR-15, "Unsubscribe and Drain": no hidden errors, no calls that hang.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.support.servers import ServerProcess

from jetspark import (
    AckPolicy,
    Client,
    ConsumerConfig,
    JetStream,
    JetStreamMessage,
    Stream,
    StreamConfig,
    connect,
    sync,
)
from jetspark.errors import PermissionsViolation, RequestTimeout

Connect = Callable[..., AbstractAsyncContextManager[Client]]
CONFIG = ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT)


async def filled(js: JetStream, name: str) -> Stream:
    """A stream with three messages."""
    stream = await js.create_stream(StreamConfig(name=name, subjects=(name,)))
    for n in range(3):
        await js.publish(name, b"%d" % n)
    return stream


@pytest.mark.parametrize("how", ["close", "drain"])
async def test_a_consume_callback_may_end_itself(client: Connect, name: str, how: str) -> None:
    async with client() as nc, asyncio.timeout(5):
        stream = await filled(nc.jetstream(), name)
        consumer = await stream.create_consumer(CONFIG)
        seen: list[bytes] = []

        async def callback(message: JetStreamMessage) -> None:
            seen.append(message.data)
            await getattr(consumption, how)()

        consumption = consumer.consume(callback)
        await consumption.wait()

        assert seen == ([b"0"] if how == "close" else [b"0", b"1", b"2"])
        assert nc.stats.subscriptions == 0


@pytest.mark.parametrize("how", ["unsubscribe", "drain"])
async def test_a_push_callback_may_end_its_subscription(
    client: Connect, name: str, how: str
) -> None:
    async with client() as nc, asyncio.timeout(5):
        js = nc.jetstream()
        stream = await filled(js, name)
        seen: list[bytes] = []
        ready = asyncio.Event()

        async def callback(message: JetStreamMessage) -> None:
            await ready.wait()
            seen.append(message.data)
            await getattr(subscription, how)()

        subscription = await js.subscribe(name, callback=callback)
        while subscription._subscription.delivered < 3:
            await asyncio.sleep(0)
        ready.set()
        while [each async for each in stream.consumer_names()]:
            await asyncio.sleep(0)

        assert seen == ([b"0"] if how == "unsubscribe" else [b"0", b"1", b"2"])
        assert nc.stats.subscriptions == 0


async def test_what_a_callback_waited_for_may_be_cancelled(client: Connect, name: str) -> None:
    """It is the callback's failure, reported to the error callback; the next message follows."""
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc, asyncio.timeout(5):
        stream = await filled(nc.jetstream(), name)
        consumer = await stream.create_consumer(CONFIG)
        seen: list[bytes] = []
        done = asyncio.Event()

        async def callback(message: JetStreamMessage) -> None:
            seen.append(message.data)
            if len(seen) == 3:
                done.set()
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

        async with consumer.consume(callback) as consumption:
            await done.wait()

        assert consumption.is_closed
        assert seen == [b"0", b"1", b"2"]
        assert len(errors) == 3
        assert "was cancelled" in str(errors[0])


async def test_a_drain_that_takes_too_long_still_deletes_the_consumer(
    client: Connect, name: str
) -> None:
    async with client() as nc, asyncio.timeout(5):
        js = nc.jetstream()
        stream = await filled(js, name)
        called = asyncio.Event()

        async def callback(_message: JetStreamMessage) -> None:
            called.set()
            await asyncio.Event().wait()

        subscription = await js.subscribe(name, callback=callback)
        await called.wait()
        with pytest.raises(RequestTimeout, match=r"did not finish within 0\.05 s"):
            await subscription.drain(timeout=0.05)

        assert [each async for each in stream.consumer_names()] == []


async def test_a_drain_waits_up_to_its_timeout(client: Connect, name: str) -> None:
    async with client(timeout=0.1) as nc, asyncio.timeout(5):
        js = nc.jetstream(timeout=2)
        await filled(js, name)
        seen: list[bytes] = []
        called = asyncio.Event()

        async def callback(message: JetStreamMessage) -> None:
            called.set()
            await asyncio.sleep(0.1)
            seen.append(message.data)

        subscription = await js.subscribe(name, callback=callback)
        await called.wait()
        while subscription.pending_msgs:
            await asyncio.sleep(0)
        await subscription.drain(timeout=3)

        assert seen == [b"0", b"1", b"2"]


async def test_a_subscription_that_the_server_ended_deletes_what_it_made(
    nats_server: Callable[[str], ServerProcess],
) -> None:
    """The consumer was made before the server refused the subscription to what it delivers."""
    server = nats_server(
        """jetstream: enabled
        authorization { users [{ user: u, password: p, permissions: {
            publish: ">", subscribe: { deny: ["refused.>"] } } }] }"""
    )
    async with await connect(server.url, user="u", password="p") as nc:
        js = nc.jetstream()
        stream = await filled(js, "S")
        config = ConsumerConfig(deliver_subject="refused.1")
        subscription = await js.subscribe("S", durable="d", config=config)
        with pytest.raises(PermissionsViolation):
            await subscription.next()
        await subscription.unsubscribe()

        assert [each async for each in stream.consumer_names()] == []


@pytest.mark.parametrize("how", ["close", "drain"])
def test_a_blocking_consume_callback_may_end_itself(
    server: ServerProcess, name: str, how: str
) -> None:
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name=name, subjects=(name,)))
        for n in range(3):
            js.publish(name, b"%d" % n)
        consumer = stream.create_consumer(CONFIG)
        seen: list[bytes] = []
        made: list[sync.Consumption] = []
        ready, ended = threading.Event(), threading.Event()

        def callback(message: sync.JetStreamMessage) -> None:
            ready.wait()
            seen.append(message.data)
            if how == "close":
                made[0].close()
            else:
                made[0].drain()
            ended.set()

        made.append(consumer.consume(callback))
        while consumer.info().num_ack_pending < 3:
            pass
        ready.set()

        assert ended.wait(5)
        made[0].wait()
        assert seen == ([b"0"] if how == "close" else [b"0", b"1", b"2"])


def test_a_blocking_push_callback_may_end_its_subscription(
    server: ServerProcess, name: str
) -> None:
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name=name, subjects=(name,)))
        seen: list[bytes] = []
        made: list[sync.PushSubscription] = []
        ended = threading.Event()

        def callback(message: sync.JetStreamMessage) -> None:
            seen.append(message.data)
            made[0].unsubscribe()
            ended.set()

        made.append(js.subscribe(name, callback=callback))
        js.publish(name, b"0")

        assert ended.wait(5)
        js.publish(name, b"1")
        assert list(stream.consumer_names()) == []
        assert seen == [b"0"]
