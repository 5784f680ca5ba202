"""Encodes struct columns as payloads: the reverse of ``decode``, for a sink's ``data`` column."""

from typing import TYPE_CHECKING, Any, Final

from jetspark.spark.needs import needs_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import Column

    from jetspark.schemas.avro import AvroSchema
    from jetspark.schemas.schema import Schema


# Spark's own format has three digits and truncates the rest. In the session's zone, old times
# would lose seconds, too: their offsets have some (Berlin before 1893: 00:53:28).
_JSON_TIMES: Final = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def encode_json(row: "Column | str", schema: "Schema | None" = None) -> "Column":
    """Return a binary column of JSON objects for a struct (or map, or array) column.

    The JVM encodes them; NULL fields become ``null``, binary ones base64, timestamps UTC with
    microseconds, and a NULL row becomes an empty payload. With a registered `Schema`, Python
    encodes them, and a row that does not match it fails the query.
    """
    if schema is not None:
        return _encoded_by(row, schema, "json")
    with needs_spark():
        from pyspark.sql import functions as f

    text = f.to_json(_column(row), {"ignoreNullFields": "false", **_JSON_TIMES})
    return text.cast("binary")


def encode_msgpack(row: "Column | str", schema: "Schema | None" = None) -> "Column":
    """Return a binary column of msgpack maps for a struct column; decimals and dates are text.

    With a registered `Schema`, a row that does not match it fails the query.
    """
    if schema is not None:
        return _encoded_by(row, schema, "msgpack")
    with needs_spark():
        import pyarrow as pa

    def encode(rows: pa.Array) -> pa.Array:
        import msgspec

        from jetspark.spark.payloads.encode import python_rows

        encoder = msgspec.msgpack.Encoder()
        given = python_rows(rows)
        return pa.array(
            [None if one is None else encoder.encode(one) for one in given], pa.binary()
        )

    return _encoded(row, encode)


def encode_avro(
    row: "Column | str", schema: "AvroSchema | Schema", *, framing: str = "plain"
) -> "Column":
    """Return a binary column of Avro records for a struct column.

    ``schema`` and ``framing`` as in ``decode_avro``. A row that does not match the schema fails
    the query.
    """
    from jetspark.schemas.schema import Schema

    if isinstance(schema, Schema):
        if framing != "plain":
            raise ValueError("a registered schema has no framing: the header names it")
        return _encoded_by(row, schema, "avro")
    with needs_spark():
        import pyarrow as pa

        from jetspark.schemas.avro import schema_text, single_object_head
        from jetspark.spark.payloads.plan import FRAMINGS, one_of
        from jetspark.spark.same_version import Carried

    text = schema_text(schema, "schema")
    plain = one_of("framing", framing, FRAMINGS) == "plain"
    carried = Carried((text, b"" if plain else single_object_head(text)))

    def encode(rows: pa.Array) -> pa.Array:
        from jetspark.spark.payloads.encode import avro_records, python_rows

        given = python_rows(rows)
        return pa.array(avro_records(*carried.value, given), pa.binary())

    return _encoded(row, encode)


def encode_protobuf(row: "Column | str", schema: "str | Schema") -> "Column":
    """Return a binary column of protobuf messages for a struct column.

    ``schema`` as in ``decode_protobuf``. A row that does not match it fails the query.
    """
    from jetspark.schemas.schema import Schema

    if isinstance(schema, Schema):
        return _encoded_by(row, schema, "protobuf")
    return _encoded_with(row, "protobuf", schema)


def schema_headers(schema: "Schema", headers: "Column | str | None" = None) -> "Column":
    """Return a binary column for the sink's ``headers``, which names a registered schema.

    ``headers``: others to keep, a map of names and arrays as in the source; one there that names
    a schema is replaced.
    """
    with needs_spark():
        from pyspark.sql import functions as f

        from jetspark.schemas.schema import SCHEMA_HEADER
        from jetspark.spark.columns import encode_headers
        from jetspark.spark.payloads.decode import check_registered

    check_registered(schema, "schema_headers")
    own = f.create_map(f.lit(SCHEMA_HEADER), f.array(f.lit(schema.headers[SCHEMA_HEADER])))
    if headers is None:
        return encode_headers(own)
    others = f.map_filter(_column(headers), lambda name, _: name != SCHEMA_HEADER)
    return encode_headers(f.when(others.isNull(), own).otherwise(f.map_concat(others, own)))


def python_rows(rows: "pa.Array") -> list[Any]:
    """Return structs as dicts, with times in UTC. Runs in a task.

    Spark passes times in the session's zone, where the last hours of the year 9999, or the first
    of the year 1, may have no value in Python.
    """
    from jetspark.errors import PayloadMismatch

    kind = _in_utc(rows.type)
    in_utc = rows if kind == rows.type else rows.cast(kind)
    try:
        given: list[Any] = in_utc.to_pylist(maps_as_pydicts="strict")
    except OverflowError:
        raise PayloadMismatch(
            f"{_field_of_no_time(in_utc)} has a time outside of the years 1 to 9999 (in UTC), "
            "which Spark has and payloads do not: encode it as a string or a number"
        ) from None
    return given


def _field_of_no_time(rows: "pa.Array") -> str:
    """Name the first field with a time that Python does not have."""
    for row in rows:
        for name, value in row.items() if row.is_valid else ():
            try:
                value.as_py(maps_as_pydicts="strict")
            except OverflowError:
                return str(name)
    return "the row"


def _in_utc(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa

    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_in_utc(key.type)), item.with_type(_in_utc(item.type)))
    return kind


def payloads_of(format_name: str, text: str, rows: list[Any]) -> list[bytes | None]:
    """Return the payload of each row. Runs in a task."""
    from jetspark.errors import PayloadMismatch
    from jetspark.schemas.formats import codec_of

    codec = codec_of(format_name, text)
    payloads: list[bytes | None] = []
    for row in rows:
        try:
            payloads.append(None if row is None else codec.encode(row))
        except PayloadMismatch as error:
            raise PayloadMismatch(f"{error} (row {row!r})") from error
    return payloads


def _encoded_by(row: "Column | str", schema: "Schema", expected: str) -> "Column":
    from jetspark.spark.payloads.decode import check_format, check_registered

    check_registered(schema, f"encode_{expected}")
    check_format(schema, expected)
    return _encoded_with(row, schema.format, schema.text)


def _encoded_with(row: "Column | str", format_name: str, text: str) -> "Column":
    with needs_spark():
        import pyarrow as pa

        from jetspark.schemas.formats import codec_of
        from jetspark.spark.same_version import Carried

    codec_of(format_name, text)  # an invalid one is refused here, not in a task
    carried = Carried((format_name, text))

    def encode(rows: pa.Array) -> pa.Array:
        from jetspark.spark.payloads.encode import payloads_of, python_rows

        given = python_rows(rows)
        return pa.array(payloads_of(*carried.value, given), pa.binary())

    return _encoded(row, encode)


def avro_records(text: str, head: bytes, rows: list[Any]) -> list[bytes | None]:
    """Return the payload of each row, prefixed with ``head``. Runs in a task."""
    from jetspark.errors import PayloadMismatch
    from jetspark.schemas.avro import AvroCodec

    codec = AvroCodec(text)
    payloads: list[bytes | None] = []
    for row in rows:
        try:
            payloads.append(None if row is None else head + codec.encode(row))
        except PayloadMismatch as error:
            raise PayloadMismatch(f"{error} (row {row!r})") from error
    return payloads


def _encoded(row: "Column | str", encode: "Callable[[pa.Array], pa.Array]") -> "Column":
    with needs_spark():
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.types import BinaryType

    # Its stub requires the kind of function, about which Spark then warns.
    make: Any = arrow_udf
    column: Column = make(encode, returnType=BinaryType())(_column(row))
    return column


def _column(given: "Column | str") -> "Column":
    from pyspark.sql import functions as f

    return f.col(given) if isinstance(given, str) else given
