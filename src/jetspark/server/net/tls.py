"""TLS of the client port: certificates, verification, and who is at the other end."""

import ssl
from dataclasses import dataclass
from typing import Any, Final

from jetspark.server.auth.authenticator import TlsPeer
from jetspark.server.config.tls import CIPHER_SUITES, INSECURE_CIPHER_SUITES, Tls

OPENSSL_NAMES: Final = CIPHER_SUITES | INSECURE_CIPHER_SUITES
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True)
class TlsRuntime:
    """What a connection must know to begin TLS."""

    context: ssl.SSLContext
    handshake_first: bool
    # With handshake_first: how long a client may take before it is greeted in plain text.
    fallback_s: float
    timeout_s: float
    verify: bool


def tls_runtime(settings: Tls) -> TlsRuntime:
    """Load the certificates; OSError or ssl.SSLError when they cannot be used."""
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
    """Who showed a certificate, as the authenticator wants to know it."""
    certificate = session.getpeercert() if session is not None else None
    if not certificate:
        return None
    # ((("commonName", "x"),), ...): a tuple of names, each a tuple of pairs.
    parts: Any = certificate.get("subject", ())
    return TlsPeer(subject=",".join(f"{key}={value}" for part in parts for key, value in part))
