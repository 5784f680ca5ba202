"""Losing a connection and finding the next one."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted import INFO, greet, scripted, unused_port
from tests.support.waiting import until

from jetspark import Client, connect
from jetspark.errors import (
    AuthorizationFailed,
    BufferFull,
    ConnectFailed,
    ConnectionClosed,
    RequestTimeout,
)

QUICK: Any = {
    "reconnect_wait": 0.01,
    "reconnect_wait_max": 0.05,
    "reconnect_jitter": 0.0,
    "max_reconnects": -1,  # on a busy machine a restart takes more than a few of these waits
}

Restart = Callable[..., Any]


@pytest.fixture(params=["nats-server", "jetspark"])
def restartable(
    request: pytest.FixtureRequest, tmp_path: Path, server_process: Callable[..., Any]
) -> "Restartable":
    return Restartable(request.param, tmp_path, server_process)


class Restartable:
    """A server that can be killed and started again on the same port."""

    def __init__(self, kind: str, folder: Path, start: Callable[..., Any]) -> None:
        self._kind, self._folder, self._start = kind, folder, start
        self._process = start(kind, folder, "-js")
        self.url = self._process.url

    def stop(self) -> None:
        self._process.kill()

    def restart(self) -> None:
        port = self.url.rpartition(":")[2]
        self._process = self._start(self._kind, self._folder, "-js", port=port)


async def test_subscriptions_requests_and_buffered_publishes_survive_a_restart(
    restartable: Restartable, name: str
) -> None:
    lost: list[Exception] = []
    found: list[str] = []
    async with await connect(
        restartable.url,
        disconnected_callback=lost.append,
        reconnected_callback=lambda info: found.append(info.server_id),
        **QUICK,
    ) as nc:
        subscription = await nc.subscribe(f"{name}.>")
        await nc.subscribe(f"{name}-echo", callback=lambda m: m.respond(m.data))
        assert (await nc.request(f"{name}-echo", b"before")).data == b"before"
        await asyncio.to_thread(restartable.stop)
        await until(lambda: not nc.is_connected)

        for n in range(10):
            nc.publish(f"{name}.{n}", b"%d" % n)
        request = asyncio.ensure_future(nc.request(f"{name}-echo", b"meanwhile", timeout=20))
        await asyncio.to_thread(restartable.restart)
        received = [(await subscription.next(timeout=20)).data for _ in range(10)]

        assert received == [b"%d" % n for n in range(10)]
        assert (await request).data == b"meanwhile"
        assert nc.stats.reconnects == 1
        assert nc.connected_server == restartable.url.removeprefix("nats://")
    assert [type(error) for error in lost] == [ConnectionClosed]
    assert len(found) == 1


async def test_jetstream_continues_after_a_restart(restartable: Restartable, name: str) -> None:
    async with await connect(restartable.url, **QUICK) as nc:
        js = nc.jetstream(timeout=20)
        await js.create_stream(name, subjects=[name])
        assert (await js.publish(name, b"1")).seq == 1
        await asyncio.to_thread(restartable.stop)
        await asyncio.to_thread(restartable.restart)
        await nc.flush(timeout=20)

        assert (await js.publish(name, b"2")).seq == 2


async def test_a_limited_subscription_keeps_its_count_over_a_reconnect() -> None:
    """UNSUB with max counts deliveries since SUB, so the rest is sent again."""
    resumed: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        if not resumed:
            resumed.append(await reader.readuntil(b"UNSUB 1 5\r\n"))
            writer.write(b"MSG a 1 1\r\nx\r\n" * 2)
            await writer.drain()
            writer.close()
            return
        resumed.append(await reader.readuntil(b"UNSUB 1 3\r\n"))
        writer.write(b"MSG a 1 1\r\ny\r\n" * 3)
        await reader.read()

    async with scripted(serve) as address, await connect(address, **QUICK) as nc:
        subscription = await nc.subscribe("a", queue="q")
        await subscription.unsubscribe(5)
        received = [message.data async for message in subscription]

    assert received == [b"x", b"x", b"y", b"y", b"y"]
    assert resumed[1] == b"SUB a q 1\r\nUNSUB 1 3\r\n"


async def test_what_waits_is_bounded_and_the_error_says_why(restartable: Restartable) -> None:
    async with await connect(restartable.url, reconnect_buffer_bytes=1000, **QUICK) as nc:
        await asyncio.to_thread(restartable.stop)
        await until(lambda: not nc.is_connected)

        nc.publish("a", bytes(900))
        with pytest.raises(BufferFull, match="no server is connected now"):
            nc.publish("a", bytes(200))
        assert nc.stats.write_pending_bytes < 1000


async def test_pending_calls_end_in_time_without_a_server(restartable: Restartable) -> None:
    async with await connect(restartable.url, **QUICK) as nc:
        await nc.subscribe("silent")
        waiting = asyncio.ensure_future(nc.request("silent", timeout=0.5))
        await nc.flush()
        await asyncio.to_thread(restartable.stop)
        started = time.monotonic()
        with pytest.raises(RequestTimeout):
            await waiting
        with pytest.raises(RequestTimeout, match=r"no reply on 'a' within 0\.1 s"):
            await nc.request("a", timeout=0.1)
        with pytest.raises(RequestTimeout, match=r"flush: no connection within 0\.1 s"):
            await nc.flush(timeout=0.1)

        assert time.monotonic() - started < 5


async def test_a_flush_that_the_connection_breaks_under_says_so() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await reader.readuntil(b"PING\r\n")
        writer.close()

    async with scripted(serve) as address, await connect(address, **QUICK) as nc:
        with pytest.raises(ConnectionClosed, match="was closed by the server"):
            await nc.flush()


async def test_servers_are_given_up_in_the_end(restartable: Restartable) -> None:
    reasons: list[Exception | None] = []
    options = QUICK | {"max_reconnects": 2}
    nc = await connect(restartable.url, closed_callback=reasons.append, **options)
    subscription = await nc.subscribe("a")
    await asyncio.to_thread(restartable.stop)

    with pytest.raises(ConnectionClosed, match="connection refused") as caught:
        await subscription.next(timeout=20)
    assert type(caught.value.__cause__) is ConnectFailed
    assert nc.is_closed
    assert [type(reason) for reason in reasons] == [ConnectFailed]
    with pytest.raises(ConnectionClosed):
        nc.publish("a")


async def test_refused_credentials_end_the_search_after_two_tries() -> None:
    tries = 0

    async def fickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await greet(reader, writer)
            await reader.readuntil(b"SUB a 1\r\n")
        else:
            writer.write(INFO)
            await reader.readuntil(b"PING\r\n")
            writer.write(b"-ERR 'Authorization Violation'\r\n")
        writer.close()

    errors: list[Exception] = []
    async with scripted(fickle) as address:
        nc = await connect(address, error_callback=errors.append, **QUICK)
        subscription = await nc.subscribe("a")
        with pytest.raises(ConnectionClosed) as caught:
            await subscription.next()

    assert isinstance(caught.value.__cause__, AuthorizationFailed)
    assert tries == 3
    assert [type(error) for error in errors] == [AuthorizationFailed]


async def test_a_first_connection_may_be_looked_for_in_the_background(
    tmp_path: Path, server_process: Callable[..., Any]
) -> None:
    port = unused_port()
    with pytest.raises(ConnectFailed):
        await connect(f"127.0.0.1:{port}", **QUICK)
    found = asyncio.Event()
    async with await connect(
        f"127.0.0.1:{port}",
        retry_on_failed_connect=True,
        reconnected_callback=lambda _: found.set(),
        **QUICK,
    ) as nc:
        subscription = await nc.subscribe("early")
        nc.publish("early", b"bird", headers={"a": "b"})
        assert (nc.is_connected, nc.connected_server) == (False, "")
        await asyncio.to_thread(server_process, "nats-server", tmp_path, port=str(port))

        assert (await subscription.next(timeout=20)).data == b"bird"
        assert found.is_set()


async def test_closing_ends_the_search(restartable: Restartable) -> None:
    reasons: list[Exception | None] = []
    nc = await connect(restartable.url, closed_callback=reasons.append, **QUICK)
    subscription = await nc.subscribe("a")
    await asyncio.to_thread(restartable.stop)
    await until(lambda: not nc.is_connected)
    flush = asyncio.ensure_future(nc.flush(timeout=60))
    await asyncio.sleep(0)
    await nc.close()

    assert reasons == [None]
    with pytest.raises(ConnectionClosed):
        await anext(subscription)
    with pytest.raises(ConnectionClosed):
        await asyncio.wait_for(flush, 60)
    assert [task for task in asyncio.all_tasks() if "reconnect" in task.get_name()] == []


async def test_the_other_server_is_taken_when_one_dies(
    tmp_path: Path, server_process: Callable[..., Any]
) -> None:
    first = server_process("nats-server", tmp_path / "1")
    second = server_process("jetspark", tmp_path / "2")
    async with await connect([first.url, second.url], **QUICK) as nc:
        assert nc.connected_server == first.address
        await asyncio.to_thread(first.kill)
        await until(lambda: nc.is_connected and nc.connected_server == second.address)

        assert nc.servers == [second.address, first.address]
        assert nc.server_info.jetspark is not None


async def test_a_server_that_throws_out_at_once_is_not_dialled_in_a_hurry() -> None:
    dials: list[float] = []

    async def bouncer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dials.append(time.monotonic())
        await greet(reader, writer)
        await asyncio.sleep(0.01)
        writer.close()

    options: Any = {"reconnect_wait": 0.05, "reconnect_wait_max": 0.2, "reconnect_jitter": 0.0}
    async with scripted(bouncer) as address, await connect(address, **options):
        await until(lambda: len(dials) == 5)

    assert dials[4] - dials[0] >= 0.05 + 0.1 + 0.2 + 0.2


async def test_discovered_servers_and_lame_duck_are_reported() -> None:
    discovered: list[tuple[str, ...]] = []
    ducks: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(b'INFO {"connect_urls":["10.9.8.7:4222"],"max_payload":9,"ldm":true}\r\n' * 2)
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reader.read()

    async def on_lame_duck(info: Any) -> None:
        await asyncio.sleep(0)
        ducks.append(str(info.ldm))

    async with (
        scripted(serve) as address,
        await connect(
            address, discovered_callback=discovered.append, lame_duck_callback=on_lame_duck
        ) as nc,
    ):
        await nc.flush()
        await asyncio.sleep(0)

        assert discovered == [("10.9.8.7:4222",)]
        assert nc.servers == [address, "10.9.8.7:4222"]
        assert ducks == ["True"]


async def test_a_failing_callback_harms_nothing(restartable: Restartable) -> None:
    def broken(_: object) -> None:
        raise LookupError("a bug in a callback")

    async with await connect(
        restartable.url, disconnected_callback=broken, reconnected_callback=broken, **QUICK
    ) as nc:
        await asyncio.to_thread(restartable.stop)
        await asyncio.to_thread(restartable.restart)

        await nc.flush(timeout=20)


async def test_a_drain_under_which_the_connection_breaks_ends(restartable: Restartable) -> None:
    nc = await connect(restartable.url, **QUICK)
    subscription = await nc.subscribe("a")
    nc.publish("a", b"x")
    await nc.flush()
    await asyncio.to_thread(restartable.stop)
    await until(lambda: not nc.is_connected)
    with pytest.raises(RequestTimeout):
        await subscription.drain(timeout=0.1)
    assert (await subscription.next()).data == b"x"
    with pytest.raises(RequestTimeout, match="closed"):
        await nc.drain(timeout=0.1)

    assert nc.is_closed


async def test_cancelling_loses_no_message(
    server_process: Callable[..., Any], tmp_path: Path
) -> None:
    """A cancelled wait must not swallow what arrived for it."""
    server = server_process("nats-server", tmp_path)
    received: list[bytes] = []
    async with await connect(server.url) as nc:
        subscription = await nc.subscribe("a")

        async def send(client: Client) -> None:
            for n in range(300):
                client.publish("a", b"%d" % n)
                await asyncio.sleep(0)

        sending = asyncio.ensure_future(send(nc))
        while len(received) < 300:
            waiting = asyncio.ensure_future(subscription.next(timeout=5))
            await asyncio.sleep(0)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                received.append((await waiting).data)
        await sending

    assert received == [b"%d" % n for n in range(300)]


async def test_a_subscription_is_drained_at_once_without_a_connection(
    restartable: Restartable,
) -> None:
    """Nothing can be in flight: what has arrived is all there will be."""
    nc = await connect(restartable.url, **QUICK)
    subscription = await nc.subscribe("a")
    await nc.flush()
    await asyncio.to_thread(restartable.stop)
    await until(lambda: not nc.is_connected)
    await asyncio.wait_for(subscription.drain(timeout=30), 2)

    assert subscription.is_closed
    await nc.close()
