"""Exceptions for failed connection attempts and for the server's ``-ERR``."""

import errno
import os
import re
import socket
import ssl

from jetspark.client.connection.server_pool import ServerPool
from jetspark.errors import (
    AuthorizationFailed,
    ConnectFailed,
    ConnectionClosed,
    Error,
    PermissionsViolation,
    ServerRefused,
)

_PERMISSION = re.compile(r"permissions violation for (\w+) to \"(.*?)\"", re.IGNORECASE)
_AUTHORIZATION = (
    "authorization violation",
    "authentication",
    "user authentication",
    "account authentication",
)
# OpenSSL's errors for bytes that are no TLS record.
_NOT_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}
# The server keeps the connection after these; the subscription or publish was ignored.
_SURVIVABLE = (
    "permissions violation",
    "invalid subject",
    "invalid publish",
    "maximum subscriptions exceeded",
)


def is_survivable(text: str) -> bool:
    """Whether the server keeps the connection after this ``-ERR``."""
    lowered = text.lower()
    return lowered.startswith(_SURVIVABLE)


def denied_subject(text: str) -> tuple[str, str] | None:
    """``("subscription" | "publish", subject)`` of a permissions violation, or None."""
    found = _PERMISSION.match(text)
    return (found[1].lower(), found[2]) if found else None


def error_of_line(text: str) -> Error:
    """The exception for an ``-ERR`` line."""
    lowered = text.lower()
    if lowered.startswith(_AUTHORIZATION):
        return AuthorizationFailed(
            f"the server refused the credentials ({text}): check user, password or token, or "
            "the key and the credentials file"
        )
    if lowered.startswith("permissions violation"):
        return PermissionsViolation(
            f"the server refused it: {text}; the user needs permission for that subject"
        )
    if lowered.startswith("stale connection"):
        return ConnectionClosed(
            "the server got no answer to its PINGs and closed the connection (Stale Connection): "
            "something blocked the event loop or the network"
        )
    if is_survivable(text):
        return ServerRefused(
            f"the server refused a subscription or publish but keeps the connection: {text}"
        )
    return ConnectionClosed(f"the server closed the connection: {text}")


def dial_problem(error: OSError) -> str:
    """Describe why a server was not reached; asyncio's own texts show raw addresses and codes."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the certificate was rejected: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and getattr(error, "reason", "") in _NOT_TLS:
        return (
            "TLS handshake failed: the server did not answer with TLS; tls_first=True is for "
            "servers with handshake_first, wss:// for WebSockets with TLS"
        )
    if isinstance(error, ssl.SSLError):
        return f"TLS handshake failed: {error}"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: is a server running there?"
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved: {error.strerror}"
    if error.errno:
        return os.strerror(error.errno)
    # Several addresses of one name: asyncio lists the error of each.
    text = str(error) or type(error).__name__
    if text.count("[Errno") == text.count(f"[Errno {errno.ECONNREFUSED}]") > 0:
        return "connection refused on every address: is a server running there?"
    return text


def connect_failure(pool: ServerPool) -> ConnectFailed:
    """One error for a whole round, with the reason of each server.

    AuthorizationFailed if every server was reached and refused the credentials.
    """
    refusals = pool.refusals
    text = f"no server accepted the connection ({pool.describe_refusals()})"
    denied = refusals and all(isinstance(error, AuthorizationFailed) for _, error in refusals)
    failure = AuthorizationFailed(text) if denied else ConnectFailed(text)
    failure.__cause__ = pool.last_error
    return failure
