"""Encode, decode, search and change header blocks.

A block is ``NATS/1.0[ status[ text]] CRLF``, then lines ``Name: value CRLF``, then ``CRLF``. The
functions for servers work on the bytes as received and read them as nats-server does: a name is
case-sensitive and ends right before its colon, blanks before a value are skipped, blanks after it
belong to it, and only CRLF ends a line. No block is refused: nats-server does not check them.
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from jetspark.headers.headers import Headers

VERSION: Final = b"NATS/1.0"
EMPTY_BLOCK: Final = b"NATS/1.0\r\n\r\n"

_VERSION_LINE: Final = b"NATS/1.0\r\n"
_CRLF: Final = b"\r\n"
_BLOCK_END: Final = b"\r\n\r\n"
_NATS: Final = b"Nats-"
_NATS_SIZE: Final = 5
_UPPER_N: Final = 0x4E
_CR: Final = 0x0D
_LF: Final = 0x0A
_BLANK: Final = 0x20
_COLON: Final = 0x3A
# A longer block is searched with ``bytes.find``: byte by byte, 16 MB of headers (with a
# ``max_payload`` that allows them) would occupy the loop for 50 ms. For a short one, a call costs
# more than the search.
_LONG: Final[i64] = 4096


def find_value(block: bytes, name: bytes) -> bytes | None:
    """Return the first value of the header ``name``, or None; an empty value is ``b""``.

    This is how nats-server reads headers from clients.
    """
    size: i64 = len(name)
    end: i64 = len(block)
    if size == 0:
        return None
    if end > _LONG:
        found = block.find(_CRLF + name + b":")
        return None if found < 0 else _value_at(block, found + 3 + size)
    first: i64 = name[0]
    at = _next_line(block, 0)
    while at + size < end:
        if block[at] == first and block[at + size] == _COLON and block[at : at + size] == name:
            return _value_at(block, at + size + 1)
        at = _next_line(block, at)
    return None


def has_nats_headers(block: bytes) -> bool:
    """Return whether the name of a header starts with ``Nats-``."""
    end: i64 = len(block)
    at = _next_line(block, 0)
    while at + _NATS_SIZE < end:
        if block[at] == _UPPER_N and block[at : at + _NATS_SIZE] == _NATS:
            return True
        at = _next_line(block, at)
    return False


def nats_pairs(block: bytes) -> list[bytes]:
    """Return name, value, name, value ... of the headers whose name starts with ``Nats-``.

    One pass, for callers that would otherwise search for many names (hot-path.md, Rules).
    """
    pairs: list[bytes] = []
    end: i64 = len(block)
    at = _next_line(block, 0)
    while at + _NATS_SIZE < end:
        if block[at] == _UPPER_N and block[at : at + _NATS_SIZE] == _NATS:
            colon = at + _NATS_SIZE
            while colon < end and block[colon] != _COLON and block[colon] != _CR:
                colon += 1
            if colon < end and block[colon] == _COLON:
                pairs.append(block[at:colon])
                pairs.append(_value_at(block, colon + 1))
        at = _next_line(block, at)
    return pairs


def strip_status(block: bytes) -> bytes:
    """Return ``block`` without status and text; empty if it has no header.

    This is what a stream stores of a published message (wire.md, Publishing).
    """
    end: i64 = len(block)
    if end <= 8 or block[8] == _CR or not block.startswith(VERSION):
        return block
    at: i64 = 8
    while at < end and block[at] != _CR:
        at += 1
    if at == end:
        return block
    if block[at:] == _BLOCK_END:
        return b""
    return VERSION + block[at:]


def append_lines(block: bytes, lines: bytes) -> bytes:
    """Return ``block`` with ``lines``, each with its CRLF, after its headers.

    An empty block becomes a new one; a block without its final empty line keeps its content.
    """
    if len(block) == 0:
        return _VERSION_LINE + lines + _CRLF
    if block.endswith(_BLOCK_END):
        return block[:-2] + lines + _CRLF
    if block.endswith(_CRLF):
        return block + lines + _CRLF
    return block + _CRLF + lines + _CRLF


def remove_header(block: bytes, name: bytes) -> bytes:
    """Return ``block`` without every header ``name``; empty if no header is left."""
    return _remove_lines(block, name + b":")


def remove_headers_starting(block: bytes, prefix: bytes) -> bytes:
    """Return ``block`` without the headers that start with ``prefix``; empty if none is left."""
    return _remove_lines(block, prefix)


def encode_headers(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return the block for ``pairs``, in order; empty bytes if there are none.

    Leading blanks of a value are sent, but every receiver skips them. Raises ``ValueError``
    for a name or a value that cannot be sent.
    """
    lines: list[bytes] = [_VERSION_LINE]
    for name, value in pairs:
        problem = header_name_problem(name)
        if problem is not None:
            raise ValueError(f"bad header name {name!r}: {problem}")
        problem = header_value_problem(value)
        if problem is not None:
            raise ValueError(f"bad value of header {name!r}: {problem}")
        lines.append(f"{name}: {value}\r\n".encode("utf-8", "surrogateescape"))
    if len(lines) == 1:
        return b""
    lines.append(_CRLF)
    return b"".join(lines)


def decode_headers(block: bytes) -> Headers:
    """Return the headers of ``block`` in order, without its status (``parse_status``).

    Nothing is lost. Bytes that are not UTF-8 become surrogates, which ``encode_headers`` turns
    back into the same bytes. A line without a colon becomes a name with an empty value.
    """
    pairs: list[tuple[str, str]] = []
    for index, line in enumerate(block.split(_CRLF)):
        if not line or (index == 0 and line.startswith(VERSION)):
            continue
        name, _, value = line.partition(b":")
        pairs.append(
            (
                name.decode("utf-8", "surrogateescape"),
                value.lstrip(b" \t").decode("utf-8", "surrogateescape"),
            )
        )
    return Headers(pairs)


def header_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a header, or None."""
    if not name:
        return "it is empty"
    for index, char in enumerate(name):
        if not "!" <= char <= "~" or char == ":":
            return (
                f"character {index} is {char!r}; "
                "allowed are printable ASCII characters except blank and colon"
            )
    return None


def header_value_problem(value: str) -> str | None:
    """Return what is wrong with the value of a header, or None."""
    for index, char in enumerate(value):
        if char in {"\r", "\n"}:
            return f"character {index} is {char!r}; a value is one line"
        point = ord(char)
        if 0xD800 <= point <= 0xDFFF and not 0xDC80 <= point <= 0xDCFF:
            return f"character {index} is {char!r}, a lone surrogate, which cannot be encoded"
    return None


def _next_line(block: bytes, start: i64) -> i64:
    """Return the index after the first CRLF from ``start`` on, or the length of ``block``."""
    last: i64 = len(block) - 1
    index = start
    while index < last:
        if block[index] == _CR and block[index + 1] == _LF:
            return index + 2
        index += 1
    return last + 1


def _value_at(block: bytes, start: i64) -> bytes:
    """Return the value after the colon that is right before ``start``."""
    end: i64 = len(block)
    while start < end and block[start] == _BLANK:
        start += 1
    if end > _LONG:
        stop: i64 = block.find(_CRLF, int(start))
        return block[start:] if stop < 0 else block[start:stop]
    stop = start
    while stop < end:
        if block[stop] == _CR and stop + 1 < end and block[stop + 1] == _LF:
            break
        stop += 1
    return block[start:stop]


def _remove_lines(block: bytes, start: bytes) -> bytes:
    kept: list[bytes] = []
    end: i64 = len(block)
    size: i64 = len(start)
    at = _next_line(block, 0)
    kept_from: i64 = 0
    found = False
    while at < end:
        following = _next_line(block, at)
        if block[at : at + size] == start:
            kept.append(block[kept_from:at])
            kept_from = following
            found = True
        at = following
    if not found:
        return block
    kept.append(block[kept_from:])
    result = b"".join(kept)
    return b"" if len(result) <= len(EMPTY_BLOCK) else result
