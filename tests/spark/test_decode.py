"""Payload columns decoded by Spark itself, in batch and streaming (docs/spark.md, "Payloads")."""

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from tests.spark.conftest import Streams

from jetspark.spark import (
    decode_avro,
    decode_json,
    decode_msgpack,
    encode_avro,
    encode_json,
    encode_msgpack,
)
from jetspark.spark.decode_ddl import parse_ddl
from jetspark.spark.schema import InvalidSchema

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
    assert broken._rescued.reason.startswith("no JSON: ")
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

    assert plain(parse_ddl(ddl)) == plain(DataType.fromDDL(ddl))


def test_a_bad_schema_is_one_clear_line_on_the_driver() -> None:
    with pytest.raises(InvalidSchema, match="schema 'id lung' is no DDL: at 'lung': expected a"):
        decode_json("data", "id lung")
    with pytest.raises(ValueError, match="zone='Mars': expected a time zone"):
        decode_json("data", "id long", zone="Mars")
    with pytest.raises(ValueError, match="epoch='h': expected one of 's', 'ms', 'us', 'ns'"):
        decode_json("data", "id long", epoch="h")


NATIVE_DDL = (
    "id long not null, price decimal(10,2), at timestamp, local timestamp_ntz, day date, d double,"
    " raw binary, tags array<string>, c struct<x: int not null, f: array<float>>,"
    " m map<string,int>"
)
ALIKE = [
    None,
    b'{"id":1,"price":9.99,"at":"2026-11-15T12:00:00Z","tags":["a",null]}',
    b' {"id":-0, "price":"1.5", "local":"2026-11-15T12:00:00.5", "day":"2026-11-15", "z":[{}]}\n',
    b'{"id":1,"d":1e3,"raw":"AAE=","c":{"x":1,"f":[0.5,null]},"m":{"a":1,"b":null}}',
    '{"id":1,"tags":["é","\\ud83d\\ude00","\\u0000"],"id":2}'.encode(),
    b'{"id":"1","price":1}',
    b'{"id":9223372036854775808}',
    b'{"id":1,"price":123456789.00}',
    b'{"id":1,"at":"soon","d":0.5}',
    b'{"id":1,"local":"2026-11-15T12:00:00Z"}',
    b'{"id":1,"day":"2026-02-30"}',
    b'{"id":1,"d":1e400,"tags":[]}',
    b'{"id":1,"d":"NaN"}',
    b'{"id":1,"raw":"?"}',
    b'{"id":1,"tags":"a"}',
    b'{"price":1}',
    b'{"id":null,"d":1}',
    b"{}",
    b"",
    b" ",
    b"null",
    b'[{"id":1}]',
    b'{"id":1',
    b"{'id':1}",
    b'{"id":NaN}',
    b'{"id":1} and more',
    b'{"id":1,"tags":["\xff"]}',
    b'\xef\xbb\xbf{"id":1}',
]


def test_spark_s_own_parser_takes_and_rescues_the_same_payloads(
    spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    rows = spark.createDataFrame(list(enumerate(ALIKE)), "n int, data binary").coalesce(1)
    ours = decode_json("data", NATIVE_DDL, zone="Europe/Rome")
    theirs = decode_json("data", NATIVE_DDL, zone="Europe/Rome", native=True)

    exact = [row[0] for row in rows.orderBy("n").select(ours).collect()]
    frame = rows.orderBy("n").select(theirs.alias("row"))
    native = [row[0] for row in frame.collect()]
    frame.explain()

    assert "Python" not in capsys.readouterr().out
    assert frame.select("row.*").columns == [*parse_ddl(NATIVE_DDL).fieldNames(), "_rescued"]
    for payload, one, other in zip(ALIKE, exact, native, strict=True):
        assert (one._rescued is None) == (other._rescued is None), payload
        if other._rescued is None:
            assert one == other, payload
        else:
            assert bytes(other._rescued.data) == payload
            assert other._rescued.reason
    assert native[ALIKE.index(b"")]._rescued.reason == "the payload is empty"
    missing = native[ALIKE.index(b'{"price":1}')]
    assert missing.price == Decimal("1.00")
    assert missing._rescued.reason == "id: missing, and the schema says NOT NULL"


DOUBLES = StructType([StructField("v", DoubleType(), nullable=False)])


@pytest.mark.parametrize(
    ("kind", "around"),
    [
        (DOUBLES, '{"v":?}'),
        (StructType([StructField("s", DOUBLES)]), '{"s":{"v":?}}'),
        (StructType([StructField("a", ArrayType(DOUBLES))]), '{"a":[{"v":0},{"v":?}]}'),
        (StructType([StructField("a", ArrayType(DoubleType(), containsNull=False))]), '{"a":[?]}'),
        (
            StructType([StructField("m", MapType(StringType(), DoubleType(), False))]),
            '{"m":{"k":?}}',
        ),
    ],
)
def test_spark_s_own_parser_rescues_infinite_numbers_and_forbidden_nulls_at_any_depth(
    spark: "SparkSession", kind: StructType, around: str
) -> None:
    values = ["1e400", "-1e400", "1.5", "null"]
    rows = spark.createDataFrame(
        [(around.replace("?", value),) for value in values], "data string"
    )

    found = rows.coalesce(1).select(decode_json("data", kind, native=True).alias("row")).collect()

    assert [row[0]._rescued is None for row in found] == [False, False, True, False]


@pytest.mark.parametrize(
    ("ddl", "payload", "value"),
    [
        ("v string", '{"v":[1, 2.50]}', "[1,2.5]"),
        ("v string", '{"v":true}', "true"),
        ("v string", '{"v":"\\ud800"}', "?"),
        ("v decimal(5,2)", '{"v":1.239}', Decimal("1.24")),
        ("v date", '{"v":"2026"}', dt.date(2026, 1, 1)),
        ("v timestamp", '{"v":"2026"}', dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        ("v timestamp", '{"v":5}', dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)),
        ("v long", '{"v":1}{"v":2}', 1),
    ],
)
def test_what_spark_s_own_parser_takes_beyond_ours_is_what_the_guide_says(
    spark: "SparkSession", ddl: str, payload: str, value: object
) -> None:
    rows = spark.createDataFrame([(payload,)], "data string")

    found = rows.select(decode_json("data", ddl), decode_json("data", ddl, native=True)).head()

    assert found is not None
    assert (found[0].v, found[0]._rescued is None) == (None, False)
    theirs = found[1].v
    # Spark gives times without a zone, in that of this process.
    assert (theirs.astimezone(dt.UTC) if isinstance(theirs, dt.datetime) else theirs) == value
    assert found[1]._rescued is None


@pytest.mark.parametrize(
    ("payload", "value"),
    [(b'{"v":1.0}', 1), (b'{"v":1e2}', 100), (b'{"v":"x","v":2}', 2), (b'{"v":3,"w":"\xff"}', 3)],
)
def test_what_spark_s_own_parser_rescues_beyond_ours_is_what_the_guide_says(
    spark: "SparkSession", payload: bytes, value: int
) -> None:
    rows = spark.createDataFrame([(payload,)], "data binary")

    found = rows.select(
        decode_json("data", "v long"), decode_json("data", "v long", native=True)
    ).head()

    assert found is not None
    assert (found[0].v, found[0]._rescued) == (value, None)
    assert bytes(found[1]._rescued.data) == payload


@pytest.mark.usefixtures("spark")
def test_what_spark_s_own_parser_cannot_do_is_refused_on_the_driver() -> None:
    with pytest.raises(ValueError, match="rescue=None with native=True: expected the name of a"):
        decode_json("data", "id long", native=True, rescue=None)
    with pytest.raises(ValueError, match="extra='rescue' with native=True: Spark's parser does"):
        decode_json("data", "id long", native=True, extra="rescue")
    with pytest.raises(ValueError, match="epoch='ms' with native=True: Spark's parser takes"):
        decode_json("data", "at timestamp", native=True, epoch="ms")
    refused = (
        r"schema with native=True: a is tinyint: declare smallint, .*; b.c\[\] is varchar\(3\): "
        "declare string, .*; m has keys of type int: declare string"
    )
    with pytest.raises(InvalidSchema, match=refused):
        decode_json("data", "a byte, b struct<c: array<varchar(3)>>, m map<int,int>", native=True)
