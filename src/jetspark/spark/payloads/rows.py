"""Decodes payloads into rows: the whole payload if it matches, else field by field."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from jetspark.schemas.shapes import UNREADABLE, Shapes
from jetspark.schemas.types import RecordType
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat
from jetspark.spark.payloads.spark_types import record_of

# Unknown fields named in a reason; a payload may have millions.
_EXTRA_SHOWN: Final = 5
# Characters of a name or value shown in a reason.
_NAME_SHOWN: Final = 60


class Decoded(NamedTuple):
    """Rows in the order of their payloads, None where decoding failed, and the reasons."""

    rows: list[Any]
    reasons: dict[int, str]

    @property
    def whole(self) -> bool:
        """Whether every payload became a row."""
        return None not in self.rows


class RowDecoder(Protocol):
    """Decodes the payloads of one batch."""

    def decode(self, payloads: Sequence[bytes | None], versions: Sequence[int]) -> Decoded:
        """Return a row for each payload; None for None.

        ``versions`` of the registered schema that they were written with; empty for the plan's.
        """


class _Field(NamedTuple):
    attribute: str
    name: str
    required: bool
    decoder: Any


class MsgspecRows:
    """Decodes JSON and msgpack objects into structs made by ``Shapes``."""

    def __init__(self, plan: DecodePlan) -> None:
        codec: Any = msgspec.json if plan.format is PayloadFormat.JSON else msgspec.msgpack
        self._format = plan.format.value
        self._with_extra = plan.extra == "rescue"
        schema = record_of(plan.columns())
        shapes = Shapes(epoch=bool(plan.epoch), forbid_extra=self._with_extra)
        self._row = shapes.of_struct(schema, "")
        self._decoder = codec.Decoder(self._row)
        self._pieces = codec.Decoder(dict[str, msgspec.Raw])
        self._fields = _fields(schema, shapes, codec)
        self._known = {field.name for field in self._fields}

    def decode(self, payloads: Sequence[bytes | None], versions: Sequence[int] = ()) -> Decoded:
        """Return a struct for each payload; None for None and for undecodable ones."""
        del versions  # names are in the payload
        decode = self._decoder.decode
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        for index, payload in enumerate(payloads):
            if payload is None:
                rows.append(None)
                continue
            try:
                rows.append(decode(payload))
            except UNREADABLE:
                row, reason = self._salvage(payload)
                rows.append(row)
                if reason:
                    reasons[index] = reason
        return Decoded(rows, reasons)

    def _salvage(self, payload: bytes) -> tuple[Any, str]:
        """Decode every field that matches; the reason describes the others."""
        if not payload:
            return None, "the payload is empty"
        try:
            pieces = self._pieces.decode(payload)
        except msgspec.ValidationError as error:
            return None, f"not a {self._format} object: {error}"
        except UNREADABLE as error:
            return None, f"invalid {self._format}: {error}"
        problems: list[str] = []
        values: dict[str, Any] = {}
        for field in self._fields:
            values[field.attribute] = None
            piece = pieces.get(field.name)
            if piece is None:
                if field.required:
                    problems.append(f"{field.name}: missing, but NOT NULL in the schema")
                continue
            try:
                values[field.attribute] = field.decoder.decode(piece)
            except UNREADABLE as error:
                problems.append(f"{field.name}: {error}")
        if self._with_extra:
            problems += _unknown([name for name in pieces if name not in self._known])
        return self._row(**values), "; ".join(problems)


def _fields(schema: RecordType, shapes: Shapes, codec: Any) -> list[_Field]:
    return [
        _Field(
            f"f{index}",
            field.name,
            not field.nullable,
            codec.Decoder(shapes.of_field(field, field.name)),
        )
        for index, field in enumerate(schema.fields)
    ]


def _unknown(names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(repr(name[:_NAME_SHOWN]) for name in names[:_EXTRA_SHOWN])
    more = len(names) - _EXTRA_SHOWN
    return [f"unknown fields {shown}" + (f" and {more} more" if more > 0 else "")]
