"""Consumers and watches over a restart of the server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetspark import (
    AckPolicy,
    Client,
    ConsumerConfig,
    JetStream,
    KeyValueConfig,
    Stream,
    StreamConfig,
    connect,
)

QUICK: Any = {
    "reconnect_wait": 0.01,
    "reconnect_wait_max": 0.05,
    "reconnect_jitter": 0.0,
    "max_reconnects": -1,
}


class Restartable:
    """A server that can be killed and started again on the same port."""

    def __init__(self, kind: str, folder: Path, start: Callable[..., Any]) -> None:
        self._kind, self._folder, self._start = kind, folder, start
        self._process = start(kind, folder, "-js")
        self.url = self._process.url
        # A killed nats-server may not have written what was acknowledged last.
        self.forgets_acks = kind == "nats-server"

    async def restart(self) -> None:
        port = self.url.rpartition(":")[2]
        await asyncio.to_thread(self._process.kill)
        self._process = await asyncio.to_thread(
            self._start, self._kind, self._folder, "-js", port=port
        )


@pytest.fixture(params=["nats-server", "jetspark"])
def restartable(
    request: pytest.FixtureRequest, tmp_path: Path, server_process: Callable[..., Any]
) -> Restartable:
    return Restartable(request.param, tmp_path, server_process)


async def filled(js: JetStream, name: str, first: int, last: int) -> Stream:
    stream = await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
    for n in range(first, last + 1):
        await js.publish(f"{name}.a", b"%d" % n)
    return stream


async def opened(restartable: Restartable) -> Client:
    return await connect(restartable.url, error_callback=lambda _: None, **QUICK)


async def published(js: JetStream, name: str, n: int) -> None:
    async with asyncio.timeout(20):
        await js.publish(f"{name}.a", b"%d" % n, timeout=15)


async def test_messages_continue_after_a_restart(restartable: Restartable, name: str) -> None:
    async with await opened(restartable) as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1, 3)
        consumer = await stream.create_consumer(
            ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT)
        )
        async with consumer.messages() as messages:
            seen = []
            for _ in range(3):
                message = await anext(messages)
                await message.ack_sync()
                seen.append(int(message.data))
            waiting = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(0)
            await restartable.restart()
            await published(js, name, 4)
            async with asyncio.timeout(30):
                message = await waiting
                while restartable.forgets_acks and message.data != b"4":
                    message = await anext(messages)
            seen.append(int(message.data))

        assert seen == [1, 2, 3, 4]


async def test_a_waiting_fetch_is_asked_again(restartable: Restartable, name: str) -> None:
    async with await opened(restartable) as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1, 0)
        consumer = await stream.create_consumer(
            ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT)
        )
        waiting = asyncio.create_task(consumer.fetch(1, timeout=20))
        await nc.flush()
        await restartable.restart()
        await published(js, name, 1)
        async with asyncio.timeout(10):
            (message,) = await waiting

        assert message.data == b"1"


@pytest.mark.parametrize("push", [False, True], ids=["pull", "push"])
async def test_an_ordered_consumer_continues_after_a_restart(
    restartable: Restartable, name: str, push: bool
) -> None:
    async with await opened(restartable) as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1, 3)
        async with stream.ordered_consumer(push=push).messages() as messages:
            seen = [int((await anext(messages)).data) for _ in range(3)]
            waiting = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(0)
            await restartable.restart()
            await published(js, name, 4)
            async with asyncio.timeout(10):
                seen.append(int((await waiting).data))

        assert seen == [1, 2, 3, 4]


async def test_a_watch_continues_after_a_restart(restartable: Restartable, name: str) -> None:
    async with await opened(restartable) as nc:
        js = nc.jetstream()
        kv = await js.create_key_value(KeyValueConfig(bucket=name))
        await kv.put("a", b"1")
        async with await kv.watch() as watcher:
            first = [entry async for entry in watcher.initial()]
            waiting = asyncio.ensure_future(anext(watcher))
            await asyncio.sleep(0)
            await restartable.restart()
            async with asyncio.timeout(20):
                await kv.put("b", b"2", timeout=15)
                entry = await waiting

        assert len(first) == 1
        assert (entry.key, entry.value) == ("b", b"2")


async def test_a_push_subscription_continues_after_a_restart(
    restartable: Restartable, name: str
) -> None:
    async with await opened(restartable) as nc:
        js = nc.jetstream()
        await filled(js, name, 1, 1)
        subscription = await js.subscribe(f"{name}.a", durable="d")
        first = await subscription.next()
        await first.ack_sync()
        await restartable.restart()
        await published(js, name, 2)
        second = await subscription.next(timeout=10)

        assert (first.data, second.data) == (b"1", b"2")
