"""A tolerant decoder like Go's, for direct gets, pulls, ``-NAK``, RESET and UNPIN.

The case of keys is ignored, null means absent, unknown keys are ignored, invalid UTF-8 becomes
U+FFFD.
``strict.py`` reads the other requests.
"""

import json
import re
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from jetspark.api.base import ApiStruct, decoder, timestamp_hook
from jetspark.api.unicode import unicode_text

__all__ = ["Tolerant"]

_M = TypeVar("_M", bound=ApiStruct)

SIZE_MAX: Final = 1024 * 1024
# Bodies up to this size take a few milliseconds at most, whatever they contain.
AT_ONCE_MAX: Final = 16 * 1024

_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

_MINUS_ZERO: Final = re.compile(rb"-0(\s*[,}])")

# The errors a decoder may raise: for thousands of digits, deep nesting, invalid UTF-8.
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class Tolerant(Generic[_M]):
    """The decoder of one model."""

    __slots__ = ("_decode", "_model")

    def __init__(self, model: type[_M]) -> None:
        self._model: Final = model
        self._decode: Final = decoder(model).decode

    def decode(self, body: bytes) -> _M:
        """Decode a body into the model; raises ``msgspec.ValidationError`` if that fails."""
        if len(body) > AT_ONCE_MAX:
            return self._long(body)
        if body.islower() and b"-0" not in body:  # what clients send: lower-case keys
            try:
                return self._decode(body)
            except _UNREADABLE:
                pass
        try:
            text = unicode_text(body).strip(" \t\r\n")
            if b"-0" in body:
                # An error where a number is unsigned, as in nats-server.
                self._convert(self._whole(_PARSER_OF_ZEROS.decode(text) or _Pairs()))
            value = _PARSER.decode(text)
            return self._convert(self._whole(value)) if value is not None else self._model()
        except RecursionError:
            raise msgspec.ValidationError("too many levels of nesting") from None
        except _UNREADABLE as error:
            raise msgspec.ValidationError(str(error)) from None

    def _long(self, body: bytes) -> _M:
        """Decode a long body, which must be in the form clients send: all others take too long."""
        if len(body) > SIZE_MAX:
            text = f"the request has {len(body)} bytes; the limit is {SIZE_MAX}"
            raise msgspec.ValidationError(text)
        try:
            if any(not key.islower() for key in _KEYS.decode(body)):
                raise msgspec.ValidationError("the keys of a long request must be lower-case")
            if b"-0" in body:
                self._decode(_MINUS_ZERO.sub(rb"-1\1", body))
            return self._decode(body)
        except _UNREADABLE as error:
            raise msgspec.ValidationError(str(error)) from None

    def _whole(self, value: Any) -> Any:
        """Drop nulls; every duplicate of a key is checked and the last one counts."""
        if not isinstance(value, _Pairs):
            return value
        found: dict[str, Any] = {}
        for name, item in value:
            key = name.lower()
            if key in found:
                self._convert({key: found[key]})
            if item is not None:
                found[key] = _item(item)
        return found

    def _convert(self, value: Any) -> _M:
        return msgspec.convert(value, self._model, dec_hook=timestamp_hook)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys in order, including duplicates."""

    __slots__ = ()


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _below_zero(text: str) -> int:
    return -1 if text == "-0" else int(text)


_PARSER: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_not_a_number)
_PARSER_OF_ZEROS: Final = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_constant=_not_a_number, parse_int=_below_zero
)


def _item(value: Any) -> Any:
    """Convert a field; null in an array of strings becomes an empty string."""
    if isinstance(value, _Pairs):
        return dict(value)
    if isinstance(value, list):
        return ["" if item is None else item for item in value]
    return value
