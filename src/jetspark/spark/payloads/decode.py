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
    from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat

RESCUE: Final = "_rescued"


def decode_json(
    payload: "Column | str",
    schema: "StructType | str",
    *,
    rescue: str | None = RESCUE,
    extra: str = "ignore",
    epoch: str | None = None,
    zone: str = "UTC",
) -> "Column":
    """Return a struct column with the fields of JSON objects, one per payload.

    ``schema``: a ``StructType`` or DDL. A field that is missing or null is NULL; a field that is
    NOT NULL in the schema is required. ``rescue`` names the last field of the struct: NULL if
    everything matched, otherwise ``{reason, data}`` with the whole payload; fields that match are
    set anyway. With ``rescue=None`` such a payload fails the query.

    ``extra``: fields that are not in the schema are left out (``"ignore"``) or are a reason to
    rescue (``"rescue"``). With ``epoch`` (``"s"``, ``"ms"``, ``"us"``, ``"ns"``) numbers are
    accepted as timestamps too; ``zone`` is the time zone of timestamps without one.

    Raises ``InvalidSchema`` for a schema that cannot be decoded into.
    """
    with needs_spark():
        from jetspark.spark.payloads.plan import PayloadFormat

    plan = _plan(PayloadFormat.JSON, schema, rescue, extra, epoch, zone)
    return _decoded(payload, plan)


def decode_msgpack(
    payload: "Column | str",
    schema: "StructType | str",
    *,
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
    return _decoded(payload, plan)


def decode_avro(
    payload: "Column | str",
    schema: "AvroSchema",
    *,
    reader_schema: "AvroSchema | None" = None,
    framing: str = "plain",
    rescue: str | None = RESCUE,
) -> "Column":
    """Return a struct column with the fields of Avro records, one per payload.

    ``schema``: the writer's schema, as JSON text or decoded, a record; ``reader_schema``: the
    schema to resolve them to. ``framing``: ``"plain"`` is the body alone, ``"single-object"`` has
    the marker and the schema's fingerprint first. ``rescue`` as in ``decode_json``, for whole
    payloads. Requires ``pip install "jetspark[avro]"``.

    Raises ``InvalidSchema`` for an invalid schema, or one without matching Spark columns.
    """
    with needs_spark():
        from jetspark.schemas.avro import schema_text
        from jetspark.spark.payloads.avro import spark_schema
        from jetspark.spark.payloads.plan import (
            FRAMINGS,
            DecodePlan,
            PayloadFormat,
            check_columns,
            one_of,
        )

    writer = schema_text(schema, "schema")
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
    )
    return _decoded(payload, plan)


def _plan(
    kind: "PayloadFormat",
    schema: "StructType | str",
    rescue: str | None,
    extra: str,
    epoch: str | None,
    zone: str,
) -> "DecodePlan":
    from jetspark.schemas.shapes import check_shape
    from jetspark.spark.payloads.plan import (
        EPOCH_UNITS,
        EXTRA_CHOICES,
        DecodePlan,
        check_columns,
        one_of,
        parse_schema,
    )
    from jetspark.spark.payloads.spark_types import record_of

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
    )


def _decoded(payload: "Column | str", plan: "DecodePlan") -> "Column":
    import pyarrow as pa
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf

    from jetspark.spark.same_version import Carried

    carried = Carried(plan)

    # Spark evaluates the annotations, and requires types there.
    def decode(payloads: pa.Array) -> pa.Array:
        from jetspark.spark.payloads.batch import decoder_of

        return decoder_of(carried.value).decode(payloads)

    # Its stub requires the kind of function, about which Spark then warns.
    make: Any = arrow_udf
    column: Column = make(decode, returnType=plan.result())(
        f.col(payload) if isinstance(payload, str) else payload
    )
    return column
