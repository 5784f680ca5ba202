"""Subject transforms: rewrite a subject that matches a source pattern into a destination.

A destination is a subject whose tokens may be placeholders: ``$1`` or ``{{wildcard(1)}}`` for the
token that the first ``*`` of the source matched, and functions of such tokens (``partition``,
``split``, ``splitFromLeft`` ...; wire.md, Publishing). A ``>`` at the end of both keeps the rest
of the subject.
"""

import re
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal, is_valid_subject

_LITERAL: Final = 0
_WILDCARD: Final = 1
_PARTITION: Final = 2
_SPLIT: Final = 3
_SPLIT_FROM_LEFT: Final = 4
_SPLIT_FROM_RIGHT: Final = 5
_SLICE_FROM_LEFT: Final = 6
_SLICE_FROM_RIGHT: Final = 7
_LEFT: Final = 8
_RIGHT: Final = 9
_RANDOM: Final = 10
_REST: Final = 11

_FUNCTION: Final = re.compile(r"\{\{\s*(\w+)\s*\((.*)\)\s*\}\}", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BLANKS: Final = re.compile(r"[\t\n\f\r ]")
_COMMA: Final = re.compile(r",\s*", re.ASCII)
_FULL_WILDCARD: Final = ">"
_INT32_MAX: Final = 2**31 - 1

# The first letter of each word may be upper-case, as in nats-server.
_KINDS: Final = {
    "wildcard": _WILDCARD,
    "partition": _PARTITION,
    "split": _SPLIT,
    "splitfromleft": _SPLIT_FROM_LEFT,
    "splitfromright": _SPLIT_FROM_RIGHT,
    "slicefromleft": _SLICE_FROM_LEFT,
    "slicefromright": _SLICE_FROM_RIGHT,
    "left": _LEFT,
    "right": _RIGHT,
    "random": _RANDOM,
}
_SPELLING: Final = re.compile(
    r"[wW]ildcard|[pP]artition|[sS]plit|[sS](?:plit|lice)[fF]rom(?:[lL]eft|[rR]ight)"
    r"|[lL]eft|[rR]ight|[rR]andom"
)
_USAGE: Final = {
    _WILDCARD: "wildcard(n)",
    _PARTITION: "partition(count) or partition(count, n, ...)",
    _SPLIT: "split(n, delimiter)",
    _SPLIT_FROM_LEFT: "splitFromLeft(n, position)",
    _SPLIT_FROM_RIGHT: "splitFromRight(n, position)",
    _SLICE_FROM_LEFT: "sliceFromLeft(n, size)",
    _SLICE_FROM_RIGHT: "sliceFromRight(n, size)",
    _LEFT: "left(n, length)",
    _RIGHT: "right(n, length)",
    _RANDOM: "random(count)",
}

_INVALID_SUBJECT: Final = "invalid subject"
_INVALID: Final = "invalid mapping destination"
_INVALID_TRANSFORM: Final = f"{_INVALID}: invalid transform"
_UNKNOWN_FUNCTION: Final = f"{_INVALID}: unknown function"
_OUT_OF_RANGE: Final = f"{_INVALID}: wildcard index out of range"
_NOT_ENOUGH: Final = f"{_INVALID}: not enough arguments passed to the function"
_TOO_MANY: Final = f"{_INVALID}: too many arguments passed to the function"
_BAD_ARGUMENT: Final = f"{_INVALID}: function argument is invalid or in the wrong format"


class TransformError(ValueError):
    """An invalid source or destination.

    The message says where, and what was expected; ``wire_text`` is nats-server's wording, for the
    error replies 10155, 10156 and similar.
    """

    def __init__(self, message: str, wire_text: str) -> None:
        # Both are arguments of the exception, so that it pickles.
        super().__init__(message, wire_text)
        self.wire_text = wire_text

    def __str__(self) -> str:
        return str(self.args[0])


class _Part:
    """The generator of one token of the result."""

    def __init__(self, kind: int, text: bytes, tokens: list[int], number: int) -> None:
        self.kind: i64 = kind
        self.text: bytes = text  # the literal token, or the delimiter of split
        self.tokens: list[int] = tokens  # indexes of tokens of the subject, from 0
        self.number: i64 = number


class SubjectTransform:
    """A validated pair of source and destination. Raises ``TransformError`` if it is invalid.

    An empty source means ``>``. ``random_below(n)`` is needed for ``{{random(n)}}`` only and
    returns a number from 0 to n - 1.
    """

    def __init__(
        self,
        source: bytes,
        destination: bytes,
        random_below: Callable[[int], int] | None = None,
    ) -> None:
        self.source: bytes = source or b">"
        self.destination: bytes = destination
        self._random_below: Callable[[int], int] | None = random_below
        self._parts: list[_Part] = []
        self._rest_from: i64 = 0
        if not is_valid_subject(self.source):
            raise TransformError(
                f"bad transform source {_shown(source)}: expected tokens separated by dots, "
                "'>' only as the last one",
                f"{_INVALID_SUBJECT} {_text(source)}",
            )
        self._parts = _parse_destination(self.source, destination)
        if random_below is None and any(part.kind == _RANDOM for part in self._parts):
            raise TransformError(
                f"bad transform destination {_shown(destination)}: random() is not available here",
                f"{_UNKNOWN_FUNCTION} in {_text(destination)}",
            )
        self._rest_from = self.source.count(b".")
        self._is_identity: bool = self.source == b">" and destination == b">"

    def apply(self, subject: bytes) -> bytes | None:
        """Return the new subject, or None to leave ``subject`` unchanged.

        That is if it does not match the source, has a wildcard as a token (such subjects can be
        published), or if the result would have an empty token.
        """
        if self._is_identity:
            return subject
        if not matches(subject, self.source) or not is_literal(subject):
            return None
        tokens = subject.split(b".")
        result: list[bytes] = []
        for part in self._parts:
            if part.kind == _LITERAL:
                made = part.text
            elif part.kind == _WILDCARD:
                made = tokens[part.tokens[0]]
            elif part.kind == _REST:
                made = b".".join(tokens[self._rest_from :])
            elif part.kind == _PARTITION:
                made = _partition(part, subject, tokens)
            elif part.kind == _RANDOM:
                made = self._random(part.number)
            else:
                made = _cut(part, tokens[part.tokens[0]])
            if not made:
                return None
            result.append(made)
        return b".".join(result)

    def _random(self, count: i64) -> bytes:
        if count == 0 or self._random_below is None:
            return b"0"
        return b"%d" % self._random_below(abs(int(count)))


def check_transform(source: bytes, destination: bytes) -> None:
    """Raise ``TransformError`` for a pair that cannot be used where messages are stored."""
    SubjectTransform(source, destination, _lowest)


def _lowest(_below: int) -> int:
    return 0


def fnv1a_32(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash, which determines partitions."""
    value: i64 = 0x811C9DC5
    for index in range(len(data)):
        char: i64 = data[index]
        value = ((value ^ char) * 0x01000193) & 0xFFFFFFFF
    return int(value)


def _partition(part: _Part, subject: bytes, tokens: list[bytes]) -> bytes:
    """Return the partition number: nats-server hashes the tokens without separators."""
    if part.number == 0:
        return b"0"
    key = b"".join([tokens[index] for index in part.tokens]) if part.tokens else subject
    # nats-server reads the count as an unsigned 32-bit number, so -1 is the largest one.
    return b"%d" % (fnv1a_32(key) % (int(part.number) & 0xFFFFFFFF))


def _cut(part: _Part, token: bytes) -> bytes:
    """Return ``token`` split as the function says; a token that is too short is unchanged."""
    kind = part.kind
    if kind == _SPLIT:
        # nats-server produces an empty token for two delimiters at the start ("--a" becomes ".a");
        # no client could subscribe to that, so it is left out like every other empty piece.
        return b".".join([piece for piece in _split(token, part.text) if piece])
    size: i64 = len(token)
    at = part.number
    if at <= 0 or at >= size:
        return token
    if kind == _LEFT:
        return token[:at]
    if kind == _RIGHT:
        return token[size - at :]
    if kind == _SPLIT_FROM_LEFT:
        return token[:at] + b"." + token[at:]
    if kind == _SPLIT_FROM_RIGHT:
        return token[: size - at] + b"." + token[size - at :]
    start: i64 = size % at if kind == _SLICE_FROM_RIGHT else 0
    pieces: list[bytes] = [token[:start]] if start > 0 else []
    while start < size:
        pieces.append(token[start : start + at])
        start += at
    return b".".join(pieces)


def _split(token: bytes, delimiter: bytes) -> list[bytes]:
    if delimiter:
        return token.split(delimiter)
    # Without a delimiter nats-server splits after every character.
    text = token.decode("utf-8", "surrogateescape")
    return [char.encode("utf-8", "surrogateescape") for char in text]


def _parse_destination(source: bytes, destination: bytes) -> list[_Part]:
    """Return the parts of a destination; raises ``TransformError`` naming the invalid token."""
    if not destination:
        raise TransformError("bad transform destination: it is empty", _INVALID_TRANSFORM)
    wildcards = [index for index, token in enumerate(source.split(b".")) if token == b"*"]
    shapes: list[tuple[int, list[str]]] = []
    tokens = destination.split(b".")
    for index, token in enumerate(tokens):
        if not token or (index > 0 and tokens[index - 1] == b">"):
            expected = "a token that is not empty" if not token else "nothing after '>'"
            raise TransformError(
                f"{_where(destination, index)}: expected {expected}",
                f"{_INVALID_TRANSFORM} in {_text(token)}" if token else _INVALID_TRANSFORM,
            )
        if token == b"*":
            raise TransformError(
                f"{_where(destination, index)}: expected a placeholder such as $1 instead of '*'",
                _INVALID_SUBJECT,
            )
        shapes.append(_parse_token(_where(destination, index), _text(token)))
    # Before the arguments of functions are checked, as in nats-server.
    if (tokens[-1] == b">") != (source == b">" or source.endswith(b".>")):
        raise TransformError(
            f"bad transform destination {_shown(destination)}: source {_shown(source)} and "
            "destination must both end in '>', or neither",
            _INVALID_SUBJECT,
        )
    parts: list[_Part] = []
    for index, token in enumerate(tokens):
        kind, arguments = shapes[index]
        where = _where(destination, index)
        parts.append(_part_of(where, _text(token), kind, arguments, wildcards, source))
    return parts


def _parse_token(where: str, token: str) -> tuple[int, list[str]]:
    """Return the kind of a token, and its arguments if it is a function."""
    if token == _FULL_WILDCARD:
        return _REST, []
    kind = _LITERAL
    arguments: list[str] = []
    if len(token) > 1 and token[0] == "$" and _INTEGER.fullmatch(token[1:]):
        kind, arguments = _WILDCARD, [token[1:]]
    elif len(token) > 4 and token.startswith("{{") and token.endswith("}}"):
        found = _FUNCTION.fullmatch(token)
        if found is None or not _SPELLING.fullmatch(found[1]):
            raise TransformError(
                f"{where}: unknown function; expected one of {', '.join(_USAGE.values())}",
                f"{_UNKNOWN_FUNCTION} in {token}",
            )
        kind, arguments = _KINDS[found[1].lower()], _COMMA.split(found[2])
    elif _BLANKS.search(token):
        raise TransformError(f"{where}: expected a token without blanks", _INVALID_TRANSFORM)
    return kind, arguments


def _part_of(
    where: str, token: str, kind: int, arguments: list[str], wildcards: list[int], source: bytes
) -> _Part:
    if kind == _REST:
        return _Part(_REST, b"", [], 0)
    if kind == _LITERAL:
        return _Part(_LITERAL, token.encode("utf-8", "surrogateescape"), [], 0)
    part, picked = _parse_arguments(where, token, kind, arguments)
    if is_literal(source):
        # No wildcards: nats-server accepts only these two, on the whole subject.
        if kind not in (_PARTITION, _RANDOM):
            raise TransformError(
                f"{where}: source {_shown(source)} has no wildcard to take a token from",
                f"{_OUT_OF_RANGE} in {token}",
            )
        return part
    for number in picked:
        if number > len(wildcards):
            raise TransformError(
                f"{where}: wildcard {number} is out of range; source {_shown(source)} has "
                f"{len(wildcards)} of '*'",
                f"{_OUT_OF_RANGE} in {token}: [{number}]",
            )
        # nats-server reads wildcard 0 (or less) as the first token of the subject.
        part.tokens.append(wildcards[number - 1] if number > 0 else 0)
    return part


def _parse_arguments(
    where: str, token: str, kind: int, arguments: list[str]
) -> tuple[_Part, list[int]]:
    """Return the part with its number and text, and the indexes of the wildcards it uses."""
    usage = f"{where}: expected {_USAGE[kind]}"
    if kind == _PARTITION:
        numbers = [_parse_int(usage, token, argument) for argument in arguments]
        return _Part(kind, b"", [], numbers[0]), numbers[1:]
    wanted = 1 if kind in (_WILDCARD, _RANDOM) else 2
    given = 0 if kind == _WILDCARD and arguments == [""] else len(arguments)
    if given != wanted:
        # nats-server says "not enough" for random(), whatever the number.
        text = _TOO_MANY if given > wanted and kind != _RANDOM else _NOT_ENOUGH
        raise TransformError(
            f"{usage}, with {wanted} argument{'s' if wanted > 1 else ''}; got {given}",
            f"{text} in {token}",
        )
    first = _parse_int(usage, token, arguments[0])
    if kind == _WILDCARD:
        return _Part(kind, b"", [], 0), [first]
    if kind == _RANDOM:
        return _Part(kind, b"", [], first), []
    if kind == _SPLIT:
        if " " in arguments[1]:
            raise TransformError(
                f"{usage}; a delimiter may not contain blanks", f"{_BAD_ARGUMENT} in {token}"
            )
        return _Part(kind, arguments[1].encode("utf-8", "surrogateescape"), [], 0), [first]
    return _Part(kind, b"", [], _parse_int(usage, token, arguments[1])), [first]


def _parse_int(usage: str, token: str, argument: str) -> int:
    text = argument.strip(" ")
    if _INTEGER.fullmatch(text):
        number = int(text)
        if abs(number) <= _INT32_MAX:
            return number
    raise TransformError(
        f"{usage}; {argument!r} is not an integer of 32 bits", f"{_BAD_ARGUMENT} in {token}"
    )


def _where(destination: bytes, index: int) -> str:
    token = _text(destination.split(b".")[index])
    return f"bad transform destination {_shown(destination)}, token {index + 1} ({token!r})"


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "surrogateescape")


def _shown(subject: bytes) -> str:
    return repr(_text(subject))
