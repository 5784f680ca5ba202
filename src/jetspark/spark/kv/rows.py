"""The columns of a bucket: the schema of a read, and conversion of messages to Arrow batches."""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.errors import InvalidSchema
from jetspark.spark.kv.options import KV_FORMAT
from jetspark.spark.kv.previous import Previous
from jetspark.spark.stream.options import HeaderMode
from jetspark.spark.stream.schema import (
    HEADER_TYPES,
    header_maps,
    microseconds,
    texts,
)

_COLUMNS: Final[Mapping[str, DataType]] = {
    "bucket": StringType(),
    "key": StringType(),
    "value": BinaryType(),
    "revision": LongType(),
    "operation": StringType(),
    "timestamp": TimestampType(),
}


# Columns of a change feed with option ``includePrevious``.
PREVIOUS_COLUMNS: Final[Mapping[str, DataType]] = {
    "previous_value": BinaryType(),
    "previous_revision": LongType(),
}
_NULLABLE: Final = frozenset({"value", *PREVIOUS_COLUMNS})


def kv_schema(headers: HeaderMode, *, previous: bool = False) -> StructType:
    """Return the default schema of a read. ``value`` is NULL where a key was deleted."""
    types = dict(_COLUMNS)
    if previous:
        types.update(PREVIOUS_COLUMNS)
    if headers is not HeaderMode.NONE:
        types["headers"] = HEADER_TYPES[headers]
    return StructType(
        [StructField(name, kind, nullable=name in _NULLABLE) for name, kind in types.items()]
    )


def check_kv_schema(schema: StructType, headers: HeaderMode, *, previous: bool = False) -> None:
    """Raise ``InvalidSchema`` unless every column exists in a bucket, with its type."""
    whole = kv_schema(headers, previous=previous)
    known = {field.name: field.dataType.simpleString() for field in whole.fields}
    problems: list[str] = []
    seen: set[str] = set()
    for field in schema.fields:
        name, given = field.name.lower(), field.dataType.simpleString()
        if name in seen:
            problems.append(f"column {field.name!r} is duplicated")
        elif name == "headers" and name not in known:
            problems.append("column 'headers' requires option includeHeaders map or raw")
        elif name in PREVIOUS_COLUMNS and name not in known:
            problems.append(
                f"column {field.name!r} requires option includePrevious, for readStream"
            )
        elif name not in known:
            problems.append(f"unknown column {field.name!r} (expected one of {', '.join(known)})")
        elif given != known[name]:
            problems.append(f"column {field.name!r} must be {known[name]}, not {given}")
        elif name in _NULLABLE and not field.nullable:
            problems.append(f"column {field.name!r} must be nullable, for deletions")
        seen.add(name)
    if not schema.fields:
        problems.append("it has no columns")
    if problems:
        raise InvalidSchema(f"schema of format {KV_FORMAT!r}: {'; '.join(problems)}")


class KvEncoder:
    """Converts stored messages of one bucket to Arrow batches of one schema."""

    def __init__(self, schema: StructType, *, bucket: str, headers: HeaderMode) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._bucket = bucket
        self._headers = headers
        self._columns = [(field.name.lower(), field.type) for field in self._schema]

    def encode(
        self,
        chunk: MessageColumns,
        *,
        deletions: bool = True,
        previous: Sequence[Previous | None] | None = None,
    ) -> pa.RecordBatch:
        """Return the messages of ``chunk`` as a batch with exactly the columns of the schema.

        Without ``deletions`` those that delete a key are left out. ``previous``: what precedes
        each message; None: no message has any.
        """
        operations: list[Operation] | None = None
        # Values usually have no headers.
        if any(chunk.headers):
            operations = [read_operation(block)[0] for block in chunk.headers]
            if not deletions:
                puts = [at for at, done in enumerate(operations) if done is Operation.PUT]
                if len(puts) < len(operations):
                    chunk, operations = chunk.picked(puts), [Operation.PUT] * len(puts)
        arrays = [
            _previous_column(name, kind, previous or [None] * len(chunk))
            if name in PREVIOUS_COLUMNS
            else self._column(name, kind, chunk, operations)
            for name, kind in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(
        self,
        name: str,
        kind: pa.DataType,
        chunk: MessageColumns,
        operations: Sequence[Operation] | None,
    ) -> pa.Array:
        """Return one column; ``operations`` None: all are puts."""
        count = len(chunk.sequences)
        match name:
            case "bucket":
                return pa.repeat(pa.scalar(self._bucket, kind), count)
            case "key":
                return keys(chunk.subjects)
            case "value":
                values: Sequence[bytes | None] = chunk.data
                if operations is not None:
                    pairs = zip(chunk.data, operations, strict=True)
                    values = [data if done is Operation.PUT else None for data, done in pairs]
                return pa.array(values, kind)
            case "revision":
                return pa.array(chunk.sequences, kind)
            case "operation":
                if operations is None:
                    return pa.repeat(pa.scalar(Operation.PUT.value, kind), count)
                return texts([operation.value for operation in operations])
            case "timestamp":
                return microseconds(chunk.times, kind)
            case _ if self._headers is HeaderMode.RAW:
                return pa.array(chunk.headers, kind)
            case _:
                return header_maps(chunk.headers, kind)


def _previous_column(
    name: str, kind: pa.DataType, previous: Sequence[Previous | None]
) -> pa.Array:
    if name == "previous_value":
        return pa.array([None if one is None else one.value for one in previous], kind)
    return pa.array([None if one is None else one.revision for one in previous], kind)


def keys(subjects: Sequence[str]) -> pa.Array:
    """Return the keys of many subjects."""
    whole = texts(subjects)
    if not subjects:
        return whole
    # One bucket has one prefix; a stream with sources may have several.
    prefix = subjects[0][: -len(key_of(subjects[0]))]
    if pc.all(pc.starts_with(whole, prefix)).as_py():
        return pc.utf8_slice_codeunits(whole, len(prefix))
    return texts([key_of(subject) for subject in subjects])


def key_of(subject: str) -> str:
    """Return the key of ``$KV.<bucket>.<key>``; a mirror has its origin's bucket."""
    return subject.split(".", 2)[2]
