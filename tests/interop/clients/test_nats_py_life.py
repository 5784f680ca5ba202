"""nats-py while servers come and go, and when it cannot keep up."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import nats.errors
import pytest
from nats.aio.msg import Msg
from tests.interop.clients.nats_py_client import (
    PATIENCE_S,
    Watch,
    connected,
    patiently,
    settle,
    texts,
)
from tests.support.served import Served

import jetspark

Configure = Callable[[str], Path]
CHUNK = b"x" * 64 * 1024
# More than the kernel and nats-py hold for one connection, many times over.
CHUNKS_MAX = 4096


async def echo(message: Msg) -> None:
    await message.respond(message.data)


async def test_subscriptions_work_again_after_a_restart_and_kept_messages_arrive() -> None:
    watch = Watch()
    before = jetspark.Server(jetstream=False)
    await before.start()
    port = before.port
    async with connected(before.client_url, watch, allow_reconnect=True) as client:
        subscription = await client.subscribe("kept")
        await client.subscribe("echo", cb=echo)
        limited = await client.subscribe("limited")
        await limited.unsubscribe(limit=3)
        await client.publish("limited", b"1")
        await client.publish("kept", b"before")
        assert await texts(subscription, 1) == ["kept=before"]
        await before.close()
        await patiently(watch.disconnected.wait())
        await client.publish("kept", b"while away")
        async with jetspark.Server(port=port, jetstream=False):
            await patiently(watch.reconnected.wait())
            await client.publish("kept", b"after")
            answer = await client.request("echo", b"still here", timeout=PATIENCE_S)
            for number in range(2, 6):
                await client.publish("limited", str(number).encode())
            await settle(client)

            assert await texts(subscription, 2) == ["kept=while away", "kept=after"]
            assert answer.data == b"still here"
            assert await texts(limited, 3) == ["limited=1", "limited=2", "limited=3"]
            assert limited.delivered == 3


async def test_a_client_moves_to_another_server_of_its_list() -> None:
    watch = Watch()
    first = jetspark.Server(jetstream=False, server_name="first")
    await first.start()
    async with jetspark.Server(jetstream=False, server_name="second") as second:
        urls = [first.client_url, second.client_url]
        async with connected(urls, watch, allow_reconnect=True, dont_randomize=True) as client:
            subscription = await client.subscribe("moved")
            await client.flush()
            await first.close()
            await patiently(watch.reconnected.wait())
            await client.publish("moved", b"here")

            assert await texts(subscription, 1) == ["moved=here"]
            assert client.connected_url is not None
            assert client.connected_url.port == second.port


async def test_a_server_that_stops_notifies_clients_and_leaves_nothing() -> None:
    tasks = asyncio.all_tasks()
    threads = threading.active_count()
    watches = [Watch() for _ in range(10)]
    async with AsyncExitStack() as clients:
        async with jetspark.Server() as server:
            for watch in watches:
                client = await clients.enter_async_context(connected(server.client_url, watch))
                await client.subscribe("anything")
                await settle(client)
        errors = [await watch.error() for watch in watches]
        for watch in watches:
            await patiently(watch.closed.wait())

    assert [type(error) for error in errors] == [nats.errors.UnexpectedEOF] * 10
    assert asyncio.all_tasks() == tasks
    assert threading.active_count() == threads


async def test_a_server_that_stops_delivers_first_what_it_has_taken() -> None:
    watch = Watch()
    got: list[int] = []

    async def take(message: Msg) -> None:
        got.append(int(message.data))

    server = jetspark.Server(jetstream=False)
    await server.start()
    async with (
        connected(server.client_url, watch) as subscriber,
        connected(server.client_url) as publisher,
    ):
        await subscriber.subscribe("last", cb=take)
        await settle(subscriber)
        for number in range(500):
            await publisher.publish("last", str(number).encode())
        await settle(publisher)
        await server.close()
        await patiently(watch.closed.wait())

    assert got == list(range(500))


async def test_a_connection_beyond_the_limit_is_refused(configure: Configure) -> None:
    """nats-py may write before it reads why, so the reason differs from run to run."""
    async with (
        jetspark.Server(config=configure("max_connections: 1")) as server,
        connected(server.client_url) as first,
    ):
        with pytest.raises((nats.errors.Error, OSError)):
            async with connected(server.client_url):
                pass
        await first.flush()


class Stalled:
    """An error callback that keeps nats-py from reading on until it is released.

    With room for one message in the subscription, every other one is an error, and nats-py reads
    no further before its callback returns.
    """

    def __init__(self) -> None:
        self.stalled = asyncio.Event()
        self.release = asyncio.Event()

    async def on_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            self.stalled.set()
            await self.release.wait()


async def test_a_client_that_stalls_is_disconnected_and_no_other_client_suffers(
    configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    """It may come back: reconnecting is all it needs."""
    caplog.set_level(logging.INFO, "jetspark.server")
    stalled, slow, quick = Stalled(), Watch(), Watch()
    received = 0

    async def count(_message: Msg) -> None:
        nonlocal received
        received += 1

    async with (
        jetspark.Server(config=configure("max_pending: 1MB")) as server,
        connected(
            server.client_url, slow, error_cb=stalled.on_error, allow_reconnect=True
        ) as sleeper,
        connected(server.client_url, quick) as listener,
        connected(server.client_url) as publisher,
    ):
        await sleeper.subscribe("flood", pending_msgs_limit=1)
        await listener.subscribe("flood", cb=count, pending_bytes_limit=0)
        await settle(sleeper, listener)
        sent = 0
        while "Slow Consumer Detected" not in caplog.text:
            assert sent < CHUNKS_MAX, "the server keeps everything for a client that does not read"
            await publisher.publish("flood", CHUNK)
            await publisher.flush()
            sent += 1
        assert stalled.stalled.is_set()
        stalled.release.set()
        await patiently(slow.reconnected.wait())
        mine = await sleeper.subscribe("after")
        await settle(sleeper, listener, publisher)
        await publisher.publish("after", b"back")

        assert await texts(mine, 1) == ["after=back"]
        assert received == sent
        assert not quick.disconnected.is_set()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path / "store")
    yield server
    server.end()


async def test_a_server_process_that_is_ended_lets_its_clients_go(served: Served) -> None:
    watch = Watch()
    async with connected(served.url, watch) as client:
        await client.flush()
        code = await asyncio.to_thread(served.stop)
        await patiently(watch.closed.wait())

    assert code == 0
    assert isinstance(await watch.error(), nats.errors.UnexpectedEOF)


async def test_a_lame_duck_tells_its_clients(served: Served) -> None:
    """SIGUSR2; clients get INFO with `ldm`, and messages while they stay."""
    watch = Watch()
    async with connected(served.url, watch) as client:
        served.process.send_signal(signal.SIGUSR2)
        await patiently(watch.lame_duck.wait())
        await client.subscribe("echo", cb=echo)

        assert (await client.request("echo", b"x", timeout=PATIENCE_S)).data == b"x"
        with pytest.raises(nats.errors.NoServersError):
            async with connected(served.url):
                pass
