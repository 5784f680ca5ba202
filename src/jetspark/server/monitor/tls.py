"""TLS sessions for ``/connz``: from the ``ssl_object`` of a transport."""

import hashlib
import ssl
from typing import Final

from jetspark.errors.extras import extra
from jetspark.server.monitor.connection_view import PeerCertificate, TlsDetails

# OpenSSL's own names of the TLS 1.2 suites that Python offers; those of 1.3 are IANA's already.
_KEY_EXCHANGES: Final = ("ECDHE-ECDSA", "ECDHE-RSA", "DHE-RSA", "DHE-DSS")
_CIPHERS: Final = {
    "AES128": "AES_128",
    "AES256": "AES_256",
    "CHACHA20": "CHACHA20",
    "CAMELLIA128": "CAMELLIA_128",
    "CAMELLIA256": "CAMELLIA_256",
    "ARIA128": "ARIA_128",
    "ARIA256": "ARIA_256",
}
# OpenSSL omits the mode of CBC suites; the hash follows directly.
_HASHES: Final = frozenset({"SHA", "SHA256", "SHA384"})


def details(session: ssl.SSLObject | ssl.SSLSocket, *, first: bool = False) -> TlsDetails:
    """Describe a session after its handshake; ``first``: it was before INFO."""
    cipher = session.cipher()
    try:
        certificate = session.getpeercert(binary_form=True)
    except ValueError:
        certificate = None  # a session that broke later reports an unfinished handshake
    return TlsDetails(
        version=(session.version() or "").removeprefix("TLSv"),
        cipher_suite=cipher_name(cipher[0]) if cipher else "",
        first=first,
        peer_certs=(describe(certificate),) if certificate else (),
    )


def cipher_name(name: str) -> str:
    """Return the IANA name of a suite, which is what nats-server shows; others unchanged."""
    if name.startswith("TLS_"):
        return name
    exchange = next((each for each in _KEY_EXCHANGES if name.startswith(each + "-")), "RSA")
    rest = name.removeprefix(exchange + "-").split("-")
    cipher = _CIPHERS.get(rest[0])
    if cipher is None:
        return name
    tail = ["CBC", *rest[1:]] if rest[1:] and rest[1] in _HASHES else rest[1:]
    if rest[0] == "CHACHA20":
        tail = [*tail, "SHA256"]
    return f"TLS_{exchange.replace('-', '_')}_WITH_{cipher}_{'_'.join(tail)}"


def describe(certificate: bytes) -> PeerCertificate:
    """Describe a certificate in DER."""
    with extra("server", "the certificates of clients in /connz need"):
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    whole = hashlib.sha256(certificate).hexdigest()
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        key = parsed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        subject = parsed.subject.rfc4514_string()
    except ValueError:
        # The handshake accepted it; one that cannot be parsed here is at least distinguishable.
        return PeerCertificate(cert_sha256=whole)
    return PeerCertificate(
        subject=subject, spki_sha256=hashlib.sha256(key).hexdigest(), cert_sha256=whole
    )
