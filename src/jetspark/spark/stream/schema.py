"""The columns of a stream: default schema, schema checks, conversion of chunks to Arrow batches.

Spark requires exact equality of the Arrow schema that a task yields, so it is created by Spark's
own function and every array is built for its type.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetspark.client.jetstream.message_columns import Column, MessageColumns
from jetspark.errors import InvalidSchema
from jetspark.headers.block import decode_headers
from jetspark.spark.stream.options import FORMAT_NAME, HeaderMode

_DEFAULT_COLUMNS: Final[Mapping[str, DataType]] = {
    "stream": StringType(),
    "subject": StringType(),
    "seq": LongType(),
    "timestamp": TimestampType(),
    "data": BinaryType(),
}
# Built only if the user's schema has them.
_EXTRA_COLUMNS: Final[Mapping[str, DataType]] = {
    # Spark has microseconds, JetStream nanoseconds.
    "timestamp_ns": LongType(),
    "size": IntegerType(),
}
HEADER_TYPES: Final[Mapping[HeaderMode, DataType]] = {
    HeaderMode.MAP: MapType(
        StringType(), ArrayType(StringType(), containsNull=False), valueContainsNull=False
    ),
    HeaderMode.RAW: BinaryType(),
}


# The part of a message to read for a column; its sequence is always included.
_READ_FOR: Final[Mapping[str, Column]] = {
    "subject": "subjects",
    "timestamp": "times",
    "timestamp_ns": "times",
    "data": "data",
    "size": "data",
    "headers": "headers",
}


def default_schema(headers: HeaderMode) -> StructType:
    """Return the default schema of a read. No column is ever NULL."""
    types = dict(_DEFAULT_COLUMNS)
    if headers is not HeaderMode.NONE:
        types["headers"] = HEADER_TYPES[headers]
    return StructType([StructField(name, kind, nullable=False) for name, kind in types.items()])


def check_schema(schema: StructType, headers: HeaderMode) -> None:
    """Raise ``InvalidSchema`` unless every column exists in a stream, with its type.

    Any subset in any order is valid; that is how columns are left out.
    """
    problems = [
        problem
        for index, field in enumerate(schema.fields)
        if (problem := _field_problem(field, schema.fields[:index], headers)) is not None
    ]
    if not schema.fields:
        problems = ["it has no columns"]
    if problems:
        raise InvalidSchema(f"schema of format {FORMAT_NAME!r}: {'; '.join(problems)}")


def columns_to_read(schema: StructType) -> tuple[Column, ...]:
    """Return the columns that a scan has to read for ``schema``."""
    names = [name.lower() for name in schema.fieldNames()]
    return tuple(sorted({_READ_FOR[name] for name in names if name in _READ_FOR}))


def _field_problem(
    field: StructField, earlier: Sequence[StructField], headers: HeaderMode
) -> str | None:
    # Spark's column names are case-insensitive.
    name = field.name.lower()
    if name in {other.name.lower() for other in earlier}:
        return f"column {field.name!r} is duplicated"
    if name == "headers" and headers is HeaderMode.NONE:
        return "column 'headers' requires option includeHeaders map or raw"
    expected = {**_DEFAULT_COLUMNS, **_EXTRA_COLUMNS}.get(name)
    if name == "headers":
        expected = HEADER_TYPES[headers]
    if expected is None:
        return _unknown_column(field.name)
    # The simple form leaves out nullability, which a user may declare as they like.
    wanted, given = expected.simpleString(), field.dataType.simpleString()
    if wanted != given:
        return f"column {field.name!r} must be {wanted}, not {given}"
    return None


def _unknown_column(name: str) -> str:
    known = [*_DEFAULT_COLUMNS, "headers", *_EXTRA_COLUMNS]
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f": did you mean {near[0]!r}?" if near else f" (expected one of {', '.join(known)})"
    return f"unknown column {name!r}{hint}"


class BatchEncoder:
    """Converts chunks of one stream to Arrow batches of one schema."""

    def __init__(self, schema: StructType, *, stream: str, headers: HeaderMode) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._stream = stream
        self._headers = headers
        self._columns = [(field.name.lower(), field.type) for field in self._schema]

    def encode(self, chunk: MessageColumns) -> pa.RecordBatch:
        """Return the messages of ``chunk`` as a batch with exactly the columns of the schema."""
        arrays = [self._column(name, kind, chunk) for name, kind in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, kind: pa.DataType, chunk: MessageColumns) -> pa.Array:
        match name:
            case "stream":
                return pa.repeat(pa.scalar(self._stream, kind), len(chunk.sequences))
            case "subject":
                return texts(chunk.subjects)
            case "seq":
                return pa.array(chunk.sequences, kind)
            case "timestamp":
                return microseconds(chunk.times, kind)
            case "timestamp_ns":
                return pa.array(chunk.times, kind)
            case "data":
                return pa.array(chunk.data, kind)
            case "size":
                return pa.array([len(payload) for payload in chunk.data], kind)
            case _ if self._headers is HeaderMode.RAW:
                return pa.array(chunk.headers, kind)
            case _:
                return header_maps(chunk.headers, kind)


def microseconds(times_ns: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Return times in Spark's microseconds."""
    # Rounded down, even before 1970, to keep the order of messages.
    exact = pa.array(times_ns, pa.int64()).cast(pa.timestamp("ns"))
    return pc.floor_temporal(exact, unit="microsecond").cast(pa.timestamp("us")).cast(kind)


def texts(values: Sequence[str]) -> pa.Array:
    """Return text, which may be any bytes on the wire."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        # NATS accepts any bytes, which the client shows as surrogates; a Spark string is UTF-8.
        # Invalid bytes become U+FFFD.
        exact = [value.encode("utf-8", "surrogateescape") for value in values]
        return pa.array([value.decode("utf-8", "replace") for value in exact], pa.string())


def header_maps(blocks: Sequence[bytes], kind: pa.MapType) -> pa.Array:
    """Return a map of names to values for each block: for none an empty one, never NULL.

    A column of NULL maps makes Spark's Arrow writers ten times slower.
    """
    row_ends, names = [0], list[str]()
    value_ends, values = [0], list[str]()
    for block in blocks:
        if block:
            grouped: dict[str, list[str]] = {}
            for name, value in decode_headers(block).items():
                grouped.setdefault(name, []).append(value)
            for name, several in grouped.items():
                names.append(name)
                values += several
                value_ends.append(len(values))
        row_ends.append(len(names))
    lists = pa.ListArray.from_arrays(
        pa.array(value_ends, pa.int32()), texts(values), type=kind.item_type
    )
    return pa.MapArray.from_arrays(pa.array(row_ends, pa.int32()), texts(names), lists, type=kind)
