"""The asyncio driver of one connection: dial, handshake, keepalive, read and write by chunk.

A connection is used once: opened, then lost or closed, then discarded. What survives it
(subscriptions, requests, messages waiting to be written) belongs to the client.

States: dialling -> waiting for INFO -> (TLS) -> waiting for the first PONG -> ready -> attached
to the client's output -> closed.
"""

import asyncio
import ssl
from collections import deque
from typing import Final, Protocol, cast

from jetspark.client import receive
from jetspark.client.connection.outgoing import Outgoing, WriteTransport
from jetspark.client.connection.server_errors import dial_problem, error_of_line, is_survivable
from jetspark.client.connection.server_pool import ServerAddress
from jetspark.client.connection.tls import tls_context
from jetspark.client.connection.websocket import WebSocketFraming
from jetspark.client.options import ClientOptions
from jetspark.client.receive import Receiver
from jetspark.errors import ConnectFailed, ConnectionClosed, Error, MissingExtra, ProtocolViolation
from jetspark.protocol.client_parser import ClientParser
from jetspark.protocol.encoder import PING, PONG
from jetspark.protocol.handshake import ServerInfo, decode_info
from jetspark.protocol.limits import (
    CLIENT_CONTROL_LINE_MAX,
    CLIENT_PAYLOAD_ROOM,
    PENDING_MAX,
)

READ_BUFFER_SIZE: Final = 256 * 1024  # no clear gain above, slower from 1 MiB
WRITE_HIGH_WATER: Final = 1024 * 1024  # the transport asks us to pause above this
ANNOUNCED_MAX: Final = 2**62  # a max_payload above this would overflow the parser's counters
CLOSE_TIMEOUT: Final = 2.0  # seconds for sending the last bytes before the socket is aborted


class ConnectionOwner(Protocol):
    """Handles what the connection itself does not."""

    def on_info(self, info: ServerInfo) -> None:
        """The server sent a later INFO (new cluster members, lame duck)."""

    def on_server_error(self, text: str) -> None:
        """The server sent ``-ERR`` and keeps the connection."""

    def on_lost(self, connection: "Connection", error: Exception) -> None:
        """The connection was lost without being closed by us."""

    def connect_line(self, info: ServerInfo, address: ServerAddress) -> bytes:
        """The CONNECT line that answers ``info``."""


class Connection(asyncio.BufferedProtocol):
    """One connection to a server: TCP, TLS or WebSocket."""

    def __init__(
        self,
        address: ServerAddress,
        options: ClientOptions,
        receiver: Receiver,
        owner: ConnectionOwner,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._address = address
        self._options = options
        self._receiver = receiver
        self._owner = owner
        self._parser = ClientParser(receiver, CLIENT_CONTROL_LINE_MAX, PENDING_MAX)
        self._buffer = memoryview(bytearray(READ_BUFFER_SIZE))
        self._transport: asyncio.Transport | None = None
        self._framing: WebSocketFraming | None = None
        self._info = ServerInfo()
        # Bytes received after INFO, until it is known whether TLS starts there; None from then on.
        self._after_info: bytes | None = b""
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._error: Exception | None = None
        self._ready = False
        self._ready_at = 0.0
        self._closing = False
        self._outgoing: Outgoing | None = None
        # One entry per PING in flight; None for a keepalive that no caller waits for.
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._keepalives_unanswered = 0
        self._keepalive_timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> ServerAddress:
        """The server this connection was opened to."""
        return self._address

    @property
    def ready_at(self) -> float:
        """Loop time of the first PONG; 0.0 before it."""
        return self._ready_at

    # Opening and closing.

    async def open(self) -> ServerInfo:
        """Dial and perform the handshake; on failure close the socket and raise the reason."""
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                return await self._shake_hands()
        except TimeoutError as error:
            self._cut()
            raise ConnectFailed(
                f"no answer within connect_timeout={self._options.connect_timeout} s: "
                f"{self._missing()}"
            ) from error
        except OSError as error:
            self._cut()
            raise ConnectFailed(dial_problem(error)) from error
        except UnicodeError as error:
            self._cut()
            raise ConnectFailed(f"the host name cannot be resolved: {error}") from error
        except BaseException:
            self._cut()
            raise

    def _missing(self) -> str:
        """What a handshake that timed out was waiting for."""
        if self._transport is None:
            return "the connection was not accepted"
        if self._greeted.cancelled():  # with the wait for it
            return (
                "no INFO received; is it a NATS server? If it has handshake_first, use tls_first"
            )
        return "INFO received, but no PONG"

    async def _shake_hands(self) -> ServerInfo:
        options, address = self._options, self._address
        context = tls_context(options.tls)
        if context is None and (address.tls or options.tls_first):
            context = ssl.create_default_context()
        hostname = options.tls_hostname or address.tls_name or address.host
        if address.websocket:
            # For wss://, TLS is handled here, below the WebSocket.
            context = (context or ssl.create_default_context()) if address.tls else None
        early = context if options.tls_first or address.websocket else None
        await self._loop.create_connection(
            lambda: self,
            address.host,
            address.port,
            ssl=early,
            server_hostname=hostname if early is not None else None,
        )
        await self._greeted
        received, self._after_info = self._after_info or b"", None
        plain = early is None and not address.websocket
        if plain and (context is not None or self._info.tls_required):
            if received:
                # An attacker could have injected it, for us to trust it as the server's.
                raise ProtocolViolation("the server sent data between INFO and TLS")
            await self._start_tls(context or ssl.create_default_context(), hostname)
        elif received:
            self._feed(received)
        connect_line = self._owner.connect_line(self._info, address)
        first_pong: asyncio.Future[None] = self._loop.create_future()
        self._pongs.append(first_pong)
        self._write(connect_line + PING)
        await first_pong
        if self._error is not None:
            raise self._error
        if self._transport is None:
            raise ConnectFailed("the server accepted and closed the connection at once")
        self._arm_keepalive()
        return self._info

    async def _start_tls(self, context: ssl.SSLContext, hostname: str) -> None:
        if not (self._info.tls_required or self._info.tls_available):
            raise ConnectFailed(
                "the server offers no TLS: use nats:// and no tls=, or enable TLS on the server"
            )
        assert self._transport is not None
        transport = await self._loop.start_tls(
            self._transport, self, context, server_hostname=hostname
        )
        if transport is None:
            raise ConnectFailed("the server closed the connection during the TLS handshake")
        self._take_transport(transport)

    def attach(self, outgoing: Outgoing, first: list[bytes]) -> None:
        """Write ``outgoing`` to this connection from now on, after ``first``."""
        assert self._transport is not None
        self._outgoing = outgoing
        outgoing.attach(self._wire, self._address.label, first)

    async def close(self) -> None:
        """Close the socket once everything written has been sent, and wait until it is closed."""
        self._closing = True
        self._stop_keepalive()
        if self._transport is None:
            return
        if self._framing is not None:
            self._framing.close()
        self._transport.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await asyncio.shield(self._gone)
        except TimeoutError:
            self._transport.abort()

    def give_up(self, reason: Exception) -> None:
        """Abort a working connection; the owner is notified that it is lost."""
        self._fail(reason)

    def _cut(self) -> None:
        """Abort at once: the dial failed."""
        self._closing = True
        self._stop_keepalive()
        if self._transport is not None:
            self._transport.abort()

    async def ping(self) -> None:
        """Send PING and wait for its PONG: the server has processed everything sent before."""
        await self.send_ping()

    def send_ping(self) -> asyncio.Future[None]:
        """Send PING; the future is done when PONG arrives, and fails if the connection is lost."""
        if self._closing or self._error is not None:
            raise ConnectionClosed(f"the connection to {self._address.label} is closed")
        pong: asyncio.Future[None] = self._loop.create_future()
        self._pongs.append(pong)
        self._write(PING)
        return pong

    def limit_reads(self, size: int) -> None:
        """Read no more than ``size`` bytes per read."""
        self._buffer = self._buffer[:size]

    def pause_reading(self) -> None:
        """Read nothing until ``resume_reading``."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # Keepalive.

    def _arm_keepalive(self) -> None:
        self._keepalive_timer = self._loop.call_later(self._options.ping_interval, self._keepalive)

    def _stop_keepalive(self) -> None:
        if self._keepalive_timer is not None:
            self._keepalive_timer.cancel()
            self._keepalive_timer = None

    def _keepalive(self) -> None:
        if self._keepalives_unanswered >= self._options.pings_outstanding_max:
            self._fail(
                ConnectionClosed(
                    f"{self._address.label} did not answer {self._keepalives_unanswered} PINGs "
                    f"sent every {self._options.ping_interval} s"
                )
            )
            return
        self._keepalives_unanswered += 1
        self._pongs.append(None)
        self._write(PING)
        self._arm_keepalive()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of the dialled socket."""
        # uvloop's transports have these methods but are no subclasses.
        self._take_transport(cast("asyncio.Transport", transport))
        if self._address.websocket:
            assert self._transport is not None
            try:
                self._framing = WebSocketFraming(
                    self._transport, self._address, self._options.websocket_headers
                )
            except (ConnectFailed, MissingExtra) as error:
                self._fail(error)

    def _take_transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)

    @property
    def _wire(self) -> WriteTransport:
        """The transport that NATS bytes are written to."""
        assert self._transport is not None
        return self._framing or self._transport

    def _write(self, frame: bytes) -> None:
        """Send a control operation after the messages queued before it."""
        if self._outgoing is not None:
            self._outgoing.send_control(frame)
        elif self._transport is not None:
            self._wire.write(frame)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - one size fits all reads
        """The buffer for the next read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse one chunk, wake each sink once, then handle control operations."""
        data = bytes(self._buffer[:nbytes])
        if self._framing is not None:
            try:
                data = self._framing.receive(data)
            except Error as error:
                self._fail(error)
                return
        if self._after_info is not None:
            self._after_info += data
            while self._after_info and not self._greeted.done() and self._error is None:
                line, end, rest = self._after_info.partition(b"\n")
                self._after_info = rest
                self._feed(line + end)
            return
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        receiver = self._receiver
        self._parser.feed(data)
        if receiver.woken:
            for sink in receiver.take_woken():
                sink.wake()
        if receiver.control:
            for kind, body in receiver.take_control():
                self._on_control(kind, body)

    def pause_writing(self) -> None:
        """The transport's buffer is full: hold back further frames."""
        if self._outgoing is not None:
            self._outgoing.pause()

    def resume_writing(self) -> None:
        """The transport has room again."""
        if self._outgoing is not None:
            self._outgoing.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiters for a PONG, and notify the owner."""
        self._stop_keepalive()
        self._transport = None
        if not self._gone.done():
            self._gone.set_result(None)
        reason = self._error or exc
        by_whom = "" if self._closing else " by the server"
        text = f": {reason}" if reason is not None else by_whom
        closed = ConnectionClosed(f"the connection to {self._address.label} was closed{text}")
        closed.__cause__ = reason
        self._fail_waiters(reason if not self._ready and reason is not None else closed)
        if self._ready and not self._closing:
            self._closing = True
            self._owner.on_lost(self, closed)

    # Control operations.

    def _on_control(self, kind: int, body: bytes) -> None:
        if kind == receive.PONG:
            self._on_pong()
        elif kind == receive.PING:
            self._write(PONG)
        elif kind == receive.INFO:
            self._on_info(body)
        elif kind == receive.ERR:
            self._on_error_line(body.decode("utf-8", "replace"))
        else:
            text = body.decode("utf-8", "replace")
            self._fail(
                ProtocolViolation(f"{self._address.label} violated the NATS protocol: {text}")
            )

    def _on_info(self, body: bytes) -> None:
        try:
            self._info = decode_info(body)
        except ValueError as error:
            self._fail(ProtocolViolation(f"{self._address.label} sent a bad INFO: {error}"))
            return
        # Servers of one cluster may have different limits, so the announced one is a lower bound.
        announced = self._info.max_payload  # negative: no limit
        announced = min(announced, ANNOUNCED_MAX) if announced >= 0 else ANNOUNCED_MAX
        self._parser.limit(
            CLIENT_CONTROL_LINE_MAX, max(announced + CLIENT_PAYLOAD_ROOM, PENDING_MAX)
        )
        if not self._greeted.done():
            self._greeted.set_result(None)
        if self._ready:
            self._owner.on_info(self._info)

    def _on_pong(self) -> None:
        # The first PONG ends the handshake; the rest of the chunk is ordinary traffic.
        if not self._ready:
            self._ready = True
            self._ready_at = self._loop.time()
        self._keepalives_unanswered = 0
        pong = self._pongs.popleft() if self._pongs else None
        if pong is not None and not pong.done():
            pong.set_result(None)

    def _on_error_line(self, text: str) -> None:
        if self._ready and is_survivable(text):
            self._owner.on_server_error(text)
            return
        # The server closes after any other -ERR; its text is the reason that is reported.
        self._fail(error_of_line(text))

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        if self._transport is not None:
            self._transport.abort()

    def _fail_waiters(self, error: Exception) -> None:
        if not self._greeted.done():
            self._greeted.set_exception(error)
            # There may be no waiter any more.
            self._greeted.exception()
        while self._pongs:
            pong = self._pongs.popleft()
            if pong is not None and not pong.done():
                pong.set_exception(error)
