"""The texts of ``-ERR`` for permission violations, as nats-server 2.15.1 sends them.

Clients match these texts (wire.md, Command line and configuration). Subjects are quoted like Go's
``%q``.
"""

from typing import Final

from jetspark.server.quoting import quote_bytes

AUTHORIZATION_VIOLATION: Final = b"Authorization Violation"
AUTHENTICATION_TIMEOUT: Final = b"Authentication Timeout"


def publish_violation(subject: bytes) -> bytes:
    """Return the text for a publish that is not permitted."""
    return b"Permissions Violation for Publish to %b" % quote_bytes(subject)


def headers_violation(subject: bytes, needed: bytes, reads: bool) -> bytes:
    """Return the text for a publish whose headers need another permission as well (ours)."""
    verb = b"read" if reads else b"publish to"
    return b"%b, its headers need permission to %b %b" % (
        publish_violation(subject),
        verb,
        quote_bytes(needed),
    )


def reply_violation(reply: bytes) -> bytes:
    """Return the text for a publish with a reserved reply subject."""
    return b"Permissions Violation for Publish with Reply of %b" % quote_bytes(reply)


def subscription_violation(subject: bytes, queue: bytes) -> bytes:
    """Return the text for a subscription that is not permitted; plain if ``queue`` is empty."""
    text = b"Permissions Violation for Subscription to %b" % quote_bytes(subject)
    return b"%b using queue %b" % (text, quote_bytes(queue)) if queue else text
