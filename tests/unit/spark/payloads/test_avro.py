"""Avro payloads to columns without Spark (docs/spark.md, "Payloads")."""

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")

import fastavro
import fastavro.schema
import pyarrow as pa

from jetspark.errors import InvalidSchema, PayloadMismatch
from jetspark.schemas.avro import schema_text, single_object_head
from jetspark.spark.payloads.avro import spark_schema
from jetspark.spark.payloads.batch import BatchDecoder
from jetspark.spark.payloads.encode import avro_records
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    members = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": members}


def plan(schema: Any, *, reader: Any = None, framing: str = "plain") -> DecodePlan:
    writer = schema_text(schema, "schema")
    text = "" if reader is None else schema_text(reader, "reader_schema")
    columns = spark_schema(text or writer, "schema")
    return DecodePlan(
        PayloadFormat.AVRO, columns.json(), "_rescued", writer=writer, reader=text, framing=framing
    )


def decode(by: DecodePlan, *payloads: bytes | None) -> list[dict[str, Any]]:
    found = BatchDecoder(by).decode(pa.array(payloads, pa.binary()))
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
    return rows


def written(schema: Any, row: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), row)
    return file.getvalue()


FULL = record(
    ("flag", "boolean"),
    ("i", "int"),
    ("l", ["null", "long"]),
    ("f", "float"),
    ("d", "double"),
    ("wide", ["int", "long", "null"]),
    ("s", ["string", "null"]),
    ("b", "bytes"),
    ("fx", {"type": "fixed", "name": "F", "size": 2}),
    ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("again", "E"),
    ("dec", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
    ("us", {"type": "long", "logicalType": "timestamp-micros"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("id", {"type": "string", "logicalType": "uuid"}),
    ("tod", {"type": "int", "logicalType": "time-millis"}),
    ("many", {"type": "array", "items": ["null", record(("x", "int"), name="P")]}),
    ("by", {"type": "map", "values": "P"}),
)
MOMENT = dt.datetime(2026, 11, 15, 12, 0, 0, 250_000, tzinfo=dt.UTC)
LOCAL = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - it has no zone
ROW = {
    "flag": True, "i": -1, "l": None, "f": 0.5, "d": 0.25, "wide": 2**40, "s": "ü",
    "b": b"\x00\xff", "fx": b"ab", "e": "B", "again": "A", "dec": Decimal("-12.345"),
    "day": dt.date(1969, 12, 31), "ms": MOMENT, "us": MOMENT, "local": LOCAL,
    "id": "9d4b1e2c-0000-4000-8000-000000000000", "tod": 3_600_000,
    "many": [{"x": 1}, None], "by": {"k": {"x": 2}},
}  # fmt: skip


def test_every_type_of_a_record() -> None:
    by = plan(FULL)

    rows = decode(by, written(_stored(FULL), ROW), None)

    assert rows[0] == ROW | {"_rescued": None}
    assert set(rows[1].values()) == {None}


def _stored(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without uuid and time, so that the row can be given as it is stored."""
    text = json.dumps(schema)
    for logical in ("uuid", "time-millis"):
        text = text.replace(f', "logicalType": "{logical}"', "")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def test_columns_say_what_may_be_null() -> None:
    columns = spark_schema(schema_text(FULL, "schema"), "schema")

    nullable = [field.name for field in columns.fields if field.nullable]

    assert nullable == ["l", "wide", "s"]
    assert columns["dec"].dataType.simpleString() == "decimal(12,3)"
    assert columns["many"].dataType.simpleString() == "array<struct<x:int>>"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "is truncated"),
        (b"\x02", "is truncated"),
        (b"\x02\x02a" + b"zz", "2 bytes after"),
        (b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "not Avro of this schema"),
        (b"\x02\x04\xff\xff", "not Avro of this schema"),
    ],
)
def test_bytes_that_are_no_such_record_are_rescued(payload: bytes, reason: str) -> None:
    by = plan(record(("n", "int"), ("s", "string")))

    good, bad = decode(by, b"\x02\x02a", payload)

    assert good == {"n": 1, "s": "a", "_rescued": None}
    assert (bad["n"], bad["s"]) == (None, None)
    assert reason in bad["_rescued"]["reason"]
    assert bad["_rescued"]["data"] == payload


def test_a_reader_schema_resolves_older_records() -> None:
    old = record(("n", "int"), ("gone", "string"))
    new = record(("n", "long"))
    new["fields"].append({"name": "added", "type": "string", "default": "none"})

    rows = decode(plan(old, reader=new), written(old, {"n": 7, "gone": "x"}))

    assert rows == [{"n": 7, "added": "none", "_rescued": None}]


def test_single_objects_carry_the_fingerprint_of_their_schema() -> None:
    schema, other = record(("n", "int")), record(("m", "int"))
    text = schema_text(schema, "schema")
    by = plan(schema, framing="single-object")
    # Avro 1.12 gives this fingerprint of the schema "int" as an example of the algorithm.
    assert fastavro.schema.fingerprint('"int"', "CRC-64-AVRO") == "8f5c393f1ad57572"

    own = single_object_head(text) + b"\x02"
    foreign = single_object_head(schema_text(other, "schema")) + b"\x02"
    rows = decode(by, own, foreign, b"\x02")

    assert rows[0] == {"n": 1, "_rescued": None}
    assert rows[1]["_rescued"]["reason"].startswith("written with another schema")
    assert rows[2]["_rescued"]["reason"].startswith("not Avro single-object encoding")


def test_rows_become_records_again() -> None:
    text = schema_text(FULL, "schema")

    payloads = avro_records(text, b"", [ROW, None])

    assert payloads == [written(_stored(FULL), ROW), None]
    with pytest.raises(PayloadMismatch):
        avro_records(text, b"", [{"flag": "no"}])


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "not JSON"),
        ('"int"', "expected a record"),
        (record(("a", "Nope")), "not an Avro schema"),
        (record(("a", ["int", "string"])), "a is a union of several types"),
        (record(("a", {"type": "array", "items": "null"})), r"a\[\] is null"),
        (record(("a", ["null", "R"])), "a recursive R"),
        (record(("a", {"type": "fixed", "name": "Z", "size": 0})), "size 0"),
        (record(("a", record(name="Empty"))), "without fields"),
        (
            record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 39})),
            "39 digits",
        ),
    ],
)
def test_a_schema_without_columns_for_it_is_refused(schema: Any, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem):
        spark_schema(schema_text(schema, "schema"), "schema")


@pytest.mark.parametrize(
    ("logical", "zone"), [("timestamp-millis", dt.UTC), ("local-timestamp-millis", None)]
)
def test_microseconds_are_refused_where_the_schema_has_milliseconds(
    logical: str, zone: dt.tzinfo | None
) -> None:
    moment = {"type": "long", "logicalType": logical}
    text = schema_text(record(("at", moment), ("all", {"type": "array", "items": moment})), "it")
    for year in (2026, 1960):
        whole = dt.datetime(year, 1, 1, microsecond=123_000, tzinfo=zone)
        (payload,) = avro_records(text, b"", [{"at": whole, "all": [whole]}])
        assert decode(plan(text), payload) == [{"at": whole, "all": [whole], "_rescued": None}]

        finer = whole.replace(microsecond=123_001)
        with pytest.raises(PayloadMismatch, match=r"^at: .* whole milliseconds \(truncate"):
            avro_records(text, b"", [{"at": finer, "all": []}])
        with pytest.raises(PayloadMismatch, match=r"^all\[1\]: .* whole milliseconds"):
            avro_records(text, b"", [{"at": whole, "all": [whole, finer]}])
