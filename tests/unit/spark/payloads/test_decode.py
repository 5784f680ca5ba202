"""Payloads to columns without Spark (docs/spark.md, "Payloads").

The expected values are written down by hand, never by the decoder under test.
"""

import base64
import datetime as dt
import gc
import json
import pkgutil
from decimal import Decimal
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

import jetspark.spark
from jetspark.errors import InvalidSchema, PayloadMismatch
from jetspark.schemas.shapes import check_shape
from jetspark.spark.payloads.batch import BatchDecoder
from jetspark.spark.payloads.plan import (
    DecodePlan,
    PayloadFormat,
    check_columns,
    parse_schema,
)
from jetspark.spark.payloads.spark_types import record_of

JSON, MSGPACK = PayloadFormat.JSON, PayloadFormat.MSGPACK


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def decode(
    schema: StructType,
    *payloads: bytes | None,
    kind: PayloadFormat = JSON,
    rescue: str | None = "_rescued",
    **more: Any,
) -> list[dict[str, Any]]:
    plan = DecodePlan(kind, json.dumps(schema.jsonValue()), rescue, **more)
    found = BatchDecoder(plan).decode(pa.array(payloads, pa.binary()))
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
    return rows


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(rows) == 1
    return rows[0]


def test_every_type_of_a_json_object() -> None:
    schema = struct(
        b=BooleanType(), i8=ByteType(), i16=ShortType(), i32=IntegerType(), i64=LongType(),
        f32=FloatType(), f64=DoubleType(), s=StringType(), v=VarcharType(3), raw=BinaryType(),
        dec=DecimalType(10, 2), d=DateType(), t=TimestampType(), ntz=TimestampNTZType(),
    )  # fmt: skip
    payload = (
        b'{"b":true,"i8":-128,"i16":32767,"i32":-2147483648,"i64":9223372036854775807,'
        b'"f32":0.5,"f64":3,"s":"\xc3\xbc","v":"abc","raw":"AP8=","dec":12345678.90,'
        b'"d":"2026-11-15","t":"2026-11-15T12:00:00.5+02:00","ntz":"2026-11-15T12:00:00"}'
    )

    row = only(decode(schema, payload))

    assert row == {
        "b": True, "i8": -128, "i16": 32767, "i32": -(2**31), "i64": 2**63 - 1,
        "f32": 0.5, "f64": 3.0, "s": "ü", "v": "abc", "raw": b"\x00\xff",
        "dec": Decimal("12345678.90"), "d": dt.date(2026, 11, 15),
        "t": dt.datetime(2026, 11, 15, 10, 0, 0, 500_000, tzinfo=dt.UTC),
        "ntz": dt.datetime(2026, 11, 15, 12),  # noqa: DTZ001 - it has no zone
        "_rescued": None,
    }  # fmt: skip


def test_nested_types_with_nulls_at_every_depth() -> None:
    point = struct(x=IntegerType(), tags=ArrayType(StringType()))
    schema = struct(
        p=point,
        many=ArrayType(point),
        by_name=MapType(StringType(), point),
        by_number=MapType(IntegerType(), ArrayType(LongType())),
    )

    rows = decode(
        schema,
        b'{"p":{"x":1,"tags":["a",null]},"many":[{"x":2},null,{"tags":[]}],'
        b'"by_name":{"k":{"x":3},"n":null},"by_number":{"7":[1,2],"8":null}}',
        b'{"p":null,"many":[],"by_name":{},"by_number":null}',
        b"{}",
    )

    empty = {"p": None, "many": None, "by_name": None, "by_number": None, "_rescued": None}
    assert rows == [
        {
            "p": {"x": 1, "tags": ["a", None]},
            "many": [{"x": 2, "tags": None}, None, {"x": None, "tags": []}],
            "by_name": {"k": {"x": 3, "tags": None}, "n": None},
            "by_number": {7: [1, 2], 8: None},
            "_rescued": None,
        },
        empty | {"many": [], "by_name": {}},
        empty,
    ]


def test_msgpack_has_the_floats_that_are_no_finite_numbers() -> None:
    """In columns of both sizes, and within others; a number too large for a float is rescued."""
    schema = struct(f=FloatType(), d=DoubleType(), many=ArrayType(FloatType()))
    numbers = [float("nan"), float("inf"), float("-inf"), 0.5, 1e39]
    payloads = [msgspec.msgpack.encode({"f": n, "d": n, "many": [n]}) for n in numbers]

    *rows, large = decode(schema, *payloads, kind=MSGPACK)

    found = [[row["f"], row["d"], *row["many"]] for row in rows]
    assert list(map(str, found)) == [str([number] * 3) for number in numbers[:-1]]
    assert [row["_rescued"] for row in rows] == [None] * 4
    assert (large["f"], large["d"], large["many"]) == (None, 1e39, None)
    assert "f: Expected `float` >= -3.4" in large["_rescued"]["reason"]


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (b'"1"', LongType(), "got `str`"),
        (b"1.0", LongType(), "got `float`"),
        (b"9223372036854775808", LongType(), "<= 9223372036854775807"),
        (b"128", ByteType(), "<= 127"),
        (b"1e39", FloatType(), "<= 3.4"),
        (b"1e999", DoubleType(), "out of range"),
        (b"true", StringType(), "got `bool`"),
        (b'"abcd"', VarcharType(3), "length <= 3"),
        (b'"!"', BinaryType(), "base64"),
        (b"1.005", DecimalType(10, 2), "data loss"),
        (b"123456789.00", DecimalType(10, 2), "precision"),
        (b'"NaN"', DecimalType(10, 2), "NaN"),
        (b'"2026-02-30"', DateType(), "Invalid"),
        (b"1700000000", TimestampType(), "got `int`"),
        (b'"2026-11-15T12:00:00Z"', TimestampNTZType(), "timezone"),
        (b"[1,2]", MapType(StringType(), LongType()), "got `array`"),
        (b'[{"x":"?"}]', ArrayType(struct(x=LongType())), "$[0].x"),
        (b"[null]", ArrayType(LongType(), containsNull=False), "got `null`"),
    ],
)
def test_a_value_that_does_not_fit_is_rescued_and_the_other_fields_stay(
    value: bytes, kind: DataType, reason: str
) -> None:
    payload = b'{"good":7,"bad":' + value + b"}"
    fitting = b'{"good":8}'

    bad, good = decode(struct(good=LongType(), bad=kind), payload, fitting)

    assert (bad["good"], bad["bad"]) == (7, None)
    assert bad["_rescued"]["reason"].startswith("bad: ")
    assert reason in bad["_rescued"]["reason"]
    assert bad["_rescued"]["data"] == payload
    assert good == {"good": 8, "bad": None, "_rescued": None}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "the payload is empty"),
        (b"nonsense", "invalid JSON: "),
        (b'{"a":1', "invalid JSON: "),
        (b'{"a":1} {"a":2}', "invalid JSON: "),
        (b'{"a":nope}', "invalid JSON: "),
        (b"\xff\xfe", "invalid JSON: "),
        (b"[1]", "not a JSON object: "),
        (b"null", "not a JSON object: "),
        (b'{"a":' + b"[" * 200_000, "invalid JSON: "),
        (b'{"a":"\\ud800"}', "invalid JSON: "),
        (b'{"a":"\xff"}', "a: "),
        (b"\x00" * 100, "invalid JSON: "),
    ],
)
def test_what_is_no_json_is_rescued_whole(payload: bytes, reason: str) -> None:
    rows = decode(struct(a=StringType()), b'{"a":"1"}', payload, None)

    assert rows[0] == {"a": "1", "_rescued": None}
    assert rows[1]["a"] is None
    assert rows[1]["_rescued"]["reason"].startswith(reason)
    assert rows[1]["_rescued"]["data"] == payload
    assert rows[2] == {"a": None, "_rescued": None}


@pytest.mark.parametrize("kind", [LongType(), DateType()])
def test_broken_utf8_in_a_field_that_is_left_out_is_rescued(kind: DataType) -> None:
    """A name in Latin-1 is not that of its column, which would be NULL without a trace.

    For both fast decoders: msgspec's, and Arrow's, which is for dates.
    """
    schema = StructType([StructField("größe", LongType()), StructField("b", kind)])
    payloads = ['{"größe":7}'.encode("latin-1"), b'{"b":null,"x":"\xc3"}', b"{}"]

    named, left_out, good = decode(schema, *payloads)

    assert named["_rescued"] == {
        "reason": "invalid JSON: byte 4 is not UTF-8", "data": payloads[0]
    }  # fmt: skip
    assert left_out["_rescued"]["reason"] == "invalid JSON: byte 15 is not UTF-8"
    assert good == {"größe": None, "b": None, "_rescued": None}
    with pytest.raises(PayloadMismatch, match="byte 4 is not UTF-8"):
        decode(schema, payloads[0], rescue=None)


def test_a_field_that_must_be_there_is_missed() -> None:
    schema = StructType([StructField("id", LongType(), nullable=False)])

    missing, null = decode(schema, b"{}", b'{"id":null}')

    assert missing["_rescued"]["reason"] == "id: missing, but NOT NULL in the schema"
    assert "got `null`" in null["_rescued"]["reason"]


def test_unknown_fields_are_left_out_or_rescued() -> None:
    schema = struct(a=LongType())
    payload = b'{"a":1,"b":2,"c":{"d":3}}'
    many = json.dumps({f"n{n}": n for n in range(1000)}).encode()

    ignored = only(decode(schema, payload))
    kept, crowd = decode(schema, payload, many, extra="rescue")

    assert ignored == {"a": 1, "_rescued": None}
    assert kept["a"] == 1
    assert kept["_rescued"] == {"reason": "unknown fields 'b', 'c'", "data": payload}
    assert crowd["_rescued"]["reason"].endswith("'n4' and 995 more")


def test_names_that_are_no_python_names() -> None:
    schema = struct(**{"a b.c": LongType(), "ü": struct(**{"1": StringType()})})
    payload = json.dumps({"a b.c": 1, "ü": {"1": "x"}}).encode()

    row = only(decode(schema, payload))

    assert row == {"a b.c": 1, "ü": {"1": "x"}, "_rescued": None}


@pytest.mark.parametrize(
    ("epoch", "value"),
    [
        ("s", b"1700000000"), ("s", b"1700000000.0"), ("ms", b"1700000000000"),
        ("us", b"1700000000000000"), ("ns", b"1700000000000000999"),
        ("s", b'"2023-11-14T22:13:20Z"'),
    ],
)  # fmt: skip
def test_numbers_as_timestamps(epoch: str, value: bytes) -> None:
    row = only(decode(struct(t=TimestampType()), b'{"t":' + value + b"}", epoch=epoch))

    assert row["t"] == dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    assert row["_rescued"] is None


def test_a_number_beyond_all_time_is_rescued() -> None:
    rows = decode(struct(t=TimestampType()), b'{"t":1e300}', b'{"t":0}', epoch="s")

    assert rows[0]["t"] is None
    assert rows[0]["_rescued"]["reason"].startswith("t: ")
    assert rows[1]["t"] == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize("digits", ["1234564", "123456499", "1234555"])
def test_times_as_text_are_rounded_to_microseconds(digits: str) -> None:
    (row,) = decode(
        struct(at=TimestampType()), b'{"at":"2026-11-15T12:00:00.%sZ"}' % digits.encode()
    )

    assert row["at"] == dt.datetime(2026, 11, 15, 12, 0, 0, 123456, dt.UTC)


def test_times_without_a_zone_are_in_the_zone_given() -> None:
    payload = b'{"t":"2026-07-01T12:00:00"}'
    schema = struct(t=TimestampType())

    utc = only(decode(schema, payload))
    rome = only(decode(schema, payload, zone="Europe/Rome"))

    assert utc["t"] == dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
    assert rome["t"] == dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC)


def test_without_a_rescue_column_what_does_not_fit_fails() -> None:
    with pytest.raises(
        PayloadMismatch, match=r"a: Expected `int \| null`, got `str` \(payload b'{"
    ):
        decode(struct(a=LongType()), b'{"a":1}', b'{"a":"x"}', rescue=None)


def test_msgpack_maps() -> None:
    moment = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
    schema = struct(
        raw=BinaryType(),
        t=TimestampType(),
        n=MapType(LongType(), StringType()),
        dec=DecimalType(5, 1),
    )
    good = msgspec.msgpack.encode({"raw": b"\x00", "t": moment, "n": {1: "x"}, "dec": "1.5"})

    row, text, cut, list_ = decode(
        schema, good, b'{"raw":1}', good[:-1], msgspec.msgpack.encode([1]), kind=MSGPACK
    )

    assert row == {
        "raw": b"\x00", "t": moment, "n": {1: "x"}, "dec": Decimal("1.5"), "_rescued": None,
    }  # fmt: skip
    assert text["_rescued"]["reason"].startswith("not a msgpack object: ")
    assert cut["_rescued"]["reason"].startswith("invalid msgpack: ")
    assert list_["_rescued"]["reason"].startswith("not a msgpack object: ")


def test_text_payloads_are_taken_as_well() -> None:
    plan = DecodePlan(JSON, json.dumps(struct(a=LongType()).jsonValue()), None)

    found = BatchDecoder(plan).decode(pa.array(['{"a":1}', None]))

    assert found.to_pylist() == [{"a": 1}, {"a": None}]


def test_no_rows_at_all() -> None:
    assert decode(struct(a=ArrayType(struct(b=LongType())))) == []


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (StructType([]), "no column"),
        (struct(a=CalendarIntervalType()), "a is interval"),
        (struct(a=ArrayType(VariantType())), r"a\[\] is variant"),
        (struct(a=struct(b=MapType(DoubleType(), LongType()))), "a.b has keys of type double"),
        (
            StructType([StructField("a", LongType()), StructField("A", LongType())]),
            "'A' is duplicated",
        ),
        (struct(_rescued=LongType()), "rescue="),
        (struct(a=StructType([])), "a is struct<>"),
        (struct(**{'a"b': LongType()}), "a quote"),
    ],
)
def test_a_schema_that_cannot_be_decoded_into_is_refused(schema: StructType, problem: str) -> None:
    def check() -> None:
        check_columns(schema, "_rescued")
        check_shape(record_of(schema))

    with pytest.raises(InvalidSchema, match=problem):
        check()


def test_a_schema_must_be_text_or_a_struct() -> None:
    with pytest.raises(InvalidSchema, match="not dict"):
        parse_schema({"a": "long"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("", "at the end: expected a column name"),
        ("id", "at the end: expected a type"),
        ("id lung", "at 'lung': expected a type supported for payloads"),
        ("id long,", "at the end: expected a column name"),
        ("id long id long", "at 'id long': expected ',' or the end"),
        ("a array<long", "at the end: expected >"),
        ("a map<string>", "at '>': expected ,"),
        ("a decimal(39,2)", "38 digits"),
        ("a decimal(2,3)", "38 digits"),
        ("a varchar(x)", "expected a number"),
        ("a long not nul", "at 'nul': expected NULL"),
        ("a long comment b", "expected a quoted string"),
        ("a; long", "at '; long': unexpected character"),
        ("a interval day", "expected a type"),
        ("a " + "array<" * 1000, "50 levels deep"),
    ],
)
def test_ddl_with_a_mistake_is_refused_where_it_is(ddl: str, problem: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse_schema(ddl)

    assert problem in str(caught.value)


def test_base64_of_any_bytes_comes_back() -> None:
    raw = bytes(range(256))
    payload = b'{"raw":"' + base64.b64encode(raw) + b'"}'

    assert only(decode(struct(raw=BinaryType()), payload))["raw"] == raw


def test_no_helper_has_the_name_of_a_module() -> None:
    """Importing the module later would put it in the place of the function.

    The package imports ``session`` itself, before it takes the function out of it.
    """
    modules = {module.name for module in pkgutil.iter_modules(jetspark.spark.__path__)}

    assert not modules & (set(jetspark.spark.__all__) - {"session"})


def test_the_cyclic_collector_does_not_walk_a_batch_and_runs_again_afterwards() -> None:
    """It took half of the CPU time of a batch of nested payloads."""
    schema = struct(tags=ArrayType(StringType()), place=struct(x=LongType()))
    runs: list[str] = []

    def seen(phase: str, _info: dict[str, int]) -> None:
        runs.append(phase)

    payloads = pa.array([b'{"tags":["a"],"place":{"x":1}}'] * 5000, pa.binary())
    decoder = BatchDecoder(DecodePlan(JSON, json.dumps(schema.jsonValue()), "_rescued"))
    gc.collect()
    gc.callbacks.append(seen)
    try:
        decoder.decode(payloads)
    finally:
        gc.callbacks.remove(seen)

    assert len(runs) <= 2  # one collection, before or after the batch
    assert gc.isenabled()
    with pytest.raises(PayloadMismatch):
        decode(schema, b"?", rescue=None)
    assert gc.isenabled()


def test_a_column_that_holds_no_payloads_is_refused_with_its_type() -> None:
    plan = DecodePlan(JSON, json.dumps(struct(a=LongType()).jsonValue()), "_rescued")
    with pytest.raises(TypeError, match="payloads is int32: expected binary or string"):
        BatchDecoder(plan).decode(pa.array([1], pa.int32()))
    text = BatchDecoder(plan).decode(pa.array(['{"a": 1}'], pa.string()))
    assert text.to_pylist() == [{"a": 1, "_rescued": None}]
