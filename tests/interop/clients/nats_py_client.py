"""nats-py with its callbacks turned into things that a test can wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.client import Client
from nats.aio.subscription import Subscription

# Nothing takes this long unless something is broken.
PATIENCE_S = 20
# The next attempt to connect comes this soon.
RETRY_S = 0.01


class Watch:
    """What nats-py reports about one connection."""

    def __init__(self) -> None:
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()
        self.disconnected = asyncio.Event()
        self.reconnected = asyncio.Event()
        self.closed = asyncio.Event()
        self.lame_duck = asyncio.Event()

    async def error(self) -> Exception:
        """Wait for the next error."""
        error: Exception = await patiently(self.errors.get())
        return error

    async def on_error(self, error: Exception) -> None:
        self.errors.put_nowait(error)

    async def on_disconnected(self) -> None:
        self.disconnected.set()

    async def on_reconnected(self) -> None:
        self.reconnected.set()

    async def on_closed(self) -> None:
        self.closed.set()

    async def on_lame_duck(self) -> None:
        self.lame_duck.set()


async def patiently(waiting: Any) -> Any:
    """Wait for something that comes soon."""
    async with asyncio.timeout(PATIENCE_S):
        return await waiting


@asynccontextmanager
async def connected(
    servers: str | list[str], watch: Watch | None = None, **options: Any
) -> AsyncIterator[Client]:
    """Connect once, or raise what nats-py raises; closed at the end.

    ``allow_reconnect`` has to be asked for: without it a refusal is raised at once.
    """
    watch = watch or Watch()
    client = Client()
    callbacks = {
        "error_cb": watch.on_error,
        "disconnected_cb": watch.on_disconnected,
        "reconnected_cb": watch.on_reconnected,
        "closed_cb": watch.on_closed,
        "lame_duck_mode_cb": watch.on_lame_duck,
    }
    patience = {
        "allow_reconnect": False,
        "connect_timeout": PATIENCE_S,
        "reconnect_time_wait": RETRY_S,
        "max_reconnect_attempts": -1 if options.get("allow_reconnect") else 1,
    }
    try:
        await client.connect(servers, **callbacks | patience | options)
    except BaseException:
        abandon(client)
        raise
    try:
        yield client
    finally:
        await client.close()


def abandon(client: Client) -> None:
    """Release the socket; after a failed TLS handshake ``close`` would wait forever."""
    transport: Any = client._transport
    if transport:
        transport._io_writer.transport.abort()


async def settle(*clients: Client) -> None:
    """Wait until the server has acted on what was sent, and its messages are here.

    nats-py writes PING in front of what it has pending; only a second one comes after it.
    """
    for _ in range(2):
        await asyncio.gather(*(client.flush() for client in clients))


async def texts(subscription: Subscription, count: int) -> list[str]:
    """The next messages, as ``subject=payload``."""
    messages = [await subscription.next_msg(PATIENCE_S) for _ in range(count)]
    return [f"{message.subject}={message.data.decode()}" for message in messages]
