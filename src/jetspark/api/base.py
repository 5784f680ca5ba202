"""Building blocks of wire models: the base struct, bounded integers, times, the reply envelope.

**Which fields appear in the JSON.** The released server always shows some fields and leaves others
out while they are unset. Both kinds live in one struct: msgspec's
``omit_defaults`` leaves out a field that holds its plain default, and never leaves out a field
whose default comes from a factory of ours. So a field declared with `shown` always appears, and a
field with a plain default appears once it is set.

**Times** are `Timestamp`, an ``int`` of nanoseconds: engine and client compute with nanoseconds,
``datetime`` would cut them to microseconds, and text of varying length neither sorts nor
subtracts. Only `encode` and the decoders made here know the RFC 3339 text; msgspec's own
``encode`` refuses a `Timestamp` instead of writing a number.
"""

import re
from calendar import isleap
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from jetspark.units import (
    ZERO_TIME_TEXT,
    ByteCount,
    Nanoseconds,
    format_rfc3339,
    parse_rfc3339,
)

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "UNSET",
    "ZERO_TIME",
    "ApiErrorBody",
    "ApiStruct",
    "Count",
    "Duration",
    "Int32",
    "Int64",
    "Paged",
    "PagedRequest",
    "Response",
    "Size",
    "Success",
    "Timestamp",
    "UnsetType",
    "Unsigned",
    "decoder",
    "encode",
    "encode_request",
    "shown",
    "timestamp_hook",
]

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

# The engine counts in signed 64 bits, so nothing larger gets past a decoder. The
# released server reads unsigned 64 bits; the values between the two are refused here, and no
# stream will ever reach them.
Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Unsigned = Annotated[int, Meta(ge=0)]  # for a model that truncates it
Duration = Annotated[Nanoseconds, Meta(ge=INT64_MIN, le=INT64_MAX)]
Size = Annotated[ByteCount, Meta(ge=INT64_MIN, le=INT64_MAX)]

_T = TypeVar("_T")
_S = TypeVar("_S", bound="ApiStruct")
# An alias: in `Response` the name `type` is an attribute.
_ModelOf = type[_S]

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)
# Times before this year do not fit 64 bits of nanoseconds (the first is in 1677).
_FIRST_YEAR: Final = 1678


class Timestamp(int):
    """A time in nanoseconds since 1970 UTC; 0 is *not set*. RFC 3339 on the wire."""

    __slots__ = ()

    def __str__(self) -> str:
        return ZERO_TIME_TEXT if self == 0 else format_rfc3339(int(self))

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"


ZERO_TIME: Final = Timestamp(0)


def shown(value: _T) -> _T:
    """Declare a default that appears in the JSON even while it is unchanged (see the module)."""
    return field(default_factory=lambda: value)


class ApiStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all wire models: immutable, keyword-only, tolerant of unknown and missing fields."""


class ApiErrorBody(ApiStruct, frozen=True, kw_only=True):
    """The ``error`` object of a reply."""

    code: int = shown(0)
    err_code: int = 0
    description: str = ""


class PagedRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of a request for a list."""

    offset: Int64 = 0


class Paged(ApiStruct, frozen=True, kw_only=True):
    """Head of a list: the total, the offset of this page, the maximum length of a page."""

    total: int = shown(0)
    offset: int = shown(0)
    limit: int = shown(0)


class Success(ApiStruct, frozen=True, kw_only=True):
    """The answer of requests that only report success."""

    success: bool = False


def timestamp_hook(wanted: type, value: object) -> Timestamp:
    """Turn RFC 3339 text into a `Timestamp`; the ``dec_hook`` of every decoder of these models.

    A time that 64 bits of nanoseconds cannot hold becomes the nearest one they can: a pause
    until the year 9999 stays a pause until the far future.
    """
    if wanted is not Timestamp:
        raise NotImplementedError(f"no wire form for {wanted!r}")
    if not isinstance(value, str):
        raise ValueError(f"expected a time as RFC 3339 text, got {value!r}")  # noqa: TRY004 - msgspec reports ValueError
    if value == ZERO_TIME_TEXT:
        return ZERO_TIME
    if _RFC3339.fullmatch(value) is None:
        raise ValueError(
            f"expected a time as RFC 3339, such as 2026-01-31T09:30:00Z, got {value[:64]!r}"
        )
    year = int(value[:4])
    if year < _FIRST_YEAR:
        parse_rfc3339(f"{2000 if isleap(year) else 2001}{value[4:]}")  # refuses a 30 February
        return Timestamp(INT64_MIN)
    return Timestamp(min(parse_rfc3339(value), INT64_MAX))


def _write_timestamp(value: object) -> str:
    if isinstance(value, Timestamp):
        return str(value)
    raise NotImplementedError(f"no wire form for {type(value)!r}")


# Maps are sorted, as Go's are: metadata and subject counts. Structs keep their order.
_ENCODER: Final = msgspec.json.Encoder(enc_hook=_write_timestamp, order="deterministic")
_REQUEST_ENCODER: Final = msgspec.json.Encoder(enc_hook=_write_timestamp)


def encode(model: object) -> bytes:
    """Return the JSON of ``model`` in the shape of the released server."""
    return _ENCODER.encode(model)


def encode_request(model: ApiStruct) -> bytes:
    """Return the JSON of ``model`` with nothing but what differs from the defaults.

    This is what the client sends: an older server is not shown fields that it does not know unless
    the user set them.
    """
    return _REQUEST_ENCODER.encode(_changed(model))


def _changed(value: Any) -> Any:
    if isinstance(value, ApiStruct):
        plain = type(value)()
        return {
            name: _changed(getattr(value, name))
            for name in value.__struct_fields__
            if getattr(value, name) != getattr(plain, name)
        }
    if isinstance(value, tuple):
        return [_changed(item) for item in value]
    return value


def decoder(model: type[_T]) -> msgspec.json.Decoder[_T]:
    """Make a tolerant decoder; modules keep one per model."""
    return msgspec.json.Decoder(model, dec_hook=timestamp_hook)


class _Envelope(ApiStruct, frozen=True, kw_only=True):
    """The part of a reply that identifies an error."""

    error: ApiErrorBody | None = None


_ENVELOPE: Final = decoder(_Envelope)


class Response(Generic[_S]):
    """One kind of ``$JS.API`` answer: its ``type``, its model, and the fields its errors keep.

    On the wire the model's fields follow ``type`` in the same object. An error reply has ``error``
    instead of them, except for a few zero fields that the released server always writes.
    """

    __slots__ = ("_decoder", "_head", "_tail", "model", "type")

    def __init__(self, verb: str, model: _ModelOf[_S], *, error_keeps: bytes = b"") -> None:
        self.type: Final = f"io.nats.jetstream.api.v1.{verb}_response"
        self.model: Final = model
        self._decoder: Final = decoder(model)
        self._head: Final = b'{"type":"%s"' % self.type.encode()
        self._tail: Final = b"," + error_keeps + b"}" if error_keeps else b"}"

    def ok(self, answer: _S) -> bytes:
        """Encode the reply that carries ``answer``."""
        body = _ENCODER.encode(answer)
        return self._head + (b"}" if body == b"{}" else b"," + body[1:])

    def error(self, body: bytes) -> bytes:
        """Encode the reply that carries an error body (``errors.error_body`` makes one)."""
        return self._head + b',"error":' + body + self._tail

    def decode(self, payload: bytes) -> _S | ApiErrorBody:
        """Decode a reply: the model, or the error body if it has one.

        Raises ``msgspec.MsgspecError`` or RecursionError if ``payload`` is not such a reply.
        """
        error = _ENVELOPE.decode(payload).error
        return self._decoder.decode(payload) if error is None else error
