"""Quoting like Go's ``%q``: clients and scripts match the texts of nats-server."""

from typing import Final

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


def quote_bytes(data: bytes) -> bytes:
    """Return ``data``, UTF-8 or not, as ``%q`` writes it."""
    text = data.decode("utf-8", "surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return b'"%b"' % data
    return quote(text).encode()


def quote(text: str) -> str:
    """Return ``text`` in double quotes: printable characters as they are, others escaped."""
    return '"{}"'.format("".join(map(_escaped, text)))


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
