"""Payload columns decoded by Spark itself, in batch and streaming (docs/spark.md, "Payloads")."""

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import DataType
from tests.spark.conftest import Streams

from jetspark.errors import InvalidSchema
from jetspark.spark import (
    decode_avro,
    decode_json,
    decode_msgpack,
    encode_avro,
    encode_json,
    encode_msgpack,
)
from jetspark.spark.payloads.plan import parse_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = "id long not null, price decimal(10,2), at timestamp, tags array<string>"
GOOD = b'{"id":1,"price":9.99,"at":"2026-11-15T12:00:00Z","tags":["a"]}'
BAD = b'{"id":"x","price":1}'


def test_a_streaming_query_decodes_and_rescues(
    spark: "SparkSession", streams: Streams, tmp_path: Path
) -> None:
    streams.create("DECODED")
    for payload in (GOOD, BAD, b"?"):
        streams.jetstream.publish("DECODED.x", payload)
    source = spark.readStream.format("jetstream").option("servers", streams.url)
    rows = source.option("stream", "DECODED").option("startingOffsets", "earliest").load()
    decoded = rows.select("seq", decode_json("data", DDL).alias("row")).select("seq", "row.*")

    query = (
        decoded.writeStream.format("memory")
        .queryName("decoded")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    good, bad, broken = spark.table("decoded").orderBy("seq").collect()

    assert (good.id, good.price, good.tags) == (1, Decimal("9.99"), ["a"])
    assert good["at"].astimezone(dt.UTC) == dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
    assert good._rescued is None
    assert (bad.id, bad.price) == (None, Decimal("1.00"))
    assert bytes(bad._rescued.data) == BAD
    assert broken._rescued.reason.startswith("invalid JSON: ")
    assert bytes(broken._rescued.data) == b"?"


def test_what_was_encoded_is_decoded(spark: "SparkSession") -> None:
    fields = "id long, price decimal(10,2), raw binary, m map<string,int>, n struct<x:array<long>>"
    rows = spark.sql(
        "SELECT struct(7L AS id, 1.50BD AS price, X'00FF' AS raw, map('k', 1) AS m,"
        " struct(array(1L, NULL) AS x) AS n) AS row"
    )

    both = rows.select(
        decode_json(encode_json("row"), fields, rescue=None).alias("a"),
        decode_msgpack(encode_msgpack("row"), fields, rescue=None).alias("b"),
    ).head()

    assert both is not None
    assert both.a == both.b
    assert (both.a.id, both.a.price, bytes(both.a.raw)) == (7, Decimal("1.50"), b"\x00\xff")
    assert (both.a.m, both.a.n.x) == ({"k": 1}, [1, None])


def test_encoded_times_keep_their_microseconds_in_any_zone(spark: "SparkSession") -> None:
    """Offsets of old times have seconds, which RFC 3339 has no place for."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = spark.sql(
            "SELECT struct(at, TIMESTAMP_NTZ '1600-01-01 00:00:00.000001' AS local) AS row FROM "
            "VALUES (TIMESTAMP '1600-01-01T00:00:00.000001Z'), "
            "(TIMESTAMP '1969-12-31T23:59:59.999999Z'), "
            "(TIMESTAMP '2026-10-25T00:30:00.123456Z') AS t(at)"
        )
        fields = "at timestamp, local timestamp_ntz"
        json = decode_json(encode_json("row"), fields, rescue=None).alias("json")
        pack = decode_msgpack(encode_msgpack("row"), fields, rescue=None).alias("pack")
        same = rows.select("row", json, pack).selectExpr("row = json", "row = pack").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")

    assert [tuple(row) for row in same] == [(True, True)] * 3


def test_avro_there_and_back(spark: "SparkSession") -> None:
    pytest.importorskip("fastavro")
    schema = (
        '{"type":"record","name":"R","fields":[{"name":"id","type":"long"},{"name":"at","type":'
        '["null",{"type":"long","logicalType":"timestamp-micros"}]}]}'
    )
    rows = spark.sql("SELECT struct(7L AS id, TIMESTAMP '2026-11-15T12:00:00Z' AS at) AS row")

    payload = encode_avro("row", schema, framing="single-object")
    found = rows.select("row", decode_avro(payload, schema, framing="single-object")).head()

    assert found is not None
    assert (found[1].id, found[1]["at"]) == (found[0].id, found[0]["at"])
    assert found[1]._rescued is None


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "ddl",
    [
        "a tinyint, b BYTE, c smallint, d short, e int, f integer, g bigint, h long",
        "a float, b real, c double, d string, e binary, f date, g boolean",
        "a timestamp, b timestamp_ntz, c timestamp_ltz, d decimal, e dec(5), f numeric(38, 38)",
        "a: int not null, `b c``d` string COMMENT 'it\\'s', e array<map<string, array<int>>>",
        "s struct<a int, b: struct<c: string NOT NULL>>, not int, struct int",
        "struct<a:int,b:array<string>>",
        "char char(3), varchar varchar(7)",
    ],
)
def test_ddl_means_what_it_means_to_spark(ddl: str) -> None:
    def plain(schema: DataType) -> str:
        return re.sub(r', "metadata": {[^}]*}', "", json.dumps(schema.jsonValue()))

    assert plain(parse_schema(ddl)) == plain(DataType.fromDDL(ddl))


def test_a_bad_schema_is_one_clear_line_on_the_driver() -> None:
    with pytest.raises(
        InvalidSchema, match="schema 'id lung' is not valid DDL: at 'lung': expected a"
    ):
        decode_json("data", "id lung")
    with pytest.raises(ValueError, match="zone='Mars': expected a time zone"):
        decode_json("data", "id long", zone="Mars")
    with pytest.raises(ValueError, match="epoch='h': expected one of 's', 'ms', 'us', 'ns'"):
        decode_json("data", "id long", epoch="h")
