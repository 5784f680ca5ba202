"""A callback of any kind may close or drain the client that it belongs to."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.client.conftest import Connect

from jetspark import (
    AckPolicy,
    ConsumerConfig,
    Entry,
    JetStream,
    KeyValueConfig,
    StreamConfig,
    ThreadCallback,
    connect,
    sync,
)
from jetspark.errors import Error

KINDS = ["consume", "push", "ordered", "watch"]
QUICK = 1.5  # seconds; callbacks that wait for themselves take 2 or more


async def begin(kind: str, js: JetStream, name: str, callback: Callable[..., Any]) -> object:
    """Hand three messages, or entries and what follows them, to a callback."""
    if kind == "watch":
        bucket = await js.create_key_value(KeyValueConfig(bucket=name))
        for n in range(3):
            await bucket.put(f"k{n}", b"")
        return await bucket.watch(callback=callback)
    stream = await js.create_stream(StreamConfig(name=name, subjects=(name,)))
    for n in range(3):
        await js.publish(name, b"%d" % n)
    if kind == "push":
        return await js.subscribe(name, callback=callback)
    if kind == "ordered":
        return stream.ordered_consumer().consume(callback)
    consumer = await stream.create_consumer(ConsumerConfig(ack_policy=AckPolicy.EXPLICIT))
    return consumer.consume(callback)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_callback_may_drain_its_client(client: Connect, name: str, kind: str) -> None:
    """It had everything that arrived before, and nothing is reported."""
    seen: list[object] = []
    errors: list[Exception] = []
    closed = asyncio.Event()

    async def callback(item: object) -> None:
        seen.append(item)
        if len(seen) == 1:
            await nc.drain(timeout=5)

    async with client(error_callback=errors.append, closed_callback=lambda _: closed.set()) as nc:
        started = time.monotonic()
        kept = await begin(kind, nc.jetstream(), name, callback)
        await asyncio.wait_for(closed.wait(), 10)

        assert time.monotonic() - started < QUICK
        assert len(seen) >= 3
        assert errors == []
        assert kept is not None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_is_drained_while_a_callback_listens(
    client: Connect, name: str, kind: str
) -> None:
    seen = asyncio.Event()
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        started = time.monotonic()
        kept = await begin(kind, nc.jetstream(), name, lambda _: seen.set())
        await asyncio.wait_for(seen.wait(), 5)
        await nc.drain(timeout=5)

        assert time.monotonic() - started < QUICK
        assert errors == []
        assert kept is not None


@pytest.mark.parametrize("how", ["drain", "close"])
def test_a_blocking_callback_may_end_its_client(server: Any, name: str, how: str) -> None:
    closed = threading.Event()
    errors: list[Exception] = []
    with sync.connect(
        server.url, error_callback=errors.append, closed_callback=lambda _: closed.set()
    ) as nc:
        bucket = nc.jetstream().create_key_value(KeyValueConfig(bucket=name))
        bucket.put("k", b"1")
        started = time.monotonic()
        watcher = bucket.watch(callback=lambda _: getattr(nc, how)())

        assert closed.wait(5)
        assert time.monotonic() - started < QUICK
        assert errors == []
        assert watcher is not None


def test_a_blocking_watch_callback_may_stop_its_watch(server: Any, name: str) -> None:
    stopped = threading.Event()
    seen: list[str] = []
    with sync.connect(server.url) as nc:
        bucket = nc.jetstream().create_key_value(KeyValueConfig(bucket=name))

        def callback(entry: Entry) -> None:
            seen.append(entry.key)
            watcher.close()
            stopped.set()

        watcher = bucket.watch("k", callback=callback)
        watcher.ready()
        bucket.put("k", b"1")
        assert stopped.wait(30)
        bucket.put("k", b"2")

    assert seen == ["k"]


async def test_one_thread_callback_serves_several_subscriptions(
    client: Connect, name: str
) -> None:
    """The end of one of them ends its own thread only."""
    seen: list[str] = []
    shared = ThreadCallback[Any](lambda message: seen.append(message.subject))
    async with client() as nc:
        first = await nc.subscribe(f"{name}.a", callback=shared)
        second = await nc.subscribe(f"{name}.b", callback=shared)
        nc.publish(f"{name}.a")
        await nc.flush()
        await first.drain()
        await first.unsubscribe()
        nc.publish(f"{name}.b")
        await second.drain(timeout=2)

    assert seen == [f"{name}.a", f"{name}.b"]


async def test_closing_on_purpose_is_no_error_of_a_callback(server: Any, name: str) -> None:
    errors: list[Exception] = []
    nc = await connect(server.url, error_callback=errors.append)
    consumption = await begin("ordered", nc.jetstream(), name, lambda _: None)
    await nc.close()
    with pytest.raises(Error):
        await consumption.wait()  # type: ignore[attr-defined]

    assert errors == []
