"""The short way for batches in which every payload fits: most of them.

What fits is decoded as the exact way does (``decode_rows``), but without looking at each payload's
errors, and decimals as text that Arrow converts a whole column at a time. Where anything does not
fit, or only might not, there is no result, and the exact way decides.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType, StructType

from jetspark.spark.decode_columns import UNFIT, ColumnBuilder, taken
from jetspark.spark.decode_plan import DecodePlan, PayloadFormat
from jetspark.spark.decode_rows import UNREADABLE
from jetspark.spark.decode_shape import Shapes

# After a batch that did not fit the next ones are not tried, once, twice, four times as many...
_PAUSE_MAX: Final = 32
# Any number of so many digits fits into 128 bits.
_DECIMAL_DIGITS: Final = 38


class QuickDecoder:
    """Decodes JSON and msgpack by one plan."""

    def __init__(self, plan: DecodePlan, builder: ColumnBuilder) -> None:
        self._builder = builder
        schema = plan.columns()
        shapes = Shapes(epoch=bool(plan.epoch), forbid_extra=plan.extra == "rescue")
        self._raw: frozenset[int] = frozenset()
        codec: Any = msgspec.msgpack
        if plan.format is PayloadFormat.JSON:
            codec = msgspec.json
            self._raw = _decimals(schema)
        self._required = frozenset(
            index for index, field in enumerate(schema.fields) if not field.nullable
        )
        self._one = codec.Decoder(shapes.of_struct(schema, "", raw=self._raw)).decode
        self._pause = 0
        self._left_out = 0

    def decode(
        self, payloads: Sequence[bytes | None], columns: Sequence[pa.Field]
    ) -> list[pa.Array] | None:
        """Return an array for each column, or None unless every payload certainly fits."""
        if self._left_out:
            self._left_out -= 1
            return None
        try:
            arrays = self._decode(payloads, columns)
        except (*UNREADABLE, *UNFIT):
            self._pause = min(2 * self._pause or 1, _PAUSE_MAX)
            self._left_out = self._pause
            return None
        self._pause = 0
        return arrays

    def _decode(
        self, payloads: Sequence[bytes | None], columns: Sequence[pa.Field]
    ) -> list[pa.Array]:
        one = self._one
        whole = None not in payloads
        if whole:
            rows = list(map(one, payloads))
        else:
            rows = [None if payload is None else one(payload) for payload in payloads]
        arrays: list[pa.Array] = []
        for index, field in enumerate(columns):
            values = taken(self._builder.getter(index, field.name), rows, whole=whole)
            if index in self._raw:
                arrays.append(_decimal_array(values, field.type, index in self._required))
            else:
                arrays.append(self._builder.build(values, field.type))
        return arrays


def _decimals(schema: StructType) -> frozenset[int]:
    return frozenset(
        index
        for index, field in enumerate(schema.fields)
        if isinstance(field.dataType, DecimalType)
    )


def _decimal_array(values: list[Any], kind: pa.Decimal128Type, required: bool) -> pa.Array:
    """Return JSON numbers, or strings with numbers in them, as decimals.

    Arrow refuses what would lose digits. It also refuses some of what Python's Decimal takes, such
    as spaces, and then the exact way decides. A number that overflows 128 bits when it is brought
    to the column's scale becomes another number in Arrow, without an error: only text that is too
    short for that, and has no exponent, is left to Arrow.
    """
    try:
        given: list[bytes | None] = [*map(bytes, values)]
    except TypeError:
        # No field of that name, or no payload.
        given = [None if value is None else bytes(value) for value in values]
    text = pa.array(given, pa.binary()).cast(pa.string())
    null = pc.equal(text, "null")
    if pc.any(null).as_py():
        if required:
            raise ValueError("a NULL where the schema says NOT NULL")
        text = pc.if_else(null, None, text)
    # A quote inside of a string is escaped, which no number is: only the outer ones are removed.
    text = pc.ascii_trim(text, '"')
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    if longest + kind.scale > _DECIMAL_DIGITS:
        raise ValueError("a number that Arrow might not hold")
    for exponent in ("e", "E"):
        if pc.any(pc.match_substring(text, exponent)).as_py():
            raise ValueError("a number with an exponent")
    return text.cast(kind)
