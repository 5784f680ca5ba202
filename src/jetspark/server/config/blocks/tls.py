"""The ``tls`` block of clients, websockets and remotes."""

import re
from typing import Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_whole_block
from jetspark.server.config.values import (
    boolean,
    duration_or_seconds,
    each,
    elements,
    integer,
    one_of,
    or_default,
    string,
)
from jetspark.units import Nanoseconds, milliseconds, parse_duration, seconds

HANDSHAKE_FALLBACK: Final = milliseconds(50)  # nats-server: how long ``auto`` waits

# The names in configurations and in OpenSSL; TLS 1.3 suites are always enabled there.
CIPHER_SUITES: Final = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
INSECURE_CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
# OpenSSL has removed these; a setting that cannot be supported is refused.
_REMOVED_CIPHER_SUITES: Final = frozenset({
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_RC4_128_SHA",
})  # fmt: skip
CURVES: Final = ("CurveP256", "CurveP384", "CurveP521", "X25519", "X25519MLKEM768")

_NOT_OF_REMOTES: Final = (
    "verify_and_map", "fallback_delay", "timeout", "connection_rate_limit", "pinned_certs",
    "curve_preferences",
)  # fmt: skip
_PIN: Final = re.compile("[0-9a-f]{64}")


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate and its private key, as paths."""

    cert_file: str
    key_file: str


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """A ``tls`` block. Paths are relative to the working directory.

    ``fallback_delay`` is how long the server waits for a handshake before it sends INFO in plain
    text; 0 means never. ``pinned_certs`` are SHA-256 sums of public keys.
    """

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    certs: tuple[Certificate, ...] = ()
    verify: bool = False
    verify_and_map: bool = False
    insecure: bool = False
    handshake_first: bool = False
    fallback_delay: Nanoseconds = Nanoseconds(0)
    timeout: Nanoseconds = seconds(2)
    connection_rate_limit: int = 0
    pinned_certs: frozenset[str] = frozenset()
    cipher_suites: tuple[str, ...] = ()
    allow_insecure_cipher_suites: bool = False
    curve_preferences: tuple[str, ...] = ()
    min_version: str = "1.2"

    def pairs(self) -> tuple[Certificate, ...]:
        """Return the certificates that the server presents."""
        if not self.cert_file:
            return self.certs
        return (Certificate(cert_file=self.cert_file, key_file=self.key_file),)


def read_tls(setting: Setting) -> Tls:
    """Read the block of a listener, which needs a certificate."""
    tls = read_client_tls(setting)
    if not tls.pairs():
        # nats-server starts without one and then fails every handshake.
        raise setting.refused("expected 'cert_file' and 'key_file', or 'certs'")
    return tls


def read_client_tls(setting: Setting) -> Tls:
    """Read the block of an outgoing connection, where a certificate is optional."""
    values = read_whole_block(setting, _FIELDS, variables=False)
    first = values.pop("handshake_first", None)
    if first is not None:
        values["handshake_first"], values["fallback_delay"] = first
    if values.get("verify_and_map"):
        values["verify"] = True
    tls = Tls(**values)
    _check(setting, tls)
    return tls


def read_remote_tls(setting: Setting) -> Tls:
    """Read the block of the connection to a remote, where some settings have no meaning."""
    tls = read_client_tls(setting)
    plain = Tls()
    for name in _NOT_OF_REMOTES:
        if getattr(tls, name) != getattr(plain, name):
            raise setting.refused(f"'{name}' has no meaning for a remote; leave it out")
    return tls


def _check(setting: Setting, tls: Tls) -> None:
    if tls.cert_file and not tls.key_file:
        raise setting.refused("missing 'key_file' in TLS configuration")
    if tls.key_file and not tls.cert_file:
        raise setting.refused("missing 'cert_file' in TLS configuration")
    if tls.cert_file and tls.certs:
        raise setting.refused("cannot combine 'cert_file' with 'certs'; keep one of them")
    insecure = [name for name in tls.cipher_suites if name in INSECURE_CIPHER_SUITES]
    if insecure and not tls.allow_insecure_cipher_suites:
        raise setting.refused(
            "insecure cipher suites configured without 'allow_insecure_cipher_suites': "
            f"{', '.join(insecure)}"
        )


def _handshake_first(setting: Setting) -> tuple[bool, Nanoseconds]:
    value = setting.node.value
    if isinstance(value, bool):
        return value, Nanoseconds(0)
    word = string(setting).lower()
    if word in {"true", "on"}:
        return True, Nanoseconds(0)
    if word in {"false", "off"}:
        return False, Nanoseconds(0)
    if word in {"auto", "auto_fallback"}:
        return True, HANDSHAKE_FALLBACK
    try:
        return True, parse_duration(word)
    except ValueError:
        raise setting.refused(
            f"expected true, false, auto or a duration like 100ms, got '{value}'"
        ) from None


def _cipher_suites(setting: Setting) -> tuple[str, ...]:
    names = _names(setting)
    for name in names:
        if name in _REMOVED_CIPHER_SUITES:
            raise setting.refused(f"cipher suite {name} was removed from OpenSSL; leave it out")
        if name not in CIPHER_SUITES and name not in INSECURE_CIPHER_SUITES:
            raise setting.refused(
                f"unrecognized cipher {name}; expected names like "
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
            )
    return names


def _curves(setting: Setting) -> tuple[str, ...]:
    names = _names(setting)
    for name in names:
        if name not in CURVES:
            raise setting.refused(
                f"unrecognized curve preference {name}; expected {', '.join(CURVES)}"
            )
    return names


def _names(setting: Setting) -> tuple[str, ...]:
    names = tuple(string(setting.element(node)) for node in elements(setting))
    if not names:
        raise setting.refused("the list cannot be empty")
    return names


def _pins(setting: Setting) -> frozenset[str]:
    pins: set[str] = set()
    for node in elements(setting):
        pin = string(setting.element(node)).lower()
        if not _PIN.fullmatch(pin):
            raise setting.element(node).refused(
                f"'{pin}' is not the SHA-256 of a public key; expected 64 hexadecimal digits"
            )
        pins.add(pin)
    return frozenset(pins)


def _certs(setting: Setting) -> tuple[Certificate, ...]:
    return each(setting, _certificate)


def _certificate(setting: Setting) -> Certificate:
    values = read_whole_block(setting, _CERTIFICATE, variables=False)
    if len(values) < len(_CERTIFICATE):
        raise setting.refused("each certificate needs both 'cert_file' and 'key_file'")
    return Certificate(**values)


_CERTIFICATE: Final = {"cert_file": Field(string), "key_file": Field(string)}
_FIELDS: Final = {
    "cert_file": Field(string),
    "key_file": Field(string),
    "ca_file": Field(string),
    "certs": Field(_certs, ("certificates",)),
    "verify": Field(boolean),
    "verify_and_map": Field(boolean),
    "insecure": Field(boolean),
    "handshake_first": Field(_handshake_first, ("first", "immediate")),
    "timeout": Field(or_default(duration_or_seconds)),
    "connection_rate_limit": Field(integer),
    "pinned_certs": Field(_pins),
    "cipher_suites": Field(_cipher_suites),
    "allow_insecure_cipher_suites": Field(boolean),
    "curve_preferences": Field(_curves),
    "min_version": Field(one_of({"1.2": "1.2", "1.3": "1.3"})),
}
