"""Messages and times as the pages get them."""

import base64
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from jetspark.client.jetstream.stored import StreamMessage
from jetspark.dashboard.errors import BadInput
from jetspark.units import parse_rfc3339

T = TypeVar("T")

# How much of a payload a row of a list has, and the page of one message; the rest is a download.
PREVIEW: Final = 2048
SHOWN: Final = 256 * 1024
SEQUENCE_MAX: Final = 2**63 - 1
# nats-server counts nanoseconds since 1970 in 64 bits, and answers wrongly for other times.
_YEARS: Final = (1970, 2262)


def message_row(message: StreamMessage, shown: int = PREVIEW) -> dict[str, Any]:
    """A message; its payload in base64, because it may be anything."""
    return {
        "seq": message.seq,
        "time": iso(message.time_ns),
        "subject": printable(message.subject),
        "headers": [
            [printable(name), printable(value)] for name, value in message.headers.items()
        ],
        "size": len(message.data),
        "data": base64.b64encode(message.data[:shown]).decode(),
        "truncated": len(message.data) > shown,
    }


def read_json(data: bytes, kind: type[T]) -> T | None:
    """A value of JSON that someone stored; None if it is something else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def printable(text: str) -> str:
    """Text without lone surrogates, which JSON in UTF-8 cannot have."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def iso(time_ns: int) -> str:
    """A time in UTC with milliseconds."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def read_time(text: str) -> datetime:
    """A time of a page: RFC 3339; without a zone it is UTC."""
    try:
        zoned = (
            text
            if text.endswith(("Z", "z")) or "+" in text[10:] or "-" in text[10:]
            else f"{text}Z"
        )
        found = datetime.fromtimestamp(parse_rfc3339(zoned.upper()) / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"{text!r} is no time: expected one like 2026-11-18T09:30:00Z") from None
    if not _YEARS[0] <= found.year < _YEARS[1]:
        raise BadInput(f"{text!r}: expected a time from {_YEARS[0]} to {_YEARS[1]}")
    return found


def whole(text: str, name: str, *, default: int = 0, most: int = SEQUENCE_MAX) -> int:
    """A number of a query: not negative, at most ``most``."""
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 20 or int(text) > most:
        raise BadInput(f"{name}={text!r}: expected a number from 0 to {most}")
    return int(text)
