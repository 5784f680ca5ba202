"""What a client says about its connection, and a connection that is given up on purpose."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import Connect
from tests.support.scripted import greet, scripted, unused_port
from tests.support.waiting import until

from jetspark import Client, ConnectionStatus, connect, sync
from jetspark.errors import ConnectionClosed, NotSupported, RequestTimeout

QUICK: Any = {
    "reconnect_wait": 0.01,
    "reconnect_wait_max": 0.05,
    "reconnect_jitter": 0.0,
    "max_reconnects": -1,
}


def seen_status(nc: Client) -> str:
    """It changes on its own, which a type checker does not expect of an attribute."""
    assert isinstance(nc.status, ConnectionStatus)
    return nc.status


@pytest.mark.parametrize("kind", ["nats-server", "jetspark"])
async def test_the_status_says_what_the_client_is_doing(
    kind: str, tmp_path: Path, server_process: Callable[..., Any]
) -> None:
    port = str(unused_port())
    nc = await connect(f"127.0.0.1:{port}", retry_on_failed_connect=True, **QUICK)
    assert seen_status(nc) == "connecting"
    assert "connection refused" in str(nc.last_error)

    running = server_process(kind, tmp_path, "-js", port=port)
    await until(lambda: nc.is_connected)
    assert seen_status(nc) == "connected"
    assert nc.max_payload == nc.server_info.max_payload == 1024 * 1024

    running.kill()
    await until(lambda: not nc.is_connected)
    assert seen_status(nc) == "reconnecting"
    assert isinstance(nc.last_error, ConnectionClosed)

    server_process(kind, tmp_path, "-js", port=port)
    await until(lambda: nc.status == "connected")

    seen: list[str] = []

    async def late(_message: object) -> None:
        await until(lambda: nc.status != "connected")
        seen.append(nc.status)

    await nc.subscribe("work", callback=late)
    nc.publish("work")
    await nc.flush()
    await nc.drain(timeout=60)
    assert seen == ["draining"]
    assert seen_status(nc) == "closed"
    assert repr(nc) == "Client(closed)"


async def test_a_forced_reconnect_keeps_subscriptions_and_goes_to_the_next_server(
    server_process: Callable[..., Any], tmp_path: Path
) -> None:
    first = server_process("jetspark", tmp_path / "a", "-js")
    second = server_process("nats-server", tmp_path / "b", "-js")
    async with connect([first.url, second.url], **QUICK) as nc:
        subscription = await nc.subscribe("greetings")
        before = nc.connected_server

        # Right after connecting: what is given up on purpose is not waited for.
        await nc.force_reconnect(timeout=60)

        assert nc.status == "connected"
        assert nc.connected_server != before
        assert nc.stats.reconnects == 1
        assert "force_reconnect() was called" in str(nc.last_error)
        nc.publish("greetings", b"hello")
        assert (await subscription.next(timeout=60)).data == b"hello"


async def test_a_forced_reconnect_ends_the_pause_before_the_next_try(
    tmp_path: Path, server_process: Callable[..., Any]
) -> None:
    port = str(unused_port())
    slow: Any = {**QUICK, "reconnect_wait": 3600.0, "reconnect_wait_max": 3600.0}
    async with connect(f"127.0.0.1:{port}", retry_on_failed_connect=True, **slow) as nc:
        with pytest.raises(RequestTimeout, match="keeps trying"):
            await nc.force_reconnect(timeout=0.05)
        server_process("jetspark", tmp_path, "-js", port=port)
        await nc.force_reconnect(timeout=60)
        assert nc.status == "connected"


async def test_a_forced_reconnect_is_refused_where_there_can_be_none(client: Connect) -> None:
    async with client(allow_reconnect=False) as nc:
        with pytest.raises(NotSupported, match="allow_reconnect=False"):
            await nc.force_reconnect()
        assert nc.is_connected
    with pytest.raises(ConnectionClosed):
        await nc.force_reconnect()


async def test_a_forced_reconnect_waits_no_longer_than_its_timeout() -> None:
    asked = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            await asyncio.Event().wait()
        await greet(reader, writer)
        await asyncio.Event().wait()

    async with scripted(once) as address, connect(address, **QUICK) as nc:
        with pytest.raises(RequestTimeout, match=r"force_reconnect: no connection within 0\.1 s"):
            await nc.force_reconnect(timeout=0.1)
        assert nc.status == "reconnecting"


def test_blocking_clients_have_status_and_forced_reconnects(server: Any) -> None:
    with sync.connect(server.url) as nc:
        assert nc.status == "connected"
        assert nc.last_error is None
        nc.force_reconnect(timeout=60)
        assert nc.is_connected
        assert nc.max_payload == 1024 * 1024
    assert nc.status == "closed"
