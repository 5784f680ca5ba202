"""Payloads of registered schemas in Spark: versions by header, restarts, all formats."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as f
from tests.spark.conftest import Streams

from jetspark import Schema
from jetspark.errors import Error, InvalidSchema, SchemaNotFound
from jetspark.spark import (
    decode_avro,
    decode_json,
    decode_registered,
    encode_avro,
    encode_json,
    encode_msgpack,
    encode_protobuf,
    infer_schema,
    register_tables,
    registered_schema,
    schema_headers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVRO_1 = json.dumps({
    "type": "record", "name": "O",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
})  # fmt: skip
# Fields in another order, a wider type and a default: read as version 1, it would be nonsense.
AVRO_2 = json.dumps({
    "type": "record", "name": "O",
    "fields": [
        {"name": "name", "type": ["null", "string"]}, {"name": "id", "type": "long"},
        {"name": "size", "type": "int", "default": -1},
    ],
})  # fmt: skip
PROTO = 'syntax = "proto3"; message O { int64 id = 1; optional string name = 2; %s }'
DDL = "id BIGINT NOT NULL, name STRING"
VERSIONS = {
    "json": (DDL, f"{DDL}, size INT"),
    "msgpack": (DDL, f"{DDL}, size INT"),
    "avro": (AVRO_1, AVRO_2),
    "protobuf": (PROTO % "", PROTO % "optional int32 size = 3;"),
}


def read(spark: "SparkSession", streams: Streams, stream: str) -> "DataFrame":
    source = spark.readStream.format("jetstream").option("servers", streams.url)
    source = source.option("stream", stream).option("startingOffsets", "earliest")
    return source.option("includeHeaders", "map").load()


@pytest.mark.parametrize("kind", ["json", "avro"])
def test_a_query_that_is_restarted_with_a_newer_version_reads_both(
    spark: "SparkSession", streams: Streams, tmp_path: Path, kind: Any
) -> None:
    name = f"EVOLVED_{kind}".upper()
    streams.create(name)
    js = streams.jetstream
    registry = js.create_schema_registry(f"REGISTRY_{name}")
    first = registry.register("orders", VERSIONS[kind][0], format=kind)

    def publish(schema: Schema, row: dict[str, Any]) -> None:
        js.publish(f"{name}.x", schema.encode(row), headers=schema.headers)

    def run() -> list[Any]:
        schema = registered_schema(registry.bucket, "orders", servers=streams.url)
        rows = read(spark, streams, name)
        decoded = rows.select(
            "seq", decode_registered("data", schema, headers="headers").alias("row")
        ).select("seq", "row.*", f.lit(schema.version).alias("by"))
        found: list[Any] = []
        query = (
            decoded.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return [one.asDict() for one in sorted(found, key=lambda one: one.seq)]

    publish(first, {"id": 1, "name": "a"})
    before = run()
    publish(first, {"id": 2, "name": None})
    second = registry.register("orders", VERSIONS[kind][1])
    publish(second, {"id": 2**40, "name": "c", "size": 3})
    js.publish(f"{name}.x", b"{}", headers={"Jetspark-Schema": "others;1"})
    after = run()

    absent = -1 if kind == "avro" else None
    assert before == [{"seq": 1, "id": 1, "name": "a", "_rescued": None, "by": 1}]
    assert after[:2] == [
        {"seq": 2, "id": 2, "name": None, "size": absent, "_rescued": None, "by": 2},
        {"seq": 3, "id": 2**40, "name": "c", "size": 3, "_rescued": None, "by": 2},
    ]
    assert (after[2]["id"], bytes(after[2]["_rescued"].data)) == (None, b"{}")
    assert after[2]["_rescued"].reason == "its header names schema 'others', expected 'orders'"
    if kind == "avro":
        with pytest.raises(ValueError, match="has versions 1, 2: Avro needs"):
            decode_avro("data", second)


def test_every_format_is_written_with_its_header_and_read_as_a_table(
    spark: "SparkSession", streams: Streams
) -> None:
    encoders: dict[Any, Any] = {
        "json": encode_json, "msgpack": encode_msgpack, "avro": encode_avro,
        "protobuf": encode_protobuf,
    }  # fmt: skip
    js = streams.jetstream
    registry = js.create_schema_registry("REGISTRY_FORMATS")
    schemas = {}
    rows = spark.sql(
        "SELECT struct(id, IF(id = 2, NULL, 'n') AS name, CAST(id AS INT) AS size) AS row "
        "FROM range(1, 4)"
    )
    for kind, encode in encoders.items():
        stream = f"FORMAT_{kind}".upper()
        streams.create(stream)
        schema = registry.register(kind, VERSIONS[kind][1], format=kind)
        schemas[stream] = schema
        kept = f.create_map(f.lit("Kept"), f.array(f.lit("yes")))
        rows.coalesce(1).select(
            f.lit(f"{stream}.x").alias("subject"),
            encode("row", schema).alias("data"),
            schema_headers(schema, kept).alias("headers"),
        ).write.format("jetstream").option("servers", streams.url).option("stream", stream).mode(
            "append"
        ).save()
    register_tables(spark, like="FORMAT_*", schemas=schemas, servers=streams.url)

    expected = [(1, "n", 1, None), (2, None, 2, None), (3, "n", 3, None)]
    for stream, schema in schemas.items():
        message = js.stream(stream).get_msg(seq=2)
        assert message.headers["Kept"] == "yes"
        assert registry.decode(message) == {"id": 2, "name": None, "size": 2}, schema
        found = spark.sql(f"SELECT id, name, size, _rescued FROM {stream} ORDER BY seq")
        assert [tuple(one) for one in found.collect()] == expected, schema


def test_the_columns_of_a_stream_are_inferred(spark: "SparkSession", streams: Streams) -> None:
    streams.create("INFERRED")
    for data in (b'{"id": 1}', b'{"id": 2.5, "at": "x"}', b'{"id": 7, "more": {"x": [1]}}'):
        streams.jetstream.publish("INFERRED.x", data)

    found = infer_schema("INFERRED", servers=streams.url)
    register_tables(spark, like="INFERRED", schemas={"INFERRED": found.ddl}, servers=streams.url)

    assert found == ("id double, at string, more struct<x: array<bigint>>", 3, 0)
    assert infer_schema("INFERRED", servers=streams.url, limit=1).ddl == (
        "id bigint, more struct<x: array<bigint>>"
    )
    rows = spark.sql("SELECT id, at, more.x, _rescued FROM INFERRED ORDER BY seq").collect()
    assert [tuple(one) for one in rows] == [
        (1.0, None, None, None), (2.5, "x", None, None), (7.0, None, [1], None),
    ]  # fmt: skip


def test_what_cannot_work_is_refused_before_the_query_starts(
    spark: "SparkSession", streams: Streams
) -> None:
    registry = streams.jetstream.create_schema_registry("REGISTRY_REFUSED")
    schema = registry.register("orders", DDL)

    with pytest.raises(SchemaNotFound):
        registered_schema("REGISTRY_REFUSED", "nothing", servers=streams.url)
    with pytest.raises(
        Error, match=r"registry 'NOWHERE' does not exist on .*: create it, or corr"
    ):
        registered_schema("NOWHERE", "orders", servers=streams.url)
    with pytest.raises(
        Error, match=r"infer_schema: stream 'NOWHERE' does not exist on .*: create"
    ):
        infer_schema("NOWHERE", servers=streams.url)
    streams.create("UNFILLED")
    with pytest.raises(InvalidSchema, match="infer_schema: stream 'UNFILLED' has no messages"):
        infer_schema("UNFILLED", servers=streams.url)
    streams.jetstream.publish("UNFILLED.x", b"no JSON")
    with pytest.raises(InvalidSchema, match="infer_schema: stream 'UNFILLED': none of 1 samples"):
        infer_schema("UNFILLED", servers=streams.url)
    with pytest.raises(InvalidSchema, match=r"register_tables: schemas has 'UNFILLED': .*'lnog'"):
        register_tables(
            spark, like="UNFILLED", schemas={"UNFILLED": "id lnog"}, servers=streams.url
        )
    with pytest.raises(ValueError, match="has format json: use decode_json and encode_json"):
        decode_avro("data", schema)
    with pytest.raises(ValueError, match="has format json"):
        encode_msgpack("row", schema)
    with pytest.raises(ValueError, match="schema is given as text"):
        decode_json("data", DDL, headers="headers")
