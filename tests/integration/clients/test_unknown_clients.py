"""While a password is checked nothing is carried out, however much the client sent meanwhile.

A client that sends more than one turn of the loop takes continues in later turns. That must not be
taken for having been let in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import bcrypt
import pytest
from tests.support.raw_client import Raw

import jetspark

# Four full reads: on any machine more than one turn takes.
MESSAGES: Final = 60_000
VIOLATION: Final = b"-ERR 'Authorization Violation'\r\n"
PUBLISHES: Final = b"".join(b"PUB box.%d 0\r\n\r\n" % n for n in range(MESSAGES))
SUBSCRIBES: Final = b"".join(b"SUB box.> %d\r\n" % n for n in range(MESSAGES))


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[tuple[jetspark.Server, jetspark.Client]]:
    """A server, and a client of it that may do everything."""
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(10)).decode()
    users = f'{{ user: ann, password: "{hashed}" }}, {{ user: bob, password: plain }}'
    config = tmp_path / "server.conf"
    config.write_text(f"authorization {{ users: [ {users} ] }}\n")
    async with jetspark.Server(config=str(config), port=-1, jetstream=False) as server:
        url = server.client_url.replace("nats://", "nats://bob:plain@")
        async with await jetspark.connect(url) as client:
            yield server, client


def connect(user: str, password: str) -> bytes:
    return b'CONNECT {"verbose":false,"user":"%b","pass":"%b"}\r\n' % (
        user.encode(),
        password.encode(),
    )


async def sent(server: jetspark.Server, *parts: bytes) -> bytes:
    """What a client receives until its connection ends, or the server answered its last PING."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    writer.write(b"".join(parts) + b"PING\r\n")
    heard = b""
    while not heard.endswith(b"PONG\r\n"):
        try:
            some = await reader.read(1 << 20)
        except ConnectionResetError:
            some = b""  # the server closed and had not read everything
        if not some:
            break
        heard += some
    writer.close()
    return heard


@pytest.mark.parametrize("first", [b"", connect("bob", "plain")], ids=["at once", "as another"])
async def test_nothing_is_published_for_a_client_with_a_wrong_password(
    tmp_path: Path, first: bytes
) -> None:
    async with served(tmp_path) as (server, client):
        inbox = await client.subscribe("box.>")
        await client.flush()
        heard = await sent(server, first, connect("ann", "wrong"), PUBLISHES)
        client.publish("box.end", b"the only one")
        assert (await inbox.next(timeout=10)).subject == "box.end"
    assert not heard.removeprefix(VIOLATION)


async def test_a_client_with_a_wrong_password_receives_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client):
        listening = asyncio.create_task(sent(server, connect("ann", "wrong"), SUBSCRIBES))
        while not listening.done():
            client.publish("box.secret", b"secret")
            await client.flush()
    assert not (await listening).removeprefix(VIOLATION)


async def test_everything_is_published_in_order_after_a_right_password(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (server, client):
        inbox = await client.subscribe("box.>", pending_msgs=2 * MESSAGES)
        await client.flush()
        heard = await sent(server, connect("ann", "right"), PUBLISHES)
        # On a slow machine the server asks whether the client is still there.
        assert heard.replace(b"PING\r\n", b"") == b"PONG\r\n"
        for number in range(MESSAGES):
            assert (await inbox.next(timeout=10)).subject == f"box.{number}"


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b'CONNECT {"verbose":false,"headers":false,"user":"bob","pass":"plain"}\r\n',
        connect("bob", "plain") + b"".join(b"SUB other.%d %d\r\n" % (n, n) for n in range(3000)),
    ],
    ids=["at once", "without headers before", "with many subscriptions before"],
)
@pytest.mark.parametrize("user", [("ann", "right"), ("bob", "plain")])
async def test_headers_may_follow_the_connect_that_asks_for_them_at_once(
    tmp_path: Path, before: bytes, user: tuple[str, str]
) -> None:
    async with served(tmp_path) as (server, client):
        inbox = await client.subscribe("box.>")
        await client.flush()
        asks = connect(*user).replace(b"{", b'{"headers":true,')
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        heard = await sent(
            server,
            before,
            asks,
            b"HPUB box.1 %d %d\r\n%bx\r\n" % (len(block), len(block) + 1, block),
        )
        assert heard.endswith(b"PONG\r\n")
        message = await inbox.next(timeout=60)
        assert (message.data, message.header_block) == (b"x", block)


async def test_headers_may_not_follow_a_connect_that_asks_for_none(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client):
        inbox = await client.subscribe("box.>")
        await client.flush()
        with_headers = connect("bob", "plain").replace(b"{", b'{"headers":true,')
        without = connect("ann", "right").replace(b"{", b'{"headers":false,')
        heard = await sent(
            server, with_headers, without, b"HPUB box.1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
        )
        client.publish("box.end", b"the only one")
        assert (await inbox.next(timeout=60)).subject == "box.end"
    assert not heard


@pytest.mark.parametrize(("password", "heard"), [("a", b"PONG\r\n"), ("b", VIOLATION)])
async def test_a_client_that_logs_in_while_very_many_messages_wait_is_checked_later(
    tmp_path: Path, password: str, heard: bytes
) -> None:
    """What it sends with its CONNECT was taken for an operation without one."""
    config = tmp_path / "server.conf"
    config.write_text(
        'listen: "127.0.0.1:-1"\nauthorization { users: [{ user: ann, password: a }] }\n'
    )
    async with jetspark.Server(config=config) as server:
        raw = await Raw.open(server.port)
        (connection,) = server._inner.connections
        connection.client.pause()
        assert await raw.say(connect("ann", password)) == heard
        raw.close()
