"""Rows as Python values, for the encoders of payloads."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from jetspark.errors import PayloadMismatch
from jetspark.schemas.formats import codec_of
from jetspark.spark.payloads.encode import payloads_of, python_rows

DDL = "at timestamp, many array<struct<at timestamp>>, by map<string, timestamp>"


@pytest.mark.parametrize("format_name", ["json", "msgpack"])
@pytest.mark.parametrize(
    "at",
    [
        dt.datetime(1883, 1, 1, 1, 2, 3, 4, dt.UTC),  # Berlin has an offset of 53 min 28 s
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, dt.UTC),  # and the year 10,000
        dt.datetime(2026, 7, 1, tzinfo=dt.UTC),
    ],
)
def test_times_in_any_zone_of_the_session_are_encoded_exactly(
    at: dt.datetime, format_name: str
) -> None:
    kind = pa.timestamp("us", "Europe/Berlin")
    inner = pa.struct([pa.field("at", kind)])
    row = pa.struct([("at", kind), ("many", pa.list_(inner)), ("by", pa.map_(pa.string(), kind))])
    given = {"at": at, "many": [{"at": at}, {"at": None}], "by": {"x": at}}
    rows = pa.array([given | {"by": [("x", at)]}, None], row)

    encoded, nothing = payloads_of(format_name, DDL, python_rows(rows))

    codec = codec_of(format_name, DDL)
    assert encoded is not None
    assert nothing is None
    assert codec.decode(encoded, codec) == given


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [
        ("Europe/Berlin", -62_135_599_408),  # 0001-01-01 00:10:00 there, and the year 0 in UTC
        ("America/New_York", 253_402_302_600),  # 9999-12-31 20:30:00
        ("UTC", 300_000_000_000),
    ],
)
@pytest.mark.parametrize("wrap", [lambda at: at, lambda at: [None, at]], ids=["alone", "listed"])
def test_a_time_that_only_spark_has_is_refused_with_its_field(
    zone: str, seconds: int, wrap: Callable[[int], Any]
) -> None:
    kind = pa.timestamp("us", zone)
    fields = [("good", kind), ("bad", kind if wrap(0) == 0 else pa.list_(kind))]
    rows = pa.array(
        [None, {"good": 0, "bad": None}, {"good": 0, "bad": wrap(seconds * 1_000_000)}],
        pa.struct(fields),
    )

    with pytest.raises(PayloadMismatch, match=r"^bad has a time outside of the years 1 to 9999"):
        python_rows(rows)
