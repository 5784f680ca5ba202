"""Reading requests as Go's JSON reader does: direct gets, pulls, ``-NAK``, RESET and UNPIN.

Keys in any case, null as absent, unknown keys passed over, broken UTF-8 as U+FFFD. ``strict.py``
reads the other requests.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

from jetspark.api.base import ApiStruct, decoder, timestamp_hook
from jetspark.api.unicode import unicode_text

__all__ = ["Tolerant"]

_M = TypeVar("_M", bound=ApiStruct)

# What one of these readers may raise: for thousands of digits, for deep nesting, for bad UTF-8.
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class Tolerant(Generic[_M]):
    """The reader of one model."""

    __slots__ = ("_decode", "_model")

    def __init__(self, model: type[_M]) -> None:
        self._model: Final = model
        self._decode: Final = decoder(model).decode

    def decode(self, body: bytes) -> _M:
        """Turn a body into the model; raises ``msgspec.ValidationError`` if that cannot be."""
        if body.islower():  # what clients send: no key in another case
            try:
                return self._decode(body)
            except _UNREADABLE:
                pass
        try:
            value = msgspec.json.decode(unicode_text(body))
            if value is None:
                return self._model()
            return msgspec.convert(_without_nulls(value), self._model, dec_hook=timestamp_hook)
        except RecursionError:
            raise msgspec.ValidationError("too many levels of nesting") from None
        except _UNREADABLE as error:
            raise msgspec.ValidationError(str(error)) from None


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key.lower(): _item(item) for key, item in value.items() if item is not None}


def _item(value: Any) -> Any:
    """A field; null in an array of texts is an empty one."""
    if isinstance(value, list):
        return ["" if item is None else item for item in value]
    return value
