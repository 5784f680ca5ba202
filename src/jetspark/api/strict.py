"""A strict decoder for ``$JS.API`` requests, like the released server's.

Keys are matched case-insensitively, nulls are dropped (but are an error for an enumeration), the
last of duplicate keys counts, the first unknown key at any depth is an error that names it,
``1e3`` and ``10.0`` are not integers, and nothing may follow the value. An empty body is a request
with all defaults. All other decoders in jetspark are tolerant.

Differences from nats-server 2.15.1, observed with the bodies of the unit tests: it reads a second
value after the first instead of refusing it, merges duplicate objects, accepts limits beyond
2**63 - 1 and some times that RFC 3339 forbids (``T0:00:00Z``, a comma before the fraction), and
refuses escaped letters in words. Both refuse ``-0`` where a number is unsigned.
"""

import codecs
import json
import re
from collections.abc import Generator
from enum import Enum
from functools import cache
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import inspect

from jetspark.api.base import INT64_MIN, ApiStruct, timestamp_hook
from jetspark.api.enums import DeliverPolicy, Discard, PersistMode
from jetspark.api.json_steps import JsonSteps
from jetspark.api.stream import StreamConfig, StreamCreateRequest, StreamSource
from jetspark.api.unicode import unicode_text
from jetspark.steps import USUAL, Pace, rest

__all__ = ["AT_ONCE_MAX", "DEPTH_MAX", "SIZE_MAX", "InvalidRequest", "decode", "decoding"]

# The default max_payload; a server with a larger one passes its own. Reading a body of this size
# takes at most half a second, in steps (``decoding``).
SIZE_MAX: Final = 1024 * 1024
# Bodies up to this size are read in one turn of the loop.
AT_ONCE_MAX: Final = 16 * 1024
# The number of objects in the arrays of one request: sources and subject transforms. A stream
# checks every source with every group that it writes.
OBJECTS_MAX: Final = 512
# Objects and arrays that such a request may need: each source may have three.
_CONTAINERS_MAX: Final = 8 * OBJECTS_MAX
# The deepest request, a source's transform inside a stream's configuration, has 6 levels.
DEPTH_MAX: Final = 32
_UINT64_MAX: Final = 2**64 - 1
# The longest string in a body that is read in steps: twice the limit of all metadata, so that
# excess metadata gets its own error.
TEXT_MAX: Final = 256 * 1024
_VALUES_PER_STEP: Final = 256
# Length of a quotation from a request in an error.
_QUOTED_MAX: Final = 64

# ADR-8 uses the field's old name.
_ALIASES: Final[dict[type, dict[str, str]]] = {
    StreamConfig: {"rollup_hdrs": "allow_rollup_hdrs"},
    StreamCreateRequest: {"rollup_hdrs": "allow_rollup_hdrs"},
}
# Fields that only clients need, to return what a cluster sent: our server refuses them as unknown.
_NOT_SERVED: Final[dict[type, tuple[str, ...]]] = {StreamSource: ("consumer",)}
# Spellings that the released server accepts besides the words of the enumeration.
_SPELLINGS: Final[dict[tuple[type, str], str]] = {
    (DeliverPolicy, "undefined"): "all",
    (PersistMode, ""): "default",
}

_MINUS_ZERO: Final = re.compile(r"-0\s*[,}\]]")
_ONLY_BLANKS: Final = re.compile(r"[ \t\r\n]*\Z")
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)

_M = TypeVar("_M", bound=ApiStruct)


class InvalidRequest(ValueError):
    """A request that cannot be read: error 10025, whose ``err`` is ``reason``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason: Final = reason


def decode(
    body: bytes, model: type[_M], *, size_max: int = SIZE_MAX, depth_max: int = DEPTH_MAX
) -> _M:
    """Turn the body of a request into ``model``; raise `InvalidRequest` if it is not one."""
    if len(body) > size_max:
        raise InvalidRequest(f"the request has {len(body)} bytes; the limit is {size_max}")
    if not body.strip(b" \t\r\n"):
        return model()
    _check_depth(body, depth_max)
    value = _parse(body)
    if value is None:
        return model()
    return _converted(_struct(value, model, "the request"), model)


def decoding(body: bytes, model: type[_M]) -> Generator[None, None, _M]:
    """Do what ``decode`` does in steps (``jetspark/steps.py``)."""
    if len(body) > SIZE_MAX:
        raise InvalidRequest(f"the request has {len(body)} bytes; the limit is {SIZE_MAX}")
    reader = codecs.getincrementaldecoder("utf-8")("replace")
    parts = []
    for start in range(0, len(body), AT_ONCE_MAX):
        parts.append(reader.decode(body[start : start + AT_ONCE_MAX]))
        yield
    parts.append(reader.decode(b"", final=True))
    text = "".join(parts)
    if _ONLY_BLANKS.match(text) is not None:
        return model()
    parser = JsonSteps(text, _parser_of(text), _Pairs, DEPTH_MAX, _CONTAINERS_MAX, TEXT_MAX)
    while not _reads_on(parser):
        yield
    if parser.too_deep:
        raise InvalidRequest(f"more than {DEPTH_MAX} levels of nesting")
    if parser.too_many:
        raise InvalidRequest(
            f"more than {_CONTAINERS_MAX} objects and arrays; at most {OBJECTS_MAX} sources and "
            "subject transforms are allowed"
        )
    if parser.value is None:
        return model()
    if parser.too_long:
        raise InvalidRequest(f"a string has {parser.too_long} characters; the limit is {TEXT_MAX}")
    shaped = yield from _Shaping().of_struct(parser.value, model, "the request")
    request = _converted(shaped, model)
    yield from rest(len(body) // USUAL)
    return request


def _converted(shaped: dict[str, Any], model: type[_M]) -> _M:
    try:
        return msgspec.convert(shaped, model, dec_hook=timestamp_hook)
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from None


def _reads_on(parser: JsonSteps) -> bool:
    try:
        return parser.step(_VALUES_PER_STEP)
    except ValueError as error:
        raise _unreadable(error) from None


def _check_depth(body: bytes, depth_max: int) -> None:
    """Refuse deep nesting before a recursive parser would reach it."""
    if body.count(b"{") + body.count(b"[") <= depth_max:
        return
    depth = 0
    for token in _TOKENS.finditer(body):
        first = body[token.start()]
        if first in b"[{":
            depth += 1
            if depth > depth_max:
                raise InvalidRequest(f"more than {depth_max} levels of nesting")
        elif first in b"]}":
            depth -= 1


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys in order, including duplicates."""

    __slots__ = ()


def _not_a_number(text: str) -> NoReturn:
    raise InvalidRequest(f"{text} is not JSON")


class _MinusZero(int):
    """``-0``: an integer, but not an unsigned one."""

    __slots__ = ()


def _number(text: str) -> int:
    return _MinusZero() if text == "-0" else int(text)


_PARSER: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_not_a_number)
# Slower, and needed for hardly any request.
_PARSER_OF_ZEROS: Final = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_constant=_not_a_number, parse_int=_number
)


def _parser_of(text: str) -> json.JSONDecoder:
    return _PARSER if _MINUS_ZERO.search(text) is None else _PARSER_OF_ZEROS


def _parse(body: bytes) -> Any:
    text = unicode_text(body).strip(" \t\r\n")
    try:
        return _parser_of(text).decode(text)
    except ValueError as error:
        raise _unreadable(error) from None


def _unreadable(error: ValueError) -> InvalidRequest:
    if isinstance(error, InvalidRequest):
        return error
    if isinstance(error, json.JSONDecodeError):
        return InvalidRequest(f"{error.msg} at offset {error.pos}")
    return InvalidRequest("a number is too long")  # Python refuses to convert thousands of digits.


@cache
def _fields(model: type) -> dict[str, tuple[str, inspect.Type]]:
    """Return the fields of ``model`` by case-folded key: the name and the type."""
    info = inspect.type_info(model)
    assert isinstance(info, inspect.StructType)
    fields = {field.encode_name: (field.name, _held(field.type)) for field in info.fields}
    for alias, name in _ALIASES.get(model, {}).items():
        fields[alias] = fields[name]
    for name in _NOT_SERVED.get(model, ()):
        del fields[name]
    return fields


def _held(info: inspect.Type) -> inspect.Type:
    """Return the one type of a field apart from null and *unset*."""
    if not isinstance(info, inspect.UnionType):
        return info
    types = [one for one in info.types if not isinstance(one, inspect.NoneType)]
    assert len(types) == 1, f"a request field holds one type, not {info}"
    return types[0]


def _fold(key: str) -> str:
    # Go's case folding, which the released server uses, also maps the long s and the Kelvin sign
    # to letters.
    return key.replace("\u017f", "s").replace("\u212a", "k").lower()


def _struct(value: Any, model: type, name: str) -> dict[str, Any]:
    if not isinstance(value, _Pairs):
        _refuse("an object", name, value)
    fields = _fields(model)
    result: dict[str, Any] = {}
    for key, item in value:
        found = fields.get(_fold(key))
        if found is None:
            raise InvalidRequest(f'json: unknown field "{key[:_QUOTED_MAX]}"')
        field, info = found
        if item is not None:
            result[field] = _shape(item, info, field)
        elif isinstance(info, inspect.EnumType):
            _refuse("one of its words", field, item)
    return result


class _Shaping:
    """``_struct`` in steps.

    Not used for every request: a typical one takes 17 us with ``_struct`` and 24 with this.
    """

    def __init__(self) -> None:
        self._pace = Pace()
        self._objects = 0

    def of_struct(
        self, value: Any, model: type, name: str
    ) -> Generator[None, None, dict[str, Any]]:
        if not isinstance(value, _Pairs):
            _refuse("an object", name, value)
        fields = _fields(model)
        result: dict[str, Any] = {}
        for key, item in value:
            if self._pace.is_due():
                yield
            found = fields.get(_fold(key))
            if found is None:
                raise InvalidRequest(f'json: unknown field "{key[:_QUOTED_MAX]}"')
            field, info = found
            if item is not None:
                result[field] = yield from self._of(item, info, field)
            elif isinstance(info, inspect.EnumType):
                _refuse("one of its words", field, item)
        return result

    def _of(self, value: Any, info: inspect.Type, name: str) -> Generator[None, None, Any]:
        if isinstance(info, inspect.StructType):
            return (yield from self.of_struct(value, info.cls, name))
        if isinstance(info, inspect.VarTupleType):
            return (yield from self._of_array(value, _held(info.item_type), name))
        if isinstance(info, inspect.DictType):
            return (yield from self._of_map(value, _held(info.value_type), name))
        return _shape(value, info, name)

    def _of_array(
        self, value: Any, held: inspect.Type, name: str
    ) -> Generator[None, None, list[Any]]:
        if isinstance(value, _Pairs) or not isinstance(value, list):
            _refuse("an array", name, value)
        if isinstance(held, inspect.StructType):
            self._objects += len(value)
            if self._objects > OBJECTS_MAX:
                raise InvalidRequest(
                    f"{name}: {self._objects} entries in the request; at most {OBJECTS_MAX} "
                    "sources and subject transforms are allowed"
                )
        few = len(value) <= 128 * 1024
        if few and isinstance(held, inspect.StrType) and set(map(type, value)) <= {str}:
            yield from rest(len(value) // 8)
            return value
        result: list[Any] = []
        for item in value:
            if self._pace.is_due():
                yield
            shaped = _zero(held) if item is None else (yield from self._of(item, held, name))
            result.append(shaped)
        return result

    def _of_map(
        self, value: Any, held: inspect.Type, name: str
    ) -> Generator[None, None, dict[str, Any]]:
        if not isinstance(value, _Pairs):
            _refuse("an object", name, value)
        result: dict[str, Any] = {}
        for key, item in value:
            if self._pace.is_due():
                yield
            place = f"{name}.{key[:_QUOTED_MAX]}"
            result[key] = _zero(held) if item is None else _shape(item, held, place)
        return result


def _shape(value: Any, info: inspect.Type, name: str) -> Any:
    """Rebuild ``value`` as msgspec converts it: plain dicts, exact names, checked types.

    Everything is checked here, including values that a duplicate key replaces.
    """
    match info:
        case inspect.StructType():
            return _struct(value, info.cls, name)
        case inspect.EnumType():
            return _word(value, info.cls, name)
        case inspect.VarTupleType():
            return _array(value, _held(info.item_type), name)
        case inspect.DictType():
            return _map(value, _held(info.value_type), name)
        case inspect.IntType():
            return _integer(value, info, name)
        case inspect.BoolType():
            return value if isinstance(value, bool) else _refuse("true or false", name, value)
        case inspect.StrType():
            return value if isinstance(value, str) else _refuse("text", name, value)
        case inspect.CustomType():
            return _time(value, info.cls, name)
    raise AssertionError(f"{name} is a {info}, which no request holds")


def _array(value: Any, held: inspect.Type, name: str) -> list[Any]:
    if isinstance(value, _Pairs) or not isinstance(value, list):
        _refuse("an array", name, value)
    if isinstance(held, inspect.StrType) and set(map(type, value)) <= {str}:
        return value  # there may be very many
    return [_zero(held) if item is None else _shape(item, held, name) for item in value]


def _map(value: Any, held: inspect.Type, name: str) -> dict[str, Any]:
    if not isinstance(value, _Pairs):
        _refuse("an object", name, value)
    if isinstance(held, inspect.StrType) and {type(item) for _, item in value} <= {str}:
        return dict(value)
    return {
        key: _zero(held) if item is None else _shape(item, held, f"{name}.{key[:_QUOTED_MAX]}")
        for key, item in value
    }


def _zero(info: inspect.Type) -> Any:
    """Return the meaning of null inside an array or a map: the empty value."""
    if isinstance(info, inspect.StructType):
        return {}
    return "" if isinstance(info, inspect.StrType) else 0


def _integer(value: Any, info: inspect.IntType, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse("an integer", name, value)
    lower = INT64_MIN if info.ge is None else info.ge
    if value < lower or (lower == 0 and isinstance(value, _MinusZero)):
        _refuse(f"at least {lower}", name, value)
    upper = _UINT64_MAX if info.le is None else info.le
    if value > upper:
        _refuse(f"at most {upper}", name, value)
    return int(value)


def _time(value: Any, wanted: type, name: str) -> str:
    try:
        timestamp_hook(wanted, value)
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}") from None
    return str(value)


def _word(value: Any, words: type[Enum], name: str) -> str:
    word = value
    if isinstance(word, str):
        if words is Discard:  # The released server ignores the case of these two.
            word = word.lower()
        word = _SPELLINGS.get((words, word), word)
        if word in words._value2member_map_:
            return word
    return _refuse("one of " + ", ".join(f'"{member.value}"' for member in words), name, value)


def _refuse(expected: str, name: str, value: Any) -> NoReturn:
    if isinstance(value, _Pairs):
        got = "an object"
    elif isinstance(value, list):
        got = "an array"
    elif isinstance(value, _MinusZero):
        got = "-0"
    else:
        got = json.dumps(value)[:_QUOTED_MAX]
    raise InvalidRequest(f"{name}: expected {expected}, got {got}")
