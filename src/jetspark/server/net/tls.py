"""TLS of the client port: certificates, the session, and the peer."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from jetspark.server.auth.authenticator import TlsPeer
from jetspark.server.config.blocks.tls import CIPHER_SUITES, INSECURE_CIPHER_SUITES, Tls

OPENSSL_NAMES: Final = CIPHER_SUITES | INSECURE_CIPHER_SUITES
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
READ: Final = 64 * 1024


@dataclass(frozen=True)
class TlsRuntime:
    """What a connection needs to start TLS."""

    context: ssl.SSLContext
    handshake_first: bool
    # With handshake_first: how long a client may take before it gets INFO in plain text.
    fallback_s: float
    timeout_s: float
    verify: bool


def tls_runtime(settings: Tls) -> TlsRuntime:
    """Load the certificates; OSError or ssl.SSLError if they are unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    for extra in settings.certs:
        context.load_cert_chain(extra.cert_file, extra.key_file)
    ciphers = [OPENSSL_NAMES[name] for name in settings.cipher_suites if OPENSSL_NAMES[name]]
    if ciphers:
        context.set_ciphers(":".join(ciphers))
    if settings.ca_file:
        context.load_verify_locations(settings.ca_file)
    if settings.verify:
        context.verify_mode = ssl.CERT_REQUIRED
        if not settings.ca_file:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return TlsRuntime(
        context,
        settings.handshake_first,
        settings.fallback_delay / 1e9,
        settings.timeout / 1e9,
        settings.verify,
    )


def tls_peer(session: ssl.SSLObject | None) -> TlsPeer | None:
    """Return the peer's certificate for the authenticator."""
    certificate = session.getpeercert() if session is not None else None
    if not certificate:
        return None
    # ((("commonName", "x"),), ...): a tuple of names, each a tuple of pairs.
    parts: Any = certificate.get("subject", ())
    return TlsPeer(subject=",".join(f"{key}={value}" for part in parts for key, value in part))


class TlsChannel:
    """The server's side of one TLS session; ``send`` writes to the socket.

    The loop's own ``start_tls`` replaces the transport of a connection that may already have
    buffered bytes, and drops the alert that says why a client was refused. With our own session,
    INFO, the hello and the alert are just bytes, in order.
    """

    def __init__(self, context: ssl.SSLContext, send: Callable[[bytes], None]) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._send = send
        self._waiting: list[bytes] = []
        self.session: ssl.SSLObject = context.wrap_bio(
            self._incoming, self._outgoing, server_side=True
        )
        self.established: bool = False
        self.ended: bool = False
        self._closed = False

    def receive(self, data: bytes) -> bytes:
        """Process bytes from the socket; return the decrypted ones.

        Raises ssl.SSLError if the peer violates TLS; the alert has been sent by then.
        """
        self._incoming.write(data)
        pieces = []
        try:
            if not self.established:
                self._shake_hands()
            while piece := self.session.read(READ):
                pieces.append(piece)
            self.ended = True  # an empty read is the peer's close_notify
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
        """Send in the session; before the handshake is complete, data is queued.

        After `close` nothing can be sent. Raises ssl.SSLError if the session is broken.
        """
        if self._closed:
            return
        if not self.established:
            self._waiting.append(data)
            return
        self.session.write(data)
        self._flush()

    def close(self) -> None:
        """Send close_notify."""
        if self.established and not self._closed:
            self._closed = True
            with suppress(ssl.SSLError):  # the peer's close_notify is not waited for
                self.session.unwrap()
            self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send(self._outgoing.read())
