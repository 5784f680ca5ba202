"""Batches decoded in the short way hold what the exact way gives, whatever the payloads are."""

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jetspark.spark.payloads.batch import BatchDecoder
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat, parse_schema

# Arrow's reader takes the first, msgspec the second.
NESTED = (
    "i long, s smallint, d double, f float, t string, ok boolean, m decimal(10,2),"
    " w decimal(38,18), at timestamp, day date, local timestamp_ntz, many array<int>,"
    " o struct<x: long NOT NULL, d: double, at: timestamp>, os array<struct<x: int, t: string>>"
)
FLAT = "i long, s smallint, d double, f float, t string, ok boolean"
NUMBERS = st.one_of(
    st.sampled_from(
        [
            "0", "-0", "1", "01", "1.0", "1e3", "-0.0", "1.", ".5", "+1", "NaN", "-Inf",
            "Infinity", "32768", "9223372036854775807", "9223372036854775808", "1e400", "1e-400",
            "1.7976931348623159e308", "3.4028236e38", "1.00000017881393432617187501",
            "12345678", "99999999.99", "123456789.5", "1.500", "1.555", "1e30", "1e37",
            "222292922062613601773071914052.249",
        ]
    ),
    st.integers(-200, 200).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(
        [
            "2026-11-15T12:00:00Z", "2026-11-15T12:00:00.5Z", "2026-11-15T12:00:00.123456789Z",
            "2026-11-15 12:00:00+02:00", "2026-11-15T12:00:00", "2026-11-15T12:00Z", "2026-11-15",
            "0000-01-01T00:00:00Z", "0000-01-01", "0001-01-01T00:00:00+23:59", "2026-02-29",
            "2026-11-15T23:59:60Z", "Inf", ", NaN,", "1.25", " 1", "+1", "5.", "null",
            "\\n", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\udc00", "\\u0000", "\\x", "\n", "\0",
        ]
    ),
    st.text(max_size=4).map(lambda text: json.dumps(text)[1:-1]),
).map('"{}"'.format)  # fmt: skip
NAMES = ["i", "s", "d", "f", "t", "ok", "m", "w", "at", "day", "local", "many", "o", "os", "x"]


def written(members: list[tuple[str, str]]) -> str:
    """Return an object, which may have a name twice."""
    return "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"


VALUES = st.recursive(
    st.one_of(NUMBERS, TEXTS, st.sampled_from(["null", "true", "false", "", "nul"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: f"[{','.join(values)}]"),
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3).map(written),
    ),
    max_leaves=4,
)
TIMES = st.sampled_from(['"2026-11-15T12:00:00Z"', '"2026-11-15T12:00:00.25+01:00"', "null"])
# Values of the right type; more than half of these batches are decoded in the short way.
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "i": st.integers(-(2**63), 2**63 - 1).map(str),
        "s": st.integers(-(2**15), 2**15 - 1).map(str),
        "d": st.floats(allow_nan=False, allow_infinity=False).map(repr),
        "f": st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
        "t": st.text(max_size=4).map(json.dumps),
        "ok": st.sampled_from(["true", "false", "null"]),
        "m": st.decimals(-99_999_999, 99_999_999, places=2).map("{:f}".format),
        "w": st.decimals(-(10**19), 10**19, places=18).map('"{:f}"'.format),
        "at": TIMES,
        "day": st.dates().map('"{}"'.format),
        "local": st.datetimes().map(lambda at: f'"{at.isoformat()}"'),
        "many": st.lists(st.none() | st.integers(-9, 9), max_size=3).map(json.dumps),
        "o": st.sampled_from(['{"x":1}', '{"x":2,"d":0.5,"at":null}', "null"]),
        "os": st.sampled_from(['[{"x":1,"t":"a"},null,{}]', "[]", "null"]),
        "other": st.sampled_from(['{"a":[{}]}', "1", '"}\\n{"']),
    },
).map(lambda row: written(list(row.items())).encode())
HOSTILE = st.sampled_from(
    [
        None, b"", b"{}", b" {}", b"{}\n", b"[]", b"{}{}", b"{}\n{}", b"{},{}", b"{}}", b"{",
        b"{}{}\0}", b"{}\0{}", b'{"i":"}', b'{"i":{}', b'{"many":[{}', b"{}]}", b"\xef\xbb\xbf{}",
        b'{"x":"\xff"}', b'{"t":"\xed\xa0\x80"}', b'{"x":NaN}', b'{"x":[-Inf]}', b'{"i":1,"i":2}',
        b'{"x":1,"x":2}', b'{"I":1}', b'{"\\u0069":1}', b'{"o":{}}', b'{"o":{"x":1,"x":2}}',
        b'{"i":1,}', b'{\n"i" : 1\r\n}',
    ]
)  # fmt: skip
ANY = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5).map(
    lambda members: written(members).encode(errors="surrogatepass")
)


def decoders(ddl: str, **more: Any) -> tuple[BatchDecoder, BatchDecoder]:
    """Return the usual decoder, and one that has the exact way alone."""
    plan = DecodePlan(
        PayloadFormat.JSON, json.dumps(parse_schema(ddl).jsonValue()), "_rescued", **more
    )
    usual, exact = BatchDecoder(plan), BatchDecoder(plan)
    exact._quick = None
    return usual, exact


def same(one: pa.Array, other: pa.Array) -> bool:
    """Whether both hold the same, down to the sign of a zero."""
    shown = [array.to_string(window=99, container_window=99) for array in (one, other)]
    return bool(one.equals(other)) and shown[0] == shown[1]


@settings(max_examples=150, deadline=None)
@given(
    ddl=st.sampled_from([NESTED, NESTED, FLAT]),
    payloads=st.one_of(
        st.lists(FITTING, min_size=1, max_size=6),
        st.lists(ANY, min_size=1, max_size=2),
        st.lists(st.one_of(FITTING, ANY, HOSTILE), min_size=1, max_size=4),
    ),
    zone=st.sampled_from(["UTC", "Europe/Rome"]),
)
# A zero byte ends Arrow's reader without an error: as many objects as payloads, in wrong rows.
@example(ddl=NESTED, payloads=[b'{"i":1}{"i":2}\0}', b'{"i":3}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"many":[{}', b'{}]}{"i":1}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"x":NaN,"i":1}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"d":-0}', b'{"d":-0.0}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"d":1.7976931348623159e308}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"f":1.00000017881393432617187501}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"m":123456789}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"w":222292922062613601773071914052.249}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"at":"0000-06-01T00:00:00Z"}', b"{}"], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"day":"0000-06-01"}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"x":"\xff"}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"t":"\\udc00"}'], zone="UTC")
@example(ddl=NESTED, payloads=[b'{"o":{"d":1}}'], zone="UTC")
def test_a_batch_holds_what_the_exact_way_gives(
    ddl: str, payloads: list[bytes | None], zone: str
) -> None:
    usual, exact = decoders(ddl, zone=zone)
    batch = pa.array(payloads, pa.binary())

    found = usual.decode(batch)

    found.validate(full=True)
    assert same(found, exact.decode(batch))


@pytest.mark.parametrize("ddl", [NESTED, FLAT])
def test_batches_that_fit_are_decoded_in_the_short_way(ddl: str) -> None:
    usual, exact = decoders(ddl)
    row = (
        b'{"i":1,"s":-2,"d":0.5,"f":0.1,"t":"\\u00e9 Inf\\n","ok":true,"m":1.25,"w":"-3.5",'
        b'"at":"2026-11-15T12:00:00Z","day":"2026-11-15","local":"2026-11-15T12:00:00",'
        b'"many":[1,null],"o":{"x":1,"at":"2026-11-15T12:00:00.123456789Z"},"os":[{"x":1}],"z":{}}'
    )
    batch = pa.array([row, b"{}", row], pa.binary())
    assert usual._quick is not None

    arrays = usual._quick.decode(batch)

    assert arrays is not None
    assert same(usual.decode(batch), exact.decode(batch))


@pytest.mark.parametrize("levels", [400, 3_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"x":'])
def test_deep_nesting_in_a_field_that_is_not_wanted(levels: int, opening: str) -> None:
    usual, exact = decoders(NESTED)
    closing = "]" if opening == "[" else "}"
    inner = "" if opening == "[" else "1"
    deep = f'{{"i":1,"x":{opening * levels}{inner}{closing * levels}}}'
    batch = pa.array([deep.encode(), b'{"i":2}'], pa.binary())

    found = usual.decode(batch)

    assert found.equals(exact.decode(batch))
