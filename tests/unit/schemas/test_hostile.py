"""Schemas and payloads made to harm: refused, in a time that grows with their size."""

import datetime as dt
import json
import time
from decimal import Decimal
from typing import Any

import pytest

from jetspark.errors import InvalidSchema, PayloadMismatch
from jetspark.schemas.formats import codec_of

PROTO = 'syntax = "proto3"; '
CHAIN = "".join(f"message M{n} {{ M{n + 1} a = 1; }}" for n in range(400))
DEEP = '{"type": "array", "items": ' * 5000 + '"int"' + "}" * 5000
RECORDS: Any = "int"
for _n in range(300):
    _field = {"name": "a", "type": RECORDS}
    RECORDS = {"type": "record", "name": f"r{_n}", "fields": [_field]}


def avro(kind: Any, **more: Any) -> str:
    field = {"name": "a", "type": kind, **more}
    return json.dumps({"type": "record", "name": "r", "fields": [field]})


@pytest.mark.parametrize(
    ("format_name", "text", "problem"),
    [
        ("json", f"a decimal({'9' * 5000})", "expected a number"),
        ("json", f"a char(1{'0' * 30})", "expected a number"),
        ("json", "a varchar(0)", r"expected varchar\(1\) or more"),
        ("json", "`\ud800` int", "half of a surrogate pair"),
        ("json", ",".join(f"f{n} int" for n in range(10_001)), "more than 10,000 fields"),
        ("protobuf", f"{PROTO}{CHAIN}message M400 {{ int32 a = 1; }}", "at most 50 levels deep"),
        ("protobuf", f"{PROTO}package {'.'.join('a' * 20_000)}; message M {{ T t = 1; }}",
         "more than 1000 characters"),
        ("protobuf", PROTO + "message M {" + "reserved 5;" * 1001 + "}", "reserved ranges"),
        ("protobuf", PROTO + "enum E { A = 0; B = 4294967296; } message M { E e = 1; }",
         "expected one of 32 bits"),
        ("avro", "[" * 100_000, "nested too deeply"),
        ("avro", '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ' + DEEP
         + "}]}", "nested too deeply"),
        ("avro", json.dumps(RECORDS), "nested too deeply"),
        ("avro", avro({"type": "bytes", "logicalType": "decimal"}), "precision"),
        ("avro", avro({"type": "fixed", "name": "f", "size": "x"}), "not an Avro schema"),
        ("avro", avro({"type": "error", "name": "e", "fields": []}), "not an Avro schema"),
    ],
)  # fmt: skip
def test_a_hostile_schema_is_refused_with_a_short_text(
    format_name: str, text: str, problem: str
) -> None:
    with pytest.raises(InvalidSchema, match=problem) as refused:
        codec_of(format_name, text)

    assert len(str(refused.value)) < 1000


def test_a_message_that_occurs_often_is_merged_in_linear_time() -> None:
    """Seen with 1 MB: 31 s."""
    codec = codec_of("protobuf", f"{PROTO}message M {{ T t = 1; }} message T {{ string s = 1; }}")
    once = codec.encode({"t": {"s": "x" * 10}})

    started = time.process_time()
    found = codec.decode(once * 30_000, codec)

    assert found == {"t": {"s": "x" * 10}}
    assert time.process_time() - started < 2


def test_the_last_member_of_a_oneof_counts() -> None:
    codec = codec_of(
        "protobuf", f"{PROTO}message M {{ oneof o {{ int32 a = 1; int32 b = 2; int32 c = 3; }} }}"
    )
    data = b"".join(codec.encode({name: 7}) for name in "abcba")

    assert codec.decode(data, codec) == {"a": 7, "b": None, "c": None}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x40"),
        ({"type": "array", "items": "int"}, b"\x02\x80\x80\x80\x80\x80\x40\x00"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
         b"\x28" + b"\x7f" * 20),
        # fastavro alone computes for minutes.
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
         b"\x80\x89\x7a" + b"\x7f" * 1_000_000),
    ],
)  # fmt: skip
def test_numbers_in_avro_that_exceed_their_type_are_refused(kind: Any, data: bytes) -> None:
    codec = codec_of("avro", avro(kind))

    with pytest.raises(PayloadMismatch, match="does not fit"):
        codec.decode(data, codec)


def test_defaults_in_avro_have_the_type_of_their_field() -> None:
    writer = codec_of("avro", avro("int"))
    defaults = {
        "b": ("bytes", "\u00ff", b"\xff"),
        "d": (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            "\u0001",
            Decimal("0.01"),
        ),
        "day": ({"type": "int", "logicalType": "date"}, 1, dt.date(1970, 1, 2)),
        "ms": (
            {"type": "long", "logicalType": "timestamp-millis"},
            1500,
            dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC),
        ),
        "us": (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            5,
            dt.datetime(1970, 1, 1, 0, 0, 0, 5),  # noqa: DTZ001 - it has no time zone
        ),
    }
    fields = [{"name": name, "type": one[0], "default": one[1]} for name, one in defaults.items()]
    reader = codec_of("avro", json.dumps({"type": "record", "name": "r", "fields": fields}))

    found = reader.decode(writer.encode({"a": 1}), writer)

    assert found == {name: one[2] for name, one in defaults.items()}


SIMPLE = {
    "json": "f float, s string, t timestamp",
    "msgpack": "f float, s string, t timestamp",
    "protobuf": f"{PROTO}message M {{ float f = 1; string s = 2; "
    "optional google.protobuf.Timestamp t = 3; }",
}


class Text(str):
    __slots__ = ()


class Moment(dt.datetime):
    pass


@pytest.mark.parametrize("format_name", SIMPLE)
def test_values_are_kept_exactly_or_refused(format_name: str) -> None:
    codec = codec_of(format_name, SIMPLE[format_name])
    mean = dt.timezone(dt.timedelta(minutes=19, seconds=32))  # of Amsterdam, until 1937
    for moment in (dt.datetime(1900, 1, 1, tzinfo=mean), Moment(2020, 1, 1, tzinfo=dt.UTC)):
        data = codec.encode({"s": Text("x"), "t": moment})
        found = codec.decode(data, codec)
        assert (found["s"], found["t"]) == ("x", moment)

    with pytest.raises(PayloadMismatch, match="which cannot hold it exactly"):
        codec.encode({"f": 2**24 + 1})
    east = dt.timezone(dt.timedelta(hours=14))
    with pytest.raises(PayloadMismatch, match="within the years 1 to 9999"):
        codec.encode({"t": dt.datetime(1, 1, 1, tzinfo=east)})
