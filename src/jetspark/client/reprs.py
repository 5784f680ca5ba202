"""Parts of the repr of handles and messages."""

from typing import Final

SHOWN_BYTES: Final = 40  # of a value or message; the rest is counted


def closed_mark(closed: bool) -> str:
    """The last part of a repr: whether a handle was closed."""
    return ", closed" if closed else ""


def shown_bytes(data: bytes) -> str:
    """The beginning of a value, and its size if it is longer."""
    if len(data) <= SHOWN_BYTES:
        return repr(data)
    return f"{data[:SHOWN_BYTES]!r}... ({len(data)} bytes)"
