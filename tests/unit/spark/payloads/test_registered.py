"""Batches of payloads of a registered schema, decoded as in a task, without a session."""

import datetime as dt
import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from jetspark.errors import PayloadMismatch
from jetspark.schemas.avro import schema_text
from jetspark.schemas.formats import codec_of
from jetspark.schemas.schema import Document, Schema, Version
from jetspark.spark.payloads.batch import BatchDecoder
from jetspark.spark.payloads.encode import payloads_of
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat
from jetspark.spark.payloads.spark_types import columns_of

PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message M {
  int64 id = 1; optional string name = 2; uint64 big = 3; repeated N ns = 4;
  map<string, N> m = 5; google.protobuf.Timestamp at = 6; bytes raw = 7; float x = 8;
  enum E { A = 0; B = 1; } E e = 9;
  message N { int32 x = 1; }
}"""
AVRO = [
    json.dumps({"type": "record", "name": "r", "fields": fields})
    for fields in (
        [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
        [{"name": "b", "type": "string"}, {"name": "a", "type": "long"},
         {"name": "c", "type": "int", "default": 9}],
    )
]  # fmt: skip


def schema_with(kind: str, *texts: str, name: str = "orders") -> Schema:
    now = dt.datetime.now(dt.UTC)
    versions = tuple(Version(n, text, now) for n, text in enumerate(texts, 1))
    return Schema("S", name, Document(kind, "backward", len(texts), versions), len(texts))


def decoder(schema: Schema, kind: PayloadFormat, rescue: str | None = "_rescued") -> BatchDecoder:
    text = schema_text(schema.text, "schema") if kind is PayloadFormat.AVRO else schema.text
    return BatchDecoder(
        DecodePlan(
            kind, columns_of(schema.record()).json(), rescue, writer=text,
            reader=text if kind is PayloadFormat.PROTOBUF else "", name=schema.name,
            version=schema.version, versions=tuple(schema.texts().items()),
        )
    )  # fmt: skip


def test_protobuf_becomes_columns_and_back() -> None:
    schema = schema_with("protobuf", PROTO)
    at = dt.datetime(2026, 11, 18, 9, 0, 0, 5, tzinfo=dt.UTC)
    full = {
        "id": -1, "name": "n", "big": 2**64 - 1, "ns": [{"x": 1}, {"x": 0}], "m": {"k": {"x": 2}},
        "at": at, "raw": b"\xff", "x": 0.5, "e": "B",
    }  # fmt: skip
    payloads = [schema.encode(full), b"", b"\xff", None]

    rows = decoder(schema, PayloadFormat.PROTOBUF).decode(pa.array(payloads, pa.binary()))

    first, empty, broken, null = rows.to_pylist(maps_as_pydicts="strict")
    assert {**first, "big": int(first["big"]), "_rescued": None} == {**full, "_rescued": None}
    assert (empty["id"], empty["name"], empty["ns"], empty["e"]) == (0, None, [], "A")
    assert broken["_rescued"]["data"] == b"\xff"
    assert broken["_rescued"]["reason"].startswith("not protobuf of this message")
    assert set(null.values()) == {None}
    del first["_rescued"]
    assert payloads_of("protobuf", PROTO, [first, None]) == [payloads[0], None]


def test_avro_is_resolved_from_the_version_that_the_header_names() -> None:
    schema = schema_with("avro", *AVRO)
    old, new = (codec_of("avro", text) for text in AVRO)
    written = [
        (old.encode({"a": 1, "b": "x"}), "orders;1"),
        (new.encode({"a": 2**40, "b": "y", "c": 3}), "orders;2"),
        (new.encode({"a": 5, "b": "z"}), None),
        (b"", "orders;3"),
        (b"", "others;1"),
        (b"", "nonsense"),
    ]
    data = pa.array([one for one, _ in written], pa.binary())
    names = pa.array([one for _, one in written], pa.string())

    rows: list[Any] = decoder(schema, PayloadFormat.AVRO).decode(data, names).to_pylist()

    assert [(row["a"], row["b"], row["c"]) for row in rows[:3]] == [
        (1, "x", 9),
        (2**40, "y", 3),
        (5, "z", 9),
    ]
    assert [row["_rescued"] for row in rows[:3]] == [None] * 3
    reasons = [row["_rescued"]["reason"] for row in rows[3:]]
    assert "there were 1, 2: restart it" in reasons[0]
    assert reasons[1] == "its header names schema 'others', expected 'orders'"
    assert "expected a name and a version" in reasons[2]
    with pytest.raises(PayloadMismatch, match="restart it"):
        decoder(schema, PayloadFormat.AVRO, rescue=None).decode(data, names)


def test_json_of_another_schema_is_rescued_and_a_newer_version_is_tried() -> None:
    schema = schema_with("json", "id BIGINT")
    data = pa.array([b'{"id": 1}', b'{"id": 2, "new": 1}', b'{"id": 3}'], pa.binary())
    names = pa.array(["orders;1", "orders;7", "others;1"], pa.string())

    rows = decoder(schema, PayloadFormat.JSON).decode(data, names).to_pylist()

    assert [row["id"] for row in rows] == [1, 2, None]
    assert [row["_rescued"] is None for row in rows] == [True, True, False]
    assert rows[2]["_rescued"]["data"] == b'{"id": 3}'


def test_numbers_that_avro_would_cut_are_refused() -> None:
    """Failed before: fastavro writes 2**40 into an int, and 3.7 as 3."""
    from jetspark.spark.payloads.encode import avro_records

    for value in (2**40, 3.7):
        with pytest.raises(PayloadMismatch, match="a: expected int"):
            avro_records(AVRO[0], b"", [{"a": value, "b": ""}])
