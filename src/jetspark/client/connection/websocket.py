"""NATS over WebSocket: the framing between the parser and a TCP or TLS transport.

The bytes of the NATS protocol travel in binary frames whose boundaries have no meaning. Framing,
masking and the opening handshake come from the sans-I/O classes of ``websockets``.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jetspark.client.connection.server_pool import ServerAddress
from jetspark.errors import ConnectFailed, ConnectionClosed, ProtocolViolation
from jetspark.errors.extras import WEBSOCKET, check_extra, extra

if TYPE_CHECKING:
    from websockets.client import ClientProtocol


class WebSocketFraming:
    """Wraps written and unwraps received bytes; a transport for the writer."""

    def __init__(
        self,
        transport: asyncio.Transport,
        address: ServerAddress,
        headers: dict[str, str] | None,
    ) -> None:
        self._transport = transport
        self._protocol = _new_protocol(address)
        self._open = False
        request = self._protocol.connect()
        for name, value in (headers or {}).items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._flush()

    def receive(self, data: bytes) -> bytes:
        """Extract the NATS bytes from a chunk of the socket.

        Raises ConnectFailed if the handshake fails, ProtocolViolation for invalid frames and
        ConnectionClosed if the server closes with a reason.
        """
        from websockets.frames import Frame, Opcode

        protocol = self._protocol
        protocol.receive_data(data)
        payloads: list[bytes] = []
        for event in protocol.events_received():
            if isinstance(event, Frame):
                if event.opcode in {Opcode.BINARY, Opcode.TEXT, Opcode.CONT}:
                    payloads.append(bytes(event.data))
            elif protocol.handshake_exc is None:
                self._open = True
        self._flush()
        if not self._open and protocol.handshake_exc is not None:
            raise ConnectFailed(f"WebSocket handshake failed: {protocol.handshake_exc}")
        if protocol.parser_exc is not None:
            raise ProtocolViolation(f"invalid WebSocket frame: {protocol.parser_exc}")
        if protocol.close_rcvd is not None and not payloads:
            raise ConnectionClosed(f"the server closed the WebSocket: {protocol.close_rcvd}")
        return payloads[0] if len(payloads) == 1 else b"".join(payloads)

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete."""
        return self._open

    def write(self, data: bytes) -> None:
        """Send NATS bytes in one binary frame."""
        if self._open and self._protocol.close_sent is None:
            self._protocol.send_binary(data)
            self._flush()

    def get_write_buffer_size(self) -> int:
        """Bytes that the transport has buffered for sending."""
        return self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Send a close frame; the caller closes the transport."""
        if self._open and self._protocol.close_sent is None:
            self._protocol.send_close(1000, "")
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data and not self._transport.is_closing():
            self._transport.write(data)


def check_websocket(addresses: Iterable[ServerAddress]) -> None:
    """Refuse addresses that need a package that is not installed."""
    if any(address.websocket for address in addresses):
        check_extra(*WEBSOCKET, "websockets")


def _new_protocol(address: ServerAddress) -> "ClientProtocol":
    with extra(*WEBSOCKET):
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri
    scheme = "wss" if address.tls else "ws"
    # max_size=None: the NATS parser enforces the limits, and a frame may hold many messages.
    uri = parse_uri(f"{scheme}://{address.label}{address.path or '/'}")
    return ClientProtocol(uri, max_size=None)
