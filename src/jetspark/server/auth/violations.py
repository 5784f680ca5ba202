"""The texts of ``-ERR`` for permission violations, as nats-server 2.15.1 sends them.

Clients match these texts (wire.md, Command line and configuration). Subjects are quoted like Go's
``%q``.
"""

from typing import Final

AUTHORIZATION_VIOLATION: Final = b"Authorization Violation"
AUTHENTICATION_TIMEOUT: Final = b"Authentication Timeout"

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_BROKEN_FIRST: Final = "\udc80"  # surrogateescape of the byte 0x80
_BROKEN_LAST: Final = "\udcff"


def publish_violation(subject: bytes) -> bytes:
    """Return the text for a publish that is not permitted."""
    return b"Permissions Violation for Publish to %b" % quoted(subject)


def headers_violation(subject: bytes, needed: bytes, reads: bool) -> bytes:
    """Return the text for a publish whose headers need another permission as well (ours)."""
    verb = b"read" if reads else b"publish to"
    return b"%b, its headers need permission to %b %b" % (
        publish_violation(subject),
        verb,
        quoted(needed),
    )


def reply_violation(reply: bytes) -> bytes:
    """Return the text for a publish with a reserved reply subject."""
    return b"Permissions Violation for Publish with Reply of %b" % quoted(reply)


def subscription_violation(subject: bytes, queue: bytes) -> bytes:
    """Return the text for a subscription that is not permitted; plain if ``queue`` is empty."""
    text = b"Permissions Violation for Subscription to %b" % quoted(subject)
    return b"%b using queue %b" % (text, quoted(queue)) if queue else text


def quoted(data: bytes) -> bytes:
    """Return ``data`` in double quotes: printable characters as they are, others escaped."""
    text = data.decode("utf-8", "surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return b'"%b"' % data
    return '"{}"'.format("".join(map(_escaped, text))).encode()


def _escaped(char: str) -> str:
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    if _BROKEN_FIRST <= char <= _BROKEN_LAST:
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
