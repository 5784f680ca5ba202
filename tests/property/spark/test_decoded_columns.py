"""Columns built quickly hold what columns built value by value hold (docs/spark.md, "Payloads").

The decoder takes short cuts for whole batches (no None anywhere, times with a zone). The reference
here has none of them: each payload is a batch of its own, and Arrow converts every time itself.
"""

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jetspark.spark.payloads import columns as decode_columns
from jetspark.spark.payloads.batch import BatchDecoder
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat, parse_schema

DDL = (
    "id long NOT NULL, small tinyint, ratio double, single float, name string, ok boolean,"
    " price decimal(10, 2), at timestamp, local timestamp_ntz, day date, raw binary,"
    " tags array<string>, times array<timestamp>, place struct<x: long, at: timestamp>,"
    " many array<struct<x: long>>, by map<string, timestamp>"
)
NAMES = [field.name for field in parse_schema(DDL).fields]
TIMES = st.one_of(
    st.datetimes().map(lambda at: at.isoformat()),
    st.datetimes().map(lambda at: at.isoformat() + "Z"),
    st.builds(
        lambda at, sign, hours, minutes: f"{at.isoformat()}{sign}{hours:02}:{minutes:02}",
        st.datetimes(), st.sampled_from("+-"), st.integers(0, 23), st.integers(0, 59),
    ),
    st.sampled_from(["2026-11-15T12:00:60Z", "2026-11-15", "0001-01-01T00:00:00+23:59", "noon"]),
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-200, 200),
        st.floats(), st.text(max_size=5), TIMES, st.sampled_from(["1.25", "-0", "1e5", "AP8="]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "at", "k"]), inner, max_size=3),
    ),
    max_leaves=4,
)  # fmt: skip
TYPED = st.fixed_dictionaries(
    {"id": st.integers(0, 9)},
    optional={
        "at": TIMES,
        "times": st.lists(st.none() | TIMES, max_size=3),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
        "place": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(), "at": TIMES}),
        "many": st.lists(st.none() | st.fixed_dictionaries({"x": st.integers(0, 9)}), max_size=3),
        "by": st.dictionaries(st.text(max_size=2), st.none() | TIMES, max_size=3),
    },
)
PAYLOADS = st.one_of(
    TYPED.map(lambda row: json.dumps(row).encode()),
    st.dictionaries(st.sampled_from([*NAMES, "other"]), VALUES, max_size=6).map(
        lambda row: json.dumps(row).encode()
    ),
    st.none(),
    st.binary(max_size=8),
    st.sampled_from([b'{"id":1,"id":"2"}', b'{"id":-0}', b'{"id":1} x', b'{"id":1,"ratio":-0}']),
)
AT = b'{"id":1,"at":"2026-11-15T12:00:00%s"}'


@settings(max_examples=60, deadline=None)
@given(
    payloads=st.lists(PAYLOADS, min_size=1, max_size=6),
    epoch=st.sampled_from(["", "s", "ms", "us", "ns"]),
    zone=st.sampled_from(["UTC", "Europe/Rome"]),
    extra=st.sampled_from(["ignore", "rescue"]),
)
@example(payloads=[AT % b"Z", AT % b"+02:00"], epoch="", zone="UTC", extra="ignore")
@example(payloads=[AT % b"Z", AT % b""], epoch="", zone="UTC", extra="ignore")
@example(payloads=[AT % b"", None, b"{}"], epoch="", zone="Europe/Rome", extra="ignore")
def test_a_batch_holds_what_its_payloads_hold_alone(
    payloads: list[bytes | None], epoch: str, zone: str, extra: str
) -> None:
    plan = DecodePlan(
        PayloadFormat.JSON, json.dumps(parse_schema(DDL).jsonValue()), "_rescued",
        epoch=epoch, zone=zone, extra=extra,
    )  # fmt: skip

    together = BatchDecoder(plan).decode(pa.array(payloads, pa.binary()))
    together.validate(full=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode_columns, "_instants", pa.array)
        alone = [BatchDecoder(plan).decode(pa.array([one], pa.binary())) for one in payloads]

    assert together.equals(pa.concat_arrays(alone))
