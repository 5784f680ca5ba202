"""One accepted connection: bytes from the socket to the parser, output back, once per chunk."""

import asyncio
import logging
from typing import TYPE_CHECKING

from jetspark.protocol.encoder import encode_err
from jetspark.protocol.limits import PENDING_MAX
from jetspark.server.router import ClientHandler

if TYPE_CHECKING:
    from jetspark.server.server import Server

log = logging.getLogger("jetspark.server")

SLOW_CONSUMER = encode_err(b"Slow Consumer")


class Connection(asyncio.BufferedProtocol):
    """The driver of one client."""

    def __init__(self, server: "Server", client: ClientHandler, client_id: int) -> None:
        self.client = client
        self.client_id = client_id
        self._server = server
        self._buffer = server.read_buffer
        self._transport: asyncio.Transport | None = None
        client.connection = self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet with INFO."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no asyncio.Transport
        self._server.joined(self)
        peer = transport.get_extra_info("peername")
        self.client.queue(self._server.greeting(self.client_id, peer[0] if peer else ""))
        self.flush()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """One buffer for all connections of the loop: a chunk is used up before the next read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse one chunk and write what it caused."""
        self._server.router.now = self._server.clock.now_ns()
        self.client.parser.feed(bytes(self._buffer[:nbytes]))
        self._server.flush()

    def eof_received(self) -> bool:
        """The client has nothing more to say: close."""
        return False

    def pause_writing(self) -> None:
        """The client reads slower than we write: runs of messages wait."""
        self.client.paused = True

    def resume_writing(self) -> None:
        """The client caught up."""
        self.client.paused = False

    def flush(self) -> None:
        """Write everything queued for the client in one call."""
        client = self.client
        data = client.take_output()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if data:
            transport.write(data)
        if client.closing:
            transport.close()
        elif client.paused and transport.get_write_buffer_size() > PENDING_MAX:
            log.warning(
                "Slow consumer: client %d has over %d bytes pending", self.client_id, PENDING_MAX
            )
            transport.write(SLOW_CONSUMER)
            client.parser.closed = True
            transport.abort()

    def close(self) -> None:
        """End the connection after what is queued."""
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone, and with it the subscriptions."""
        self.client.parser.closed = True
        self.client.drop_all()
        self._transport = None
        self._server.left(self)
        if exc is not None:
            log.debug("Client %d: %s", self.client_id, exc)
