"""Values of users against a record: what may be encoded, and what was decoded as plain values.

One set of rules for all formats, so that a value that one accepts is accepted by the others, and
an error always names the field.
"""

import datetime as dt
import math
import struct
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any, Final

from jetspark.errors import PayloadMismatch
from jetspark.schemas.shapes import FLOAT_MAX
from jetspark.schemas.types import (
    BITS,
    MILLISECONDS,
    Field,
    ListType,
    MapType,
    RecordType,
    Scalar,
    Type,
)

# Enough for every decimal that a schema can declare, twice.
_DIGITS: Final = Context(prec=80)
_SHOWN: Final = 60
_SINGLE: Final = struct.Struct("<f")


class Checker:
    """Checks values before they are encoded.

    ``finite``: the format has no NaN and no infinities (JSON, which would write null instead).
    """

    def __init__(self, *, finite: bool) -> None:
        self._finite = finite

    def record(self, value: Any, kind: RecordType, path: str = "") -> dict[str, Any]:
        """Return the fields of a mapping, or of an object with attributes; None for missing."""
        named = isinstance(value, Mapping)
        if not named and isinstance(value, (str, bytes, int, float, list, tuple, type(None))):
            raise _mismatch(path, "a mapping with the fields of the record", value)
        if named:
            known = {field.name for field in kind.fields}
            extra = [str(name) for name in value if name not in known]
            if extra:
                shown = ", ".join(repr(name[:_SHOWN]) for name in extra[:5])
                raise PayloadMismatch(f"{path or 'value'}: the schema has no field {shown}")
        found: dict[str, Any] = {}
        for field in kind.fields:
            where = f"{path}.{field.name}" if path else field.name
            one = value.get(field.name) if named else getattr(value, field.name, None)
            if one is None:
                absent = field.name not in value if named else True
                if field.has_default and (absent or not field.nullable):
                    continue
                if not field.nullable:
                    raise PayloadMismatch(f"{where}: missing, but NOT NULL in the schema")
                found[field.name] = None
            else:
                found[field.name] = self.of(one, field.type, where)
        return found

    def of(self, value: Any, kind: Type, path: str) -> Any:
        """Return a value that is not None in the form that encoders expect."""
        match kind:
            case RecordType():
                return self.record(value, kind, path)
            case ListType():
                if not isinstance(value, (list, tuple)):
                    raise _mismatch(path, "a list", value)
                return [
                    self._item(one, kind.element, kind.nullable, f"{path}[{index}]")
                    for index, one in enumerate(value)
                ]
            case MapType():
                if not isinstance(value, Mapping):
                    raise _mismatch(path, "a mapping", value)
                return {
                    self.of(key, kind.key, f"{path}.key"): self._item(
                        one, kind.value, kind.nullable, f"{path}[{key!r}]"
                    )
                    for key, one in value.items()
                }
        return self._scalar(value, kind, path)

    def _item(self, value: Any, kind: Type, nullable: bool, path: str) -> Any:
        if value is None:
            if nullable:
                return None
            raise PayloadMismatch(f"{path}: None, but its elements are not NULL in the schema")
        return self.of(value, kind, path)

    def _scalar(self, value: Any, kind: Scalar, path: str) -> Any:
        match kind.name:
            case "boolean":
                fits = isinstance(value, bool)
            case name if name in BITS:
                limit = 2 ** (BITS[name] - 1)
                fits = _is_int(value) and -limit <= value < limit
            case "float" | "double":
                return self._number(value, kind, path)
            case "string":
                fits = isinstance(value, str) and _is_text(value)
            case "char" | "varchar":
                fits = isinstance(value, str) and len(value) <= kind.length and _is_text(value)
            case "binary":
                if isinstance(value, (bytearray, memoryview)):
                    return bytes(value)
                fits = isinstance(value, bytes)
            case "decimal":
                return _decimal(value, kind, path)
            case "date":
                fits = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
            case "timestamp":
                fits = isinstance(value, dt.datetime)
                if fits and value.tzinfo is None:
                    raise _mismatch(path, "a datetime with a time zone", value)
                if fits:
                    return _moment(_whole(value, kind, path), path)
            case _:  # timestamp_ntz
                fits = isinstance(value, dt.datetime)
                if fits and value.tzinfo is not None:
                    raise _mismatch(path, "a datetime without a time zone", value)
                if fits:
                    return _whole(value, kind, path)
        if not fits:
            raise _mismatch(path, str(kind), value)
        # Of a class of its own, which msgspec does not encode.
        return str.__str__(value) if isinstance(value, str) else value

    def _number(self, value: Any, kind: Scalar, path: str) -> float:
        if not (isinstance(value, float) or _is_int(value)):
            raise _mismatch(path, str(kind), value)
        try:
            number = float(value)
        except OverflowError:
            raise _mismatch(path, str(kind), value) from None
        if not math.isfinite(number):
            if self._finite:
                raise _mismatch(path, "a finite number, JSON has no other", value)
        elif kind.name == "float" and abs(number) > FLOAT_MAX:
            raise _mismatch(path, str(kind), value)
        elif _is_int(value) and int(_rounded(number, kind)) != value:
            raise _mismatch(path, f"{kind}, which cannot hold it exactly", value)
        return number


def plain(value: Any, kind: Type, path: str = "") -> Any:
    """Return a value decoded into the structs of ``Shapes`` as dicts, with its numbers checked."""
    if value is None:
        return None
    match kind:
        case RecordType():
            return {
                field.name: plain(getattr(value, f"f{index}"), field.type, _below(path, field))
                for index, field in enumerate(kind.fields)
            }
        case ListType():
            if isinstance(kind.element, Scalar) and kind.element.name not in _CHECKED:
                return value
            return [plain(one, kind.element, f"{path}[{n}]") for n, one in enumerate(value)]
        case MapType():
            return {key: plain(one, kind.value, f"{path}[{key!r}]") for key, one in value.items()}
        case Scalar("decimal"):
            return _decimal(value, kind, path)
        case Scalar("float") if math.isfinite(value) and abs(value) > FLOAT_MAX:
            raise _mismatch(path, "float", value)
        case Scalar("timestamp") if value.tzinfo is None:
            return value.replace(tzinfo=dt.UTC)
    return value


# Scalars that ``plain`` checks or changes.
_CHECKED: Final = ("decimal", "float", "timestamp")


def _below(path: str, field: Field) -> str:
    return f"{path}.{field.name}" if path else field.name


def _decimal(value: Any, kind: Scalar, path: str) -> Decimal:
    if not (isinstance(value, Decimal) or _is_int(value)):
        raise _mismatch(path, f"{kind} as a Decimal or an int", value)
    number = Decimal(value)
    if not number.is_finite() or (number and number.adjusted() >= kind.precision - kind.scale):
        raise _mismatch(path, str(kind), value)
    if not number:
        return Decimal(0).scaleb(-kind.scale)
    exact = number.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    if exact != number:
        raise _mismatch(path, f"{kind}: it has more digits after the point", value)
    return exact


def _rounded(number: float, kind: Scalar) -> float:
    """The number as formats with floats of 32 bits keep it."""
    single: float = _SINGLE.unpack(_SINGLE.pack(number))[0] if kind.name == "float" else number
    return single


def _whole(value: dt.datetime, kind: Scalar, path: str) -> dt.datetime:
    """Return a time whose microseconds the payload can have."""
    if kind.precision == MILLISECONDS and value.microsecond % 1000:
        raise _mismatch(
            path,
            f"a {kind} in whole milliseconds (truncate it, or declare microseconds in the schema)",
            value,
        )
    return value


def _moment(value: dt.datetime, path: str) -> dt.datetime:
    """Return an aware datetime that every format encodes exactly."""
    try:
        utc = value.astimezone(dt.UTC)
    except OverflowError:
        raise _mismatch(path, "a timestamp within the years 1 to 9999 of UTC", value) from None
    offset = value.utcoffset()
    # RFC 3339 has no seconds in offsets: those of local mean times would be rounded.
    return value if type(value) is dt.datetime and offset and not offset.seconds % 60 else (
        dt.datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second,
                    utc.microsecond, tzinfo=dt.UTC)
    )  # fmt: skip


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: str) -> bool:
    """Whether UTF-8 can encode it: half of a surrogate pair it cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mismatch(path: str, expected: str, value: Any) -> PayloadMismatch:
    shown = repr(value)
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    return PayloadMismatch(f"{path or 'value'}: expected {expected}, not {shown}")
