"""Servers that misbehave as a test tells them to."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

INFO = b'INFO {"server_id":"x","version":"2.15.1","headers":true,"max_payload":1048576}\r\n'

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[str]:
    """A server on loopback that does what ``script`` says with every connection."""
    open_writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await script(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in open_writers:
            writer.close()
        server.close()
        await server.wait_closed()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Shake hands as a server does; returns the CONNECT line."""
    writer.write(INFO)
    line = await reader.readuntil(b"\r\n")
    await reader.readuntil(b"PING\r\n")
    writer.write(b"PONG\r\n")
    return line


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
