"""What compatibility allows is true: such readers decode every value of such writers, exactly."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import PayloadMismatch
from jetspark.schemas.formats import codec_of


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": whole(8), "smallint": whole(16), "int": whole(32), "bigint": whole(64),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False), "boolean": st.booleans(),
    "string": TEXT, "varchar(3)": st.text(st.characters(codec="utf-8"), max_size=3),
    "decimal(5,2)": st.integers(-99999, 99999).map(lambda n: Decimal(n).scaleb(-2)),
    "decimal(21,2)": st.integers(-(10**21) + 1, 10**21 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    "decimal(10,0)": st.integers(-(10**10) + 1, 10**10 - 1).map(Decimal),
    "date": st.dates(), "timestamp": st.datetimes(timezones=st.just(dt.UTC)),
    "binary": st.binary(max_size=4), "array<int>": st.lists(whole(32), max_size=2),
    "array<bigint>": st.lists(whole(64), max_size=2),
    "struct<a: int>": st.fixed_dictionaries({"a": whole(32)}),
    "struct<a: bigint, b: int>": st.fixed_dictionaries({"a": whole(64), "b": whole(32)}),
}  # fmt: skip
AVRO: dict[str, st.SearchStrategy[Any]] = {
    '"int"': whole(32), '"long"': whole(64),
    '"float"': st.floats(width=32, allow_nan=False), '"double"': st.floats(allow_nan=False),
    '"string"': TEXT, '"bytes"': st.binary(max_size=4), '"boolean"': st.booleans(),
    '["null", "int"]': st.none() | whole(32), '["null", "long"]': st.none() | whole(64),
    '{"type": "array", "items": "int"}': st.lists(whole(32), max_size=2),
    '{"type": "array", "items": "long"}': st.lists(whole(64), max_size=2),
    '{"type": "enum", "name": "E", "symbols": ["A", "B"]}': st.sampled_from("AB"),
    '{"type": "enum", "name": "E", "symbols": ["C", "B", "A"]}': st.sampled_from("ABC"),
}  # fmt: skip
PROTO: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), whole(32)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), whole(64)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
    "bool": st.booleans(), "string": TEXT, "bytes": st.binary(max_size=4),
    "repeated int32": st.lists(whole(32), max_size=2),
    "repeated int64": st.lists(whole(64), max_size=2),
}  # fmt: skip


def schema_of(format_name: str, kind: str) -> str:
    match format_name:
        case "avro":
            field = {"name": "v", "type": json.loads(kind)}
            return json.dumps({"type": "record", "name": "r", "fields": [field]})
        case "protobuf":
            return f'syntax = "proto3"; message M {{ {kind} v = 1; }}'
    return f"v {kind}"


def equal(value: Any, found: Any) -> bool:
    if isinstance(found, bytes) and isinstance(value, str):
        return found.decode() == value
    if isinstance(value, dict):
        return all(equal(one, found[name]) for name, one in value.items())
    return bool(found == value)


@pytest.mark.parametrize(
    ("format_name", "kinds"),
    [("json", COLUMNS), ("msgpack", COLUMNS), ("avro", AVRO), ("protobuf", PROTO)],
)
@given(data=st.data())
def test_readers_that_are_compatible_read_the_same_values(
    format_name: str, kinds: dict[str, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    written, read = data.draw(st.sampled_from(list(kinds))), None
    writer = codec_of(format_name, schema_of(format_name, written))
    value = data.draw(kinds[written])
    encoded = writer.encode({"v": value})

    readers = 0
    for read in kinds:
        reader = codec_of(format_name, schema_of(format_name, read))
        if reader.problems_reading(writer):
            continue
        readers += 1
        try:
            found = reader.decode(encoded, writer)["v"]
        except PayloadMismatch as error:
            raise AssertionError(f"{read} cannot read {written} {value!r}") from error
        assert equal(value, found), f"{read} reads {written} {value!r} as {found!r}"
    assert readers >= 1
