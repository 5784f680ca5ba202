"""TLS inside the protocol: bytes of the socket in, what the client said out, and the other way.

The loop's own ``start_tls`` changes the transport under a connection that may already have bytes
waiting, and drops the alert that tells a client why it was refused. With the session in our own
hands the greeting, the hello and the alert are just bytes, in the order in which they come.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

READ: Final = 64 * 1024
HANDSHAKE_RECORD: Final = 22  # the first byte of every TLS client (RFC 8446 5.1)


class TlsChannel:
    """The server's side of one TLS session; ``send`` writes to the socket."""

    def __init__(self, context: ssl.SSLContext, send: Callable[[bytes], None]) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._send = send
        self._waiting: list[bytes] = []
        self.session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False
        self.ended = False
        self._closed = False

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the socket; return what they say in plain.

        Raises ssl.SSLError when the peer does not speak TLS as it must; what it should be told
        about that has been sent by then.
        """
        self._incoming.write(data)
        pieces = []
        try:
            if not self.established:
                self._shake_hands()
            while piece := self.session.read(READ):
                pieces.append(piece)
            self.ended = True  # an empty read is the peer's farewell
        except ssl.SSLWantReadError:
            pass
        finally:
            self._flush()
        return b"".join(pieces)

    def _shake_hands(self) -> None:
        self.session.do_handshake()
        self.established = True
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.session.write(data)

    def write(self, data: bytes) -> None:
        """Send in the session; what comes before it stands is sent when it does.

        After `close` nothing can be sent. Raises ssl.SSLError when the session is broken.
        """
        if self._closed:
            return
        if not self.established:
            self._waiting.append(data)
            return
        self.session.write(data)
        self._flush()

    def close(self) -> None:
        """Tell the peer that nothing more comes."""
        if self.established and not self._closed:
            self._closed = True
            with suppress(ssl.SSLError):  # the peer's own farewell is not waited for
                self.session.unwrap()
            self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send(self._outgoing.read())
