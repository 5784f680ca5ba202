"""Subjects and names: which are valid, which have wildcards, what is wrong with a bad name.

A subject is tokens separated by dots. ``*`` and ``>`` are wildcards only as whole tokens:
``f*o`` is a literal token (wire.md, Core protocol).
"""

import re
from typing import Final

from mypy_extensions import i64

DOT: Final = 0x2E
STAR: Final = 0x2A
GREATER: Final = 0x3E

_TAB: Final = 0x09
_LF: Final = 0x0A
_FF: Final = 0x0C
_CR: Final = 0x0D
_BLANK: Final = 0x20

NAME_LENGTH_MAX: Final = 255
"""Bytes in the name of a stream or consumer (wire.md, Limits and timings)."""

_NAME_REFUSED: Final = re.compile(r"[ \t\r\n\f.*>\\/]")
_BUCKET_REFUSED: Final = re.compile(r"[^A-Za-z0-9_-]")
_KEY_REFUSED: Final = re.compile(r"[^-/_=.A-Za-z0-9]")
_KEY_FILTER_REFUSED: Final = re.compile(r"[^-/_=.A-Za-z0-9*>]")
_KEY_RESERVED: Final = "_kv"


def is_literal(subject: bytes) -> bool:
    """Return whether no token of ``subject`` is a wildcard."""
    end: i64 = len(subject)
    index: i64 = 0
    while index < end:
        char: i64 = subject[index]
        if (
            char in (STAR, GREATER)
            and (index == 0 or subject[index - 1] == DOT)
            and (index + 1 == end or subject[index + 1] == DOT)
        ):
            return False
        index += 1
    return True


def has_empty_token(subject: bytes) -> bool:
    """Return whether ``subject`` is empty, starts or ends with a dot, or has two dots in a row."""
    return has_empty_token_from(subject, 0)


def has_empty_token_from(subject: bytes, start: i64) -> bool:
    """Return the same for the rest of ``subject`` from ``start`` on."""
    end: i64 = len(subject)
    index = start
    token_start = start
    while index < end:
        if subject[index] == DOT:
            if index == token_start:
                return True
            token_start = index + 1
        index += 1
    return index == token_start


def is_valid_subject(subject: bytes) -> bool:
    """Return whether ``subject`` may be subscribed to; wildcards are allowed, ``>`` only last."""
    end: i64 = len(subject)
    index: i64 = 0
    token_start: i64 = 0
    while index < end:
        char: i64 = subject[index]
        if char == DOT:
            if index == token_start:
                return False
            if index == token_start + 1 and subject[token_start] == GREATER:
                return False
            token_start = index + 1
        elif char <= _BLANK and _is_blank(char):
            return False
        index += 1
    return index != token_start


def is_valid_literal(subject: bytes) -> bool:
    """Return whether ``subject`` is valid and has no wildcard."""
    return is_valid_subject(subject) and is_literal(subject)


def stream_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a stream, or None (wire.md, Streams)."""
    return _name_problem(name)


def consumer_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a consumer, or None (wire.md, Consumers)."""
    return _name_problem(name)


def bucket_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a key-value or object bucket, or None (ADR-8, 1.0)."""
    if not name:
        return "it is empty"
    found = _BUCKET_REFUSED.search(name)
    if found is not None:
        return (
            f"character {found.start()} is {found[0]!r}; allowed are letters, digits, '_' and '-'"
        )
    return None


def key_problem(key: str) -> str | None:
    """Return what is wrong with a key to read or write, or None (ADR-8, 1.0)."""
    found = _KEY_REFUSED.search(key)
    if found is not None:
        return (
            f"character {found.start()} is {found[0]!r}; allowed are letters, digits and - / _ = ."
        )
    if key.startswith(_KEY_RESERVED):
        return f"keys that start with {_KEY_RESERVED!r} are reserved"
    return _dots_problem(key)


def key_filter_problem(pattern: str) -> str | None:
    """Return what is wrong with a pattern of keys (``*`` and ``>`` as whole tokens), or None."""
    found = _KEY_FILTER_REFUSED.search(pattern)
    if found is not None:
        return (
            f"character {found.start()} is {found[0]!r}; "
            "allowed are letters, digits, - / _ = . and the wildcards * and >"
        )
    parts = pattern.split(".")
    for index, part in enumerate(parts):
        if len(part) > 1 and ("*" in part or ">" in part):
            return f"token {index + 1} is {part!r}; a wildcard is a token of its own"
        if part == ">" and index + 1 < len(parts):
            return "'>' is not the last token"
    return _dots_problem(pattern)


def _name_problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    found = _NAME_REFUSED.search(name)
    if found is not None:
        return f"character {found.start()} is {found[0]!r}; blanks and . * > / \\ are not allowed"
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > NAME_LENGTH_MAX:
        return f"it has {size} bytes; {NAME_LENGTH_MAX} are allowed"
    return None


def _dots_problem(key: str) -> str | None:
    """Return which dots leave a token empty: such a key would be an unreadable subject."""
    if not key:
        return "it is empty"
    if key.startswith("."):
        return "it starts with a dot"
    if key.endswith("."):
        return "it ends with a dot"
    if ".." in key:
        return "it has two dots in a row"
    return None


def _is_blank(char: i64) -> bool:
    return char in (_BLANK, _TAB, _LF, _CR, _FF)
