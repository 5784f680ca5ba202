"""Decodes payload columns into typed columns, with a rescue column for mismatches.

Column functions over Arrow: they work in batch and streaming queries, in declarative pipelines and
over Spark Connect, if jetspark is installed on the workers.
"""

import json
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jetspark.spark.needs import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from jetspark.schemas.avro import AvroSchema
    from jetspark.schemas.schema import Schema
    from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat

RESCUE: Final = "_rescued"


def decode_json(
    payload: "Column | str",
    schema: "StructType | str | Schema",
    *,
    headers: "Column | str | None" = None,
    rescue: str | None = RESCUE,
    extra: str = "ignore",
    epoch: str | None = None,
    zone: str = "UTC",
) -> "Column":
    """Return a struct column with the fields of JSON objects, one per payload.

    ``schema``: a ``StructType``, DDL, or a registered `Schema`. A field that is missing or null is
    NULL; a field that is NOT NULL in the schema is required. ``headers``, for a registered schema:
    the source's column of headers (``includeHeaders`` map); a message that names another schema
    is rescued.

    ``rescue`` names the last field of the struct: NULL if everything matched, otherwise
    ``{reason, data}`` with the whole payload; fields that match are set anyway. With
    ``rescue=None`` such a payload fails the query.

    ``extra``: fields that are not in the schema are left out (``"ignore"``) or are a reason to
    rescue (``"rescue"``). With ``epoch`` (``"s"``, ``"ms"``, ``"us"``, ``"ns"``) numbers are
    accepted as timestamps too; ``zone`` is the time zone of timestamps without one.

    Raises ``InvalidSchema`` for a schema that cannot be decoded into.
    """
    with needs_spark():
        from jetspark.spark.payloads.plan import PayloadFormat

    plan = _plan(PayloadFormat.JSON, schema, rescue, extra, epoch, zone)
    return _decoded(payload, plan, headers)


def decode_msgpack(
    payload: "Column | str",
    schema: "StructType | str | Schema",
    *,
    headers: "Column | str | None" = None,
    rescue: str | None = RESCUE,
    extra: str = "ignore",
    epoch: str | None = None,
    zone: str = "UTC",
) -> "Column":
    """Return a struct column with the fields of msgpack maps, one per payload.

    Like ``decode_json``; binary columns are msgpack binary, timestamps its timestamp extension or
    RFC 3339 text.
    """
    with needs_spark():
        from jetspark.spark.payloads.plan import PayloadFormat

    plan = _plan(PayloadFormat.MSGPACK, schema, rescue, extra, epoch, zone)
    return _decoded(payload, plan, headers)


def decode_avro(
    payload: "Column | str",
    schema: "AvroSchema | Schema",
    *,
    headers: "Column | str | None" = None,
    reader_schema: "AvroSchema | None" = None,
    framing: str = "plain",
    rescue: str | None = RESCUE,
) -> "Column":
    """Return a struct column with the fields of Avro records, one per payload.

    ``schema``: the writer's schema, as JSON text or decoded, a record; ``reader_schema``: the
    schema to resolve them to. ``framing``: ``"plain"`` is the body alone, ``"single-object"`` has
    the marker and the schema's fingerprint first. ``rescue`` as in ``decode_json``, for whole
    payloads.

    Or ``schema`` is a registered `Schema`, which they are resolved to: ``headers``, the source's
    column (``includeHeaders`` map), has the version that each was written with. It is required if
    there are several versions; a message without the header is taken for the given one.

    Requires ``pip install "jetspark[avro]"``.

    Raises ``InvalidSchema`` for an invalid schema, or one without matching Spark columns.
    """
    with needs_spark():
        from jetspark.schemas.avro import schema_text
        from jetspark.schemas.schema import Schema
        from jetspark.spark.payloads.avro import spark_schema
        from jetspark.spark.payloads.plan import (
            FRAMINGS,
            DecodePlan,
            PayloadFormat,
            check_columns,
            one_of,
        )

    if isinstance(schema, Schema):
        check_format(schema, "avro")
        if reader_schema is not None or framing != "plain":
            raise ValueError("a registered schema has no reader_schema and no framing")
        if headers is None and len(schema.versions) > 1:
            raise ValueError(
                f"schema {schema.name!r} has versions {', '.join(map(str, schema.versions))}: "
                "Avro needs the one that a payload was written with; read the stream with "
                "includeHeaders map, and pass headers='headers'"
            )
    registered = _registered(schema)
    writer = schema_text(schema.text if isinstance(schema, Schema) else schema, "schema")
    reader = "" if reader_schema is None else schema_text(reader_schema, "reader_schema")
    what = "reader_schema" if reader else "schema"
    columns = spark_schema(reader or writer, what)
    check_columns(columns, rescue)
    plan = DecodePlan(
        PayloadFormat.AVRO,
        columns.json(),
        rescue,
        writer=writer,
        reader=reader,
        framing=one_of("framing", framing, FRAMINGS),
        **registered,
    )
    return _decoded(payload, plan, headers)


def decode_protobuf(
    payload: "Column | str",
    schema: "str | Schema",
    *,
    headers: "Column | str | None" = None,
    rescue: str | None = RESCUE,
) -> "Column":
    """Return a struct column with the fields of protobuf messages, one per payload.

    ``schema``: the text of a .proto file (proto3), whose first message is the payload, or a
    registered `Schema`; then ``headers``, the source's column, may name it. ``rescue`` as in
    ``decode_json``, for whole payloads.

    Raises ``InvalidSchema`` for a file that is not supported; the text names what is not.
    """
    with needs_spark():
        from jetspark.schemas.protobuf.codec import ProtobufCodec
        from jetspark.schemas.schema import Schema
        from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat, check_columns
        from jetspark.spark.payloads.spark_types import columns_of

    if isinstance(schema, Schema):
        check_format(schema, "protobuf")
    text = schema.text if isinstance(schema, Schema) else schema
    columns = columns_of(ProtobufCodec(text).record)
    check_columns(columns, rescue)
    plan = DecodePlan(
        PayloadFormat.PROTOBUF, columns.json(), rescue, reader=text, **_registered(schema)
    )
    return _decoded(payload, plan, headers)


def decode_registered(
    payload: "Column | str", schema: "Schema", *, headers: "Column | str | None" = None
) -> "Column":
    """Return a struct column with the fields of payloads, by the format of a registered schema."""
    check_registered(schema, "decode_registered")
    decode: Any = {
        "json": decode_json,
        "msgpack": decode_msgpack,
        "avro": decode_avro,
        "protobuf": decode_protobuf,
    }[schema.format]
    column: Column = decode(payload, schema, headers=headers)
    return column


def check_registered(schema: object, of: str) -> None:
    """Refuse what is no registered schema; ``of`` is the function that was called."""
    from jetspark.schemas.schema import Schema

    if not isinstance(schema, Schema):
        raise TypeError(
            f"{of}: schema is {schema!r}: expected a registered schema, such as "
            'registered_schema("SCHEMAS", "orders", servers=...)'
        )


def check_format(schema: "Schema", expected: str) -> None:
    """Refuse a registered schema of another format."""
    if schema.format != expected:
        raise ValueError(
            f"schema {schema.name!r} has format {schema.format}: use decode_{schema.format} and "
            f"encode_{schema.format}, not those of {expected}"
        )


def _registered(schema: object) -> dict[str, Any]:
    """Return what the plan has of a registered schema."""
    from jetspark.schemas.schema import Schema

    if not isinstance(schema, Schema):
        return {}
    return {
        "name": schema.name,
        "version": schema.version,
        "versions": tuple(sorted(schema.texts().items())),
    }


def _plan(
    kind: "PayloadFormat",
    schema: "StructType | str | Schema",
    rescue: str | None,
    extra: str,
    epoch: str | None,
    zone: str,
) -> "DecodePlan":
    from jetspark.schemas.schema import Schema
    from jetspark.schemas.shapes import check_shape
    from jetspark.spark.payloads.plan import (
        EPOCH_UNITS,
        EXTRA_CHOICES,
        DecodePlan,
        check_columns,
        one_of,
        parse_schema,
    )
    from jetspark.spark.payloads.spark_types import columns_of, record_of

    if isinstance(schema, Schema):
        check_format(schema, kind.value.lower())
        columns = columns_of(schema.record())
    else:
        columns = parse_schema(schema)
    check_columns(columns, rescue)
    check_shape(record_of(columns))
    if epoch is not None:
        one_of("epoch", epoch, tuple(EPOCH_UNITS))
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"zone={zone!r}: expected a time zone such as 'Europe/Rome'") from None
    return DecodePlan(
        kind,
        json.dumps(columns.jsonValue()),
        rescue,
        extra=one_of("extra", extra, EXTRA_CHOICES),
        epoch=epoch or "",
        zone=zone,
        **_registered(schema),
    )


def _decoded(
    payload: "Column | str", plan: "DecodePlan", headers: "Column | str | None"
) -> "Column":
    import pyarrow as pa
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf

    from jetspark.schemas.schema import SCHEMA_HEADER
    from jetspark.spark.same_version import Carried

    carried = Carried(plan)

    # Spark evaluates the annotations, and requires types there.
    def decode(payloads: pa.Array) -> pa.Array:
        from jetspark.spark.payloads.batch import decoder_of

        return decoder_of(carried.value).decode(payloads)

    def decode_named(payloads: pa.Array, references: pa.Array) -> pa.Array:
        from jetspark.spark.payloads.batch import decoder_of

        return decoder_of(carried.value).decode(payloads, references)

    # Its stub requires the kind of function, about which Spark then warns.
    make: Any = arrow_udf
    data = f.col(payload) if isinstance(payload, str) else payload
    column: Column
    if headers is None:
        column = make(decode, returnType=plan.result())(data)
        return column
    if not plan.name:
        raise ValueError(
            "headers: they name versions of registered schemas, but schema is given as text"
        )
    every = f.col(headers) if isinstance(headers, str) else headers
    reference = f.get(f.try_element_at(every, f.lit(SCHEMA_HEADER)), f.lit(0))
    column = make(decode_named, returnType=plan.result())(data, reference)
    return column
