"""TLS handshakes as they happen in the field, on both event loops that servers run on."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.support.certificates import Certificates

import jetspark

Configure = Callable[[str], Path]
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
PATIENCE_S = 10
HANDSHAKE_RECORD = 22  # RFC 8446 5.1
AT_ONCE = struct.pack("ii", 1, 0)


@pytest.fixture(params=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine on one of the loops."""

    def on_loop(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(work)

    return on_loop


@asynccontextmanager
async def serving(config: Path) -> AsyncIterator[jetspark.Server]:
    """A server that has to stop in time as well."""
    server = jetspark.Server(config=config)
    await server.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield server
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await server.close()


def opened(server: jetspark.Server) -> socket.socket:
    """A connection: the kernel takes it before the server looks."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)


def read_info(client: socket.socket) -> bytes:
    """INFO, and nothing after it."""
    line = b""
    while not line.endswith(b"\r\n"):
        line += client.recv(1)
    return line


@pytest.mark.parametrize("setting", ["true", "auto"])
def test_a_client_hello_that_arrives_early_is_processed(
    run: Callable[..., Any], configure: Configure, certificates: Certificates, setting: str
) -> None:
    """A busy server accepts late; what came meanwhile belongs to the handshake."""
    outgoing = ssl.MemoryBIO()
    hello = certificates.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        hello.do_handshake()

    async def early() -> bytes:
        config = configure(certificates.tls_block(f"handshake_first: {setting}"))
        async with serving(config) as server:
            with closing(opened(server)) as client:
                client.sendall(outgoing.read())
                return await asyncio.to_thread(client.recv, 1)

    assert run(early()) == bytes([HANDSHAKE_RECORD])


@pytest.mark.parametrize("first", [False, True], ids=["behind INFO", "first"])
def test_a_server_stops_while_a_handshake_has_not_started(
    run: Callable[..., Any], configure: Configure, certificates: Certificates, first: bool
) -> None:
    async def stop() -> bytes:
        lines = ("handshake_first: true",) if first else ()
        async with serving(configure(certificates.tls_block(*lines))) as server:
            client = opened(server)
            if first:
                # Another client's answer proves that the server has seen the first one.
                with closing(opened(server)) as second:
                    second.sendall(b"not TLS at all\r\n")
                    await asyncio.to_thread(read_to_end, second)
            else:
                await asyncio.to_thread(read_info, client)
        with closing(client):
            return read_to_end(client)

    assert run(stop()) == b""


def read_to_end(client: socket.socket) -> bytes:
    got = b""
    with suppress(ConnectionResetError):
        while data := client.recv(4096):
            got += data
    return got


def test_a_client_that_breaks_off_is_forgotten(
    run: Callable[..., Any], configure: Configure, certificates: Certificates
) -> None:
    """With room for one connection, the next one is served only when the first is closed."""

    def is_served(client: socket.socket) -> bool:
        read_info(client)
        try:
            certificates.context().wrap_socket(client, server_hostname="localhost").close()
        except OSError:
            return False
        return True

    async def replace() -> None:
        block = f"max_connections: 1\n{certificates.tls_block()}"
        async with serving(configure(block)) as server:
            first = opened(server)
            await asyncio.to_thread(read_info, first)
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            first.close()
            served = False
            while not served:
                with closing(opened(server)) as second:
                    served = await asyncio.to_thread(is_served, second)

    run(replace())


def test_a_client_without_a_certificate_gets_the_reason(
    run: Callable[..., Any], configure: Configure, certificates: Certificates
) -> None:
    """In TLS 1.2 the alert comes within the handshake."""
    context = certificates.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def shake_hands(client: socket.socket) -> None:
        read_info(client)
        context.wrap_socket(client, server_hostname="localhost").close()

    async def refuse() -> None:
        config = configure(certificates.verifying_block())
        async with serving(config) as server:
            with closing(opened(server)) as client:
                await asyncio.to_thread(shake_hands, client)

    with pytest.raises(ssl.SSLError, match="alert"):
        run(refuse())
