"""Batches that fit are decoded in a shorter way: never with another result than the exact one."""

import json
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jetspark.spark.payloads.batch import BatchDecoder
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat, parse_schema

TYPES = ("decimal(10,2)", "decimal(38,18)", "decimal(38,0)", "decimal(38,38)", "decimal(4,4)")
DIGITS = st.text("0123456789", min_size=1, max_size=45)
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    DIGITS.map(lambda digits: digits.lstrip("0") or "0"),
    st.one_of(st.just(""), DIGITS.map(".{}".format)),
    st.sampled_from(["", "", "", "e2", "E-3", "e+40", "e-400", "e400"]),
)
STRINGS = st.one_of(
    NUMBERS,
    DIGITS.map("+{}".format),
    st.sampled_from(
        ["", ".", "1.", ".5", " 1", "1_0", "null", "NaN", '"1"', "\uff11", "1\\", "--1"]
    ),
    st.text(max_size=4),
).map(json.dumps)
VALUES = st.one_of(NUMBERS, STRINGS, st.sampled_from(["null", "true", "[1]", "{}"]))


def both(ddl: str, *payloads: bytes | None, **more: Any) -> tuple[pa.Array, pa.Array]:
    """Decode in the usual way, and in the exact one alone."""
    schema = json.dumps(parse_schema(ddl).jsonValue())
    plan = DecodePlan(PayloadFormat.JSON, schema, "_rescued", **more)
    usual, exact = BatchDecoder(plan), BatchDecoder(plan)
    exact._quick = None
    batch = pa.array(payloads, pa.binary())
    return usual.decode(batch), exact.decode(batch)


@settings(deadline=None)
@given(st.sampled_from(TYPES), st.lists(VALUES, min_size=1, max_size=4), st.booleans())
@example("decimal(38,18)", ["222292922062613601773071914052.249"], False)
@example("decimal(38,18)", ["1e30"], False)
@example("decimal(4,4)", ["0e2"], False)
@example("decimal(10,2)", ["0e400", "-0e40", "1.5"], False)
@example("decimal(10,2)", ["null"], True)
@example("decimal(10,2)", ['"null"'], False)
def test_decimals_are_those_of_the_exact_way(kind: str, values: list[str], required: bool) -> None:
    ddl = f"price {kind}{' NOT NULL' if required else ''}"

    usual, exact = both(ddl, *(f'{{"price":{value}}}'.encode() for value in values))

    assert usual.to_pylist() == exact.to_pylist()


def test_a_decimal_too_large_for_arrow_is_rescued() -> None:
    """Arrow's own conversion of this text gives another number, without an error."""
    (row,) = both("d decimal(38,18)", b'{"d":222292922062613601773071914052.249}')[0].to_pylist()

    assert row["d"] is None
    assert row["_rescued"]["reason"].startswith("d: ")


def test_a_batch_that_does_not_fit_does_no_harm_to_the_next() -> None:
    schema = json.dumps(parse_schema("price decimal(10,2)").jsonValue())
    decoder = BatchDecoder(DecodePlan(PayloadFormat.JSON, schema, "_rescued"))
    good, bad = b'{"price":1.25}', b'{"price":"x"}'

    for payloads in ([good], [good, bad], [good], [None, good], [b"{}", good], [bad], [good]):
        rows = decoder.decode(pa.array(payloads, pa.binary())).to_pylist()

        assert [row["price"] for row in rows] == [
            Decimal("1.25") if payload == good else None for payload in payloads
        ]
        assert [row["_rescued"] is not None for row in rows] == [
            payload == bad for payload in payloads
        ]


def test_the_greatest_float_is_one_in_the_few_digits_that_others_write() -> None:
    """As a double it is a little above it: Spark's own encoder writes it so."""
    greatest = 3.4028234663852886e38
    texts = ["3.4028235E38", "-3.4028235E38", "3.4028235677973362e38", repr(greatest)]

    usual, exact = both("f float", *(f'{{"f":{text}}}'.encode() for text in texts))
    _, beyond = both("f float", b'{"f":3.4028235677973367e38}')

    assert usual == exact
    assert [row["f"] for row in usual.to_pylist()] == [greatest, -greatest, greatest, greatest]
    assert beyond.to_pylist()[0]["f"] is None
