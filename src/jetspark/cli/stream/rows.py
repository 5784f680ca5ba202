"""Messages as rows of export files, and back.

Nothing is lost: headers are names with values if that is exact, otherwise the block itself is in
``headers_block``; a subject that is not UTF-8 is in ``subject_bytes``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.headers.block import decode_headers, encode_headers

COLUMNS: Final = (
    "stream",
    "seq",
    "time",
    "subject",
    "headers",
    "data",
    "subject_bytes",
    "headers_block",
)


class ExportRows(msgspec.Struct, gc=False):
    """Messages of an export, and the stream of each."""

    streams: list[str]
    messages: MessageColumns

    @classmethod
    def empty(cls) -> "ExportRows":
        """Return no rows, to be filled."""
        return cls([], MessageColumns.empty())

    def __len__(self) -> int:
        return len(self.streams)

    def append(
        self, stream: str, seq: int, time_ns: int, subject: str, data: bytes, headers: bytes
    ) -> None:
        """Append a row."""
        self.streams.append(stream)
        self.messages.append(seq, time_ns, subject, data, headers)

    def extend(self, other: "ExportRows") -> None:
        """Append the rows of ``other``."""
        self.streams += other.streams
        self.messages.extend(other.messages)


class UnreadableRow(ValueError):
    """A row of an export file that is no message; the text says why."""


def named_headers(block: bytes) -> dict[str, list[str]] | None:
    """Return names with values, or None if the block could not be restored from them."""
    if not block:
        return {}
    try:
        block.decode()
        pairs = decode_headers(block).items()
    except (UnicodeDecodeError, ValueError):
        return None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found if block_of(found) == block else None


def block_of(headers: Mapping[str, Any]) -> bytes | None:
    """Return the block for names with values; None if they cannot be headers."""
    pairs: list[tuple[str, str]] = []
    for name, value in headers.items():
        several: Sequence[Any] = [value] if isinstance(value, str) else value
        if not isinstance(several, (list, tuple)) or not all(isinstance(v, str) for v in several):
            return None
        pairs += [(name, one) for one in several]
    try:
        return encode_headers(pairs)
    except ValueError:
        return None


def subject_text(subject: str) -> tuple[str, bytes | None]:
    """Return a subject as UTF-8 text, and its bytes if the text is not exact."""
    try:
        subject.encode()
    except UnicodeEncodeError:
        exact = subject.encode("utf-8", "surrogateescape")
        return exact.decode("utf-8", "replace"), exact
    return subject, None


def subject_of(text: Any, exact: bytes | None) -> str:
    """Return the subject of a row in the client's form."""
    if exact is not None:
        return exact.decode("utf-8", "surrogateescape")
    if not isinstance(text, str) or not text:
        raise UnreadableRow(f"subject is {text!r}: expected a string")
    return text


def headers_of(named: Any, block: bytes | None) -> bytes:
    """Return the header block of a row."""
    if block is not None:
        if not block.startswith(b"NATS/1.0") or not block.endswith(b"\r\n\r\n"):
            raise UnreadableRow("headers_block is not a block from NATS/1.0 to an empty line")
        return block
    if not named:
        return b""
    made = block_of(named) if isinstance(named, Mapping) else None
    if made is None:
        raise UnreadableRow("headers must map each name to a string or a list of strings")
    return made
