"""Opening, keeping and losing a connection, against servers that misbehave on request."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from tests.support.scripted import INFO, greet, scripted, unused_port

from jetspark import connect
from jetspark.errors import (
    AuthorizationFailed,
    BufferFull,
    ConnectFailed,
    ConnectionClosed,
    ProtocolViolation,
)


class RunningServer(Protocol):
    """What conftest.py starts."""

    url: str

    def kill(self) -> None:
        """End it, whatever it is doing."""


async def test_servers_are_tried_in_order(own_server: RunningServer) -> None:
    asked: list[str] = []

    def refusing(name: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(name)
            writer.close()

        return refuse

    async with (
        scripted(refusing("first")) as first,
        scripted(refusing("second")) as second,
        await connect([first, second, own_server.url]) as nc,
    ):
        await nc.flush()
        assert nc.connected_server in own_server.url

    assert asked == ["first", "second"]


async def test_when_none_accepts_the_error_says_what_each_said() -> None:
    async def closes(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with scripted(closes) as closing:
        refusing = f"127.0.0.1:{unused_port()}"
        with pytest.raises(ConnectFailed) as caught:
            await connect(f"{refusing},{closing}")

    text = str(caught.value)
    assert f"{refusing}: " in text
    assert "refused" in text.lower()
    assert f"{closing}: the connection to {closing} was closed by the server" in text


async def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with scripted(silent) as address:
        with pytest.raises(ConnectFailed, match=r"connect_timeout=0\.05 s: no INFO received"):
            await connect(address, connect_timeout=0.05)


async def test_a_server_that_only_greets_is_given_up_in_time() -> None:
    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        await reader.read()

    async with scripted(greets) as address:
        with pytest.raises(ConnectFailed, match="INFO received, but no PONG"):
            await connect(address, connect_timeout=1)


async def test_something_that_is_no_nats_server_is_recognised() -> None:
    async def http(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with scripted(http) as address:
        with pytest.raises(ConnectFailed, match="violated the NATS protocol"):
            await connect(address)


async def test_a_broken_greeting_is_named() -> None:
    async def broken(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO {oops}\r\n")

    async with scripted(broken) as address:
        with pytest.raises(ConnectFailed, match="INFO"):
            await connect(address)


async def test_refused_credentials_are_a_failure_of_their_own() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        await reader.readuntil(b"PING\r\n")
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        writer.close()

    async with scripted(refuse) as address:
        with pytest.raises(AuthorizationFailed, match="check user, password or token"):
            await connect(address, user="ann", password="wrong")


async def test_credentials_of_the_url_win_over_the_arguments() -> None:
    lines: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await greet(reader, writer))
        await reader.read()

    async with scripted(listen) as address:
        for url in (f"nats://bob:secret@{address}", f"nats://{address}", f"nats://t0k@{address}"):
            async with await connect(url, user="ann", password="pass"):
                pass

    assert b'"user":"bob","pass":"secret"' in lines[0]
    assert b'"user":"ann","pass":"pass"' in lines[1]
    assert b'"auth_token":"t0k"' in lines[2]
    assert b"ann" not in lines[2]


async def test_a_ping_of_the_server_is_answered() -> None:
    answered = asyncio.Event()

    async def ping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(b"PING\r\n")
        assert await reader.readuntil(b"\r\n") == b"PONG\r\n"
        answered.set()
        await reader.read()

    async with scripted(ping) as address, await connect(address):
        await asyncio.wait_for(answered.wait(), 5)


async def test_a_server_that_does_not_answer_pings_is_given_up() -> None:
    """Keep-alive: after ``pings_outstanding_max`` unanswered PINGs the connection is stale."""
    reasons: list[Exception | None] = []

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await reader.read()

    async with scripted(deaf) as address:
        nc = await connect(
            address, ping_interval=0.01, closed_callback=reasons.append, allow_reconnect=False
        )
        subscription = await nc.subscribe("a")
        with pytest.raises(ConnectionClosed, match=r"did not answer 2 PINGs sent every 0\.01 s"):
            await subscription.next()

    assert nc.is_closed
    assert len(reasons) == 1


async def test_everything_pending_fails_at_once_when_the_server_dies(
    own_server: RunningServer, name: str
) -> None:
    reasons: list[Exception | None] = []
    lost: list[Exception] = []
    nc = await connect(
        own_server.url,
        closed_callback=reasons.append,
        disconnected_callback=lost.append,
        allow_reconnect=False,
    )
    subscription = await nc.subscribe(name)
    await nc.subscribe(f"{name}.silent")
    nc.publish(name, b"last words")
    await nc.flush()
    request = asyncio.ensure_future(nc.request(f"{name}.silent", timeout=60))
    many = asyncio.ensure_future(anext(nc.request_many(f"{name}.silent", timeout=60)))
    await nc.flush()
    own_server.kill()

    assert (await subscription.next()).data == b"last words"
    for pending in (request, many, anext(subscription)):
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(pending, 5)
    with pytest.raises(ConnectionClosed):
        nc.publish(name)
    with pytest.raises(ConnectionClosed):
        await nc.flush()
    assert [type(reason) for reason in reasons] == [ConnectionClosed]
    assert reasons == lost
    await nc.close()


async def test_a_protocol_violation_later_on_closes_with_the_reason() -> None:
    async def garble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await reader.readuntil(b"SUB a 1\r\n")
        writer.write(b"GARBAGE\r\n")
        await reader.read()

    async with scripted(garble) as address:
        nc = await connect(address, allow_reconnect=False)
        subscription = await nc.subscribe("a")
        with pytest.raises(ConnectionClosed, match="violated the NATS protocol") as caught:
            await subscription.next()

    assert isinstance(caught.value.__cause__, ProtocolViolation)


async def test_a_server_that_accepts_and_throws_out_at_once_is_no_server() -> None:
    async def fickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(b"-ERR 'maximum connections exceeded'\r\n")
        writer.close()

    async with scripted(fickle) as address:
        with pytest.raises(ConnectFailed, match="maximum connections exceeded"):
            await connect(address)


async def test_the_reason_of_a_closing_error_line_is_passed_on() -> None:
    async def evict(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await reader.readuntil(b"SUB a 1\r\n")
        writer.write(b"-ERR 'Slow Consumer'\r\n")
        writer.close()

    async with scripted(evict) as address:
        nc = await connect(address, allow_reconnect=False)
        subscription = await nc.subscribe("a")
        with pytest.raises(ConnectionClosed, match="Slow Consumer"):
            await subscription.next()


async def test_publishing_faster_than_the_server_reads_raises_and_recovers() -> None:
    """Publish buffers, and raises when the buffer is full."""
    read_on = asyncio.Event()

    async def lazy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await read_on.wait()
        while not (await reader.read(1 << 20)).endswith(b"PING\r\n"):
            pass
        writer.write(b"PONG\r\n")
        await reader.read()

    async with scripted(lazy) as address:
        nc = await connect(address, write_buffer_bytes=4 << 20)

        def flood() -> None:
            for _ in range(1000):
                nc.publish("a", bytes(1 << 16))

        with pytest.raises(BufferFull, match=r"await flush\(\) now and then"):
            flood()
        assert nc.stats.write_pending_bytes >= 3 << 20
        read_on.set()
        await nc.flush()

        assert nc.stats.write_pending_bytes == 0
        nc.publish("a")
        await nc.close()


async def test_a_later_info_is_taken_over() -> None:
    async def update(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        writer.write(b'INFO {"max_payload":10,"headers":true,"ldm":true}\r\n')
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reader.read()

    async with scripted(update) as address, await connect(address) as nc:
        await nc.flush()

        assert (nc.server_info.ldm, nc.server_info.max_payload) == (True, 10)
        with pytest.raises(ValueError, match="max_payload is 10"):
            nc.publish("a", b"eleven bytes")


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "xn--\u00fc..example"])
async def test_a_host_name_that_cannot_exist_is_refused(host: str) -> None:
    with pytest.raises(ConnectFailed, match="the host name cannot be resolved"):
        await connect(f"nats://{host}:4222")


async def test_nothing_is_taken_that_came_between_info_and_tls() -> None:
    """An attacker may write into the connection there, before TLS vouches for the server."""
    connections = 0

    async def injected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await greet(reader, writer)
            await reader.readuntil(b"SUB a 1\r\n")
            writer.close()
            return
        writer.write(INFO.replace(b"{", b'{"tls_required":true,') + b"MSG a 1 2\r\nhi\r\n")
        await reader.read()

    errors: list[Exception | None] = []
    closed = asyncio.Event()

    def on_closed(error: Exception | None) -> None:
        errors.append(error)
        closed.set()

    async with scripted(injected) as address:
        nc = await connect(
            address, max_reconnects=0, reconnect_wait=0.01, closed_callback=on_closed
        )
        subscription = await nc.subscribe("a")
        await asyncio.wait_for(closed.wait(), 10)

    assert subscription.delivered == 0
    assert "between INFO and TLS" in str(errors[0])


@pytest.mark.parametrize("size", [2**63, 2**64, -1])
async def test_a_limit_beyond_all_sizes_breaks_nothing(size: int) -> None:
    async def boasting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO.replace(b"1048576", b"%d" % size))
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await reader.readuntil(b"SUB a 1\r\n")
        writer.write(b"MSG a 1 2\r\nhi\r\n")
        await reader.read()

    async with scripted(boasting) as address, await connect(address) as nc:
        subscription = await nc.subscribe("a")

        assert (await subscription.next()).data == b"hi"
