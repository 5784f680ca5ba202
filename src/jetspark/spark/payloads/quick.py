"""Fast decoding of batches in which every payload matches: most of them.

The whole batch is decoded in one call, without checking each payload for errors. If anything does
not match, or might not, there is no result, and the exact decoder (``rows``) decides.
"""

from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import types

from jetspark.schemas.shapes import UNREADABLE, Shapes
from jetspark.spark.payloads.arrow import ArrowColumns, Doubtful
from jetspark.spark.payloads.columns import UNFIT, ColumnBuilder
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat
from jetspark.spark.payloads.spark_types import record_of

# After a batch that did not match, the next 1, 2, 4, ... are not tried.
_PAUSE_MAX: Final = 32
# Columns that Arrow's reader decodes faster than msgspec, which creates an object per value; for
# numbers and short text it is slower.
_COSTLY: Final = (
    types.DecimalType,
    types.TimestampType,
    types.DateType,
    types.ArrayType,
    types.StructType,
)


class _Way(Protocol):
    def decode(self, payloads: pa.Array) -> list[pa.Array]:
        """Return an array for each column; raises if a payload might not match."""


class QuickDecoder:
    """Decodes JSON and msgpack by one plan."""

    def __init__(self, plan: DecodePlan, builder: ColumnBuilder) -> None:
        self._way = _way(plan, builder)
        self._pause = 0
        self._left_out = 0

    def decode(self, payloads: pa.Array) -> list[pa.Array] | None:
        """Return an array for each column, or None unless every payload certainly matches."""
        if self._left_out:
            self._left_out -= 1
            return None
        try:
            arrays = self._way.decode(payloads)
        except (*UNREADABLE, *UNFIT, pa.ArrowException):
            self._pause = min(2 * self._pause or 1, _PAUSE_MAX)
            self._left_out = self._pause
            return None
        self._pause = 0
        return arrays


class _MsgspecColumns:
    """Decodes like the exact decoder, into the same structs."""

    def __init__(self, plan: DecodePlan, builder: ColumnBuilder) -> None:
        shapes = Shapes(epoch=bool(plan.epoch), forbid_extra=plan.extra == "rescue")
        row = shapes.of_struct(record_of(plan.columns()), "")
        codec: Any = msgspec.json if plan.format is PayloadFormat.JSON else msgspec.msgpack
        self._one = codec.Decoder(row).decode
        self._builder = builder
        self._kinds = [field.type for field in plan.arrow_fields()[: len(row.__struct_fields__)]]

    def decode(self, payloads: pa.Array) -> list[pa.Array]:
        if payloads.null_count or not len(payloads):
            raise Doubtful("a NULL payload, or no payloads")
        rows = map(self._one, payloads.to_pylist())
        columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
        return list(map(self._builder.build, columns, self._kinds))


def _way(plan: DecodePlan, builder: ColumnBuilder) -> _Way:
    if any(isinstance(field.dataType, _COSTLY) for field in plan.columns().fields):
        try:
            return ArrowColumns(plan, builder)
        except Doubtful:
            pass  # for example a nested map
    return _MsgspecColumns(plan, builder)
