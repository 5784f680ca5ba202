"""A schema from a sample of payloads that describe themselves: JSON and MessagePack."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from jetspark.errors import InvalidSchema, PayloadMismatch
from jetspark.schemas.ddl import to_ddl
from jetspark.schemas.formats import codec_of
from jetspark.schemas.shapes import UNREADABLE, is_nameable
from jetspark.schemas.types import Field, ListType, MapType, RecordType, Scalar, Type

SelfDescribed = Literal["json", "msgpack"]
_LONG: Final = 2**63
_DIGITS: Final = 38


class InferredSchema(NamedTuple):
    """What ``infer_schema`` found: DDL, the number of samples, and of those that do not fit it."""

    ddl: str
    sampled: int
    rescued: int


def infer_schema(samples: Iterable[bytes], *, format: SelfDescribed = "json") -> InferredSchema:
    """Return a schema that decodes payloads such as the samples.

    Every field is nullable: a sample cannot show that one is always there. Whole numbers are
    ``bigint`` (``decimal(38,0)`` if one is greater), with others ``double``; text stays text.
    Where types differ, the most frequent one is taken, and ``rescued`` counts the payloads that it
    does not fit. Raises InvalidSchema if no sample has a field.
    """
    if format not in get_args(SelfDescribed):
        raise ValueError(
            f"format={format!r}: expected json or msgpack; payloads of Avro and Protobuf do not "
            "have the names of their fields"
        )
    decode = (msgspec.json if format == "json" else msgspec.msgpack).decode
    root = _Seen()
    every = list(samples)
    for data in every:
        try:
            value = decode(data)
        except UNREADABLE:
            continue
        if isinstance(value, Mapping):
            root.add(value)
    record = root.record()
    if not record.fields:
        raise InvalidSchema(f"none of {len(every)} samples is a {format} object with fields")
    ddl = to_ddl(record)
    codec = codec_of(format, ddl)
    rescued = 0
    for data in every:
        try:
            codec.decode(data, codec)
        except PayloadMismatch:
            rescued += 1
    return InferredSchema(ddl, len(every), rescued)


class _Seen:
    """The values of one place, in all samples."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._fields: dict[str, _Seen] = {}
        self._element: _Seen | None = None

    def add(self, value: Any) -> None:
        """Count a value; NULL has no type."""
        if value is None:
            return
        kind = _kind(value)
        self._kinds[kind] += 1
        if kind == "object":
            for name, one in value.items():
                self._fields.setdefault(str(name), _Seen()).add(one)
        elif kind == "array":
            self._element = self._element or _Seen()
            for one in value:
                self._element.add(one)

    def record(self) -> RecordType:
        """Return the fields that a schema can have."""
        return RecordType(
            tuple(
                Field(name, seen.type())
                for name, seen in self._fields.items()
                if is_nameable(name)
            )
        )

    def type(self) -> Type:
        """Return the type of most values; numbers count as one."""
        kinds = self._kinds.copy()
        numbers = [kind for kind in ("bigint", "decimal", "double") if kinds[kind]]
        if len(numbers) > 1:
            widest = "double" if "double" in numbers else "decimal"
            kinds[widest] = sum(kinds.pop(kind) for kind in numbers)
        if not kinds:
            return Scalar("string")  # only NULLs
        kind = kinds.most_common(1)[0][0]
        if kind == "object":
            record = self.record()
            return record if record.fields else MapType(Scalar("string"), Scalar("string"))
        if kind == "array":
            return ListType(Scalar("string") if self._element is None else self._element.type())
        return Scalar("decimal", _DIGITS, 0) if kind == "decimal" else Scalar(kind)


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            if -_LONG <= value < _LONG:
                return "bigint"
            return "decimal" if len(str(abs(value))) <= _DIGITS else "double"
        case float() | Decimal():
            return "double"
        case str():
            return "string"
        case bytes():
            return "binary"
        case dt.datetime():
            return "timestamp"
        case Mapping():
            return "object"
    return "array"
