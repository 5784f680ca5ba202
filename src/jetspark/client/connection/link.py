"""The link to the servers: one connection at a time, replaced when it is lost.

States: closed -> connected <-> searching for a server -> closed permanently. Subscriptions and
requests belong to the owner and outlive connections, as do messages waiting to be written
(Outgoing).
"""

import asyncio
import random
from typing import Final, Protocol

from jetspark.client.callbacks.events import Events
from jetspark.client.connection.auth import connect_options, refusal
from jetspark.client.connection.connection import Connection
from jetspark.client.connection.outgoing import Outgoing
from jetspark.client.connection.server_errors import connect_failure
from jetspark.client.connection.server_pool import Backoff, ServerAddress, ServerPool
from jetspark.client.options import ClientOptions
from jetspark.client.receive import Receiver
from jetspark.clock import SystemClock
from jetspark.errors import (
    AuthorizationFailed,
    ConnectFailed,
    ConnectionClosed,
    Error,
    InvalidState,
    NotSupported,
)
from jetspark.protocol.encoder import encode_connect
from jetspark.protocol.handshake import ServerInfo
from jetspark.protocol.limits import PAYLOAD_MAX

# A shorter connection was accepted and then rejected: wait before the next attempt.
SHORT_LIFE: Final = 1.0
RANDOM: Final = random.SystemRandom()


class LinkOwner(Protocol):
    """The user of a link."""

    def resume_frames(self) -> list[bytes]:
        """SUB and UNSUB of every subscription: the first frames of a new connection."""

    def on_info(self, info: ServerInfo) -> None:
        """A server sent INFO."""

    def on_server_error(self, text: str) -> None:
        """The server sent ``-ERR`` and keeps the connection."""

    def on_up(self, *, again: bool) -> None:
        """A connection was established; ``again`` if there was one before or an attempt failed."""

    def on_down(self) -> None:
        """The connection was lost and is being replaced."""

    def on_closed(self, error: Exception) -> None:
        """The connection is lost permanently."""


class Link:
    """Dials, monitors and replaces the connection of one client."""

    def __init__(
        self, options: ClientOptions, receiver: Receiver, owner: LinkOwner, events: Events
    ) -> None:
        self._options = options
        self._receiver = receiver
        self._owner = owner
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._pool = ServerPool(
            options.servers,
            max_reconnects=options.max_reconnects,
            shuffle=RANDOM.shuffle if options.randomize else None,
        )
        self._connection: Connection | None = None
        self._dialling: Connection | None = None
        self._closed: Exception | None = None  # why there will be no further connection
        self._search: asyncio.Task[None] | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._lame_duck = False
        self._was_up = False
        # The connection that force_reconnect dropped: replaced without a pause.
        self._given_up: Connection | None = None
        self._backoff = self._new_backoff()
        self.reconnects: int = 0
        self.outgoing: Final = Outgoing(
            self._loop, options.write_buffer_bytes, options.reconnect_buffer_bytes
        )
        # Assumed for a server that was never reached (retry_on_failed_connect).
        self.info: ServerInfo = ServerInfo(headers=True, max_payload=PAYLOAD_MAX)

    @property
    def connection(self) -> Connection | None:
        """The connection, or None."""
        return self._connection

    @property
    def was_up(self) -> bool:
        """Whether a server was ever reached."""
        return self._was_up

    @property
    def pool(self) -> ServerPool:
        """The servers that may be tried."""
        return self._pool

    def check_loop(self) -> None:
        """Refuse use on another event loop: callers there would never be woken."""
        if asyncio.get_running_loop() is not self._loop:
            raise InvalidState(
                "this client belongs to another event loop: use it on the loop that connected it "
                "(only publish may be called from other threads), or use jetspark.sync"
            )

    async def open(self) -> None:
        """Connect to the first server of the pool that accepts.

        Raises ConnectFailed if none does, or keeps trying in the background with
        ``retry_on_failed_connect``.
        """
        if await self._try_round():
            self._owner.on_up(again=False)
            return
        failure = connect_failure(self._pool)
        if not self._options.retry_on_failed_connect:
            raise failure
        self._events.disconnected(failure)
        self._start_search(wait_first=True)

    async def ping(self) -> None:
        """Wait for a connection, then for the PONG of a PING on it."""
        connection = await self._other_connection(None)
        await connection.ping()

    async def force_reconnect(self) -> None:
        """Drop the connection, or the pause before the next attempt, and wait for a new one."""
        if not self._options.allow_reconnect:
            raise NotSupported(
                "force_reconnect: this client was connected with allow_reconnect=False"
            )
        if self._closed is not None:
            raise ConnectionClosed(str(self._closed))
        old = self._connection
        if old is not None:
            self._given_up = old
            old.give_up(ConnectionClosed("force_reconnect() was called"))
        elif self._search is not None and self._dialling is None:
            self._search.cancel()
            self._start_search(wait_first=False)
        await self._other_connection(old)

    async def _other_connection(self, old: Connection | None) -> Connection:
        """Wait for a connection that is not ``old``."""
        while self._connection is None or self._connection is old:
            if self._closed is not None:
                raise ConnectionClosed(str(self._closed))  # the owner reports the cause
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return self._connection

    async def close(self) -> None:
        """Write what is queued and close."""
        connection = self._end(ConnectionClosed("the client was closed"))
        if connection is not None:
            await connection.close()

    # Callbacks of the connection.

    def connect_line(self, info: ServerInfo, address: ServerAddress) -> bytes:
        """The CONNECT line that answers ``info``."""
        return encode_connect(connect_options(self._options, info, address))

    def on_info(self, info: ServerInfo) -> None:
        """Process a first or later INFO: limits, cluster members, lame duck."""
        self.info = info
        self._owner.on_info(info)
        connection = self._connection or self._dialling
        if connection is not None and info.connect_urls and not self._options.ignore_discovered:
            new = self._pool.discover(info.connect_urls, connection.address, RANDOM.shuffle)
            if new:
                self._events.discovered(new)
        if info.ldm and not self._lame_duck:
            self._events.lame_duck(info)
        self._lame_duck = info.ldm

    def on_server_error(self, text: str) -> None:
        """Pass on an ``-ERR`` that leaves the connection open."""
        self._owner.on_server_error(text)

    def on_lost(self, connection: Connection, error: Exception) -> None:
        """The connection was lost: find another server, or close permanently."""
        if connection is not self._connection:
            return
        self._connection = None
        self.outgoing.detach()
        if not self._options.allow_reconnect:
            self._events.disconnected(error)
            self._give_up(error)
            return
        address = connection.address
        self._pool.lost(address)
        if isinstance(error.__cause__, AuthorizationFailed):
            # Expired or revoked: counts as a refusal, so that it is not retried forever.
            self._pool.refused(address, error.__cause__)
        self._owner.on_down()
        self._events.disconnected(error)
        if self._closed is None:
            short = self._loop.time() - connection.ready_at < SHORT_LIFE
            if connection is self._given_up:
                short, self._given_up = False, None
            if not short:
                self._backoff = self._new_backoff()
            self._start_search(wait_first=short)

    # Searching for a server.

    def _start_search(self, *, wait_first: bool) -> None:
        self._search = self._loop.create_task(
            self._find_server(wait_first=wait_first), name="jetspark reconnect"
        )

    def _new_backoff(self) -> Backoff:
        options = self._options
        return Backoff(
            options.reconnect_wait,
            options.reconnect_wait_max,
            options.reconnect_jitter,
            RANDOM.uniform,
        )

    async def _find_server(self, *, wait_first: bool) -> None:
        try:
            if wait_first:
                await asyncio.sleep(self._backoff.next())
            while not await self._try_round():
                failure = connect_failure(self._pool)
                if not self._pool.drop_hopeless():
                    self._give_up(failure)
                    return
                if isinstance(failure, AuthorizationFailed):
                    self._events.error(failure)
                await asyncio.sleep(self._backoff.next())
        except Exception as error:  # noqa: BLE001 - a dead search would go unnoticed
            failure = ConnectFailed(f"the search for a server failed: {error!r}")
            failure.__cause__ = error
            self._give_up(failure)
            return
        self.reconnects += 1
        self._owner.on_up(again=True)
        if self._connection is not None:
            self._events.reconnected(self.info, self._connection.address.label)

    async def _try_round(self) -> bool:
        """Try every server of the pool once; True if one accepted."""
        for address in self._pool.candidates():
            connection = Connection(address, self._options, self._receiver, self)
            self._dialling = connection
            try:
                info = await connection.open()
            except AuthorizationFailed as error:
                now = SystemClock().now_ns()
                self._pool.refused(address, refusal(error, self._options, address, now))
                continue
            except Error as error:
                self._pool.refused(address, error)
                continue
            finally:
                self._dialling = None
            # Nothing is awaited from here on: the connection cannot be lost while half attached.
            self._search = None
            self._connection = connection
            self._was_up = True
            self._pool.connected(address)
            self.on_info(info)
            connection.attach(self.outgoing, self._owner.resume_frames())
            self._wake()
            return True
        return False

    # Ending.

    def _give_up(self, error: Exception) -> None:
        self._search = None
        self._end(error)
        self._owner.on_closed(error)

    def _end(self, reason: Exception) -> Connection | None:
        self._closed = reason
        if self._search is not None:
            self._search.cancel()
            self._search = None
        connection, self._connection = self._connection, None
        self.outgoing.write()
        self.outgoing.detach()
        self.outgoing.clear()
        self._wake()
        return connection

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
