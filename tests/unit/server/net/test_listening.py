"""Connections that come while a server ends."""

import asyncio
import socket

import pytest

import jetspark
from jetspark.server.net.listening import Acceptor, open_listener

SECONDS = 20


async def at_end(client: socket.socket) -> bool:
    """Whether the other side has closed a connection; it may have said something before."""
    loop = asyncio.get_running_loop()
    client.setblocking(False)
    async with asyncio.timeout(SECONDS):
        try:
            while await loop.sock_recv(client, 4096):
                pass
        except ConnectionError:
            pass
    return True


@pytest.mark.parametrize("passes", range(5))
async def test_a_client_that_connects_as_the_server_ends_is_closed_too(passes: int) -> None:
    """However far it came: in the backlog, accepted, or served."""
    server = jetspark.Server()
    await server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        for _ in range(passes):
            await asyncio.sleep(0)
        await server.close()

        assert await at_end(client)
    assert not server._inner.connections


@pytest.mark.parametrize("passes", range(5))
async def test_nothing_is_served_after_an_acceptor_was_closed(passes: int) -> None:
    made = 0

    class Counted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            nonlocal made
            made += 1
            transport.close()

    acceptor = Acceptor(open_listener("127.0.0.1", 0, 10), Counted, "clients")
    with socket.create_connection(("127.0.0.1", acceptor.port)) as client:
        for _ in range(passes):
            await asyncio.sleep(0)
        acceptor.close()
        await acceptor.wait_closed()
        served = made

        assert await at_end(client)
    assert made == served
