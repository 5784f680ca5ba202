"""Inferred schemas decode their samples."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jetspark
from jetspark.errors import InvalidSchema
from jetspark.schemas.formats import codec_of

NAMES = st.sampled_from(["a", "b", "a b", "struct", "ä", "x.y"])
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**63), 2**63 - 1), "great": st.integers(-(2**64), 2**64 - 1),
    "number": st.integers(-(2**50), 2**50) | st.floats(allow_nan=False, allow_infinity=False),
    "text": st.text(st.characters(codec="utf-8"), max_size=5), "flag": st.booleans(),
}  # fmt: skip


@st.composite
def places(draw: st.DrawFn, depth: int = 2) -> Any:
    """A strategy for the values of one place: of one type, or missing in some."""
    kind = draw(st.sampled_from([*SCALARS, "list", "record"] if depth else list(SCALARS)))
    if kind == "list":
        return st.none() | st.lists(draw(places(depth - 1)), max_size=3)
    if kind == "record":
        fields = draw(st.dictionaries(NAMES, places(depth - 1), min_size=1, max_size=3))
        return st.none() | st.fixed_dictionaries({}, optional=fields)
    return st.none() | SCALARS[kind]


@pytest.mark.parametrize("format_name", ["json", "msgpack"])
@given(data=st.data())
def test_samples_of_one_shape_are_decoded_as_they_are(
    format_name: Any, data: st.DataObject
) -> None:
    fields = data.draw(st.dictionaries(NAMES, places(), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.fixed_dictionaries({}, optional=fields), min_size=1, max_size=5))
    encode = (msgspec.json if format_name == "json" else msgspec.msgpack).encode
    if format_name == "msgpack":
        rows = [row for row in rows if fits(row)]
    samples = [encode(row) for row in rows]
    if not any(rows):
        with pytest.raises(InvalidSchema, match="object with fields"):
            jetspark.infer_schema(samples, format=format_name)
        return

    found = jetspark.infer_schema(samples, format=format_name)

    assert (found.sampled, found.rescued) == (len(rows), 0), found.ddl
    codec = codec_of(format_name, found.ddl)
    for row, sample in zip(rows, samples, strict=True):
        assert same(row, codec.decode(sample, codec)), found.ddl


def fits(value: Any) -> bool:
    """Whether msgpack has the number: 64 bits."""
    if isinstance(value, dict):
        return all(map(fits, value.values()))
    if isinstance(value, list):
        return all(map(fits, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def same(given: Any, found: Any) -> bool:
    if isinstance(given, dict):
        return not given or all(same(one, found[name]) for name, one in given.items())
    if isinstance(given, list):
        return all(same(*pair) for pair in zip(given, found, strict=True))
    return bool(given == found)


def test_what_differs_is_counted() -> None:
    samples = [b'{"a": 1}', b'{"a": 2, "b": {}}', b'{"a": "x"}', b"?", b"[]"]

    assert jetspark.infer_schema(samples) == ("a bigint, b map<string, string>", 5, 3)
    with pytest.raises(ValueError, match="format='avro': expected json or msgpack"):
        jetspark.infer_schema(samples, format="avro")  # type: ignore[arg-type]
