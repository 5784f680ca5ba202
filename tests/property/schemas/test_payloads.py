"""Payloads of every format, compared with other implementations: google.protobuf, fastavro."""

import datetime as dt
import io
import math
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import PayloadMismatch
from jetspark.schemas.formats import codec_of

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
TIMES = st.datetimes(timezones=st.just(dt.UTC))
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
FLOATS = st.floats(width=32)

# --- JSON and MessagePack -------------------------------------------------------------------

DDL = (
    "id bigint NOT NULL, small tinyint, name string, at timestamp, day date, price decimal(12,3), "
    "raw binary, x double, tags array<string>, sizes map<string, int>, "
    "inner struct<a: int NOT NULL, `b c`: array<struct<z: decimal(5,0)>>>"
)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale))


def nullable(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | kind


ROWS = st.fixed_dictionaries(
    {
        "id": LONGS,
        "small": nullable(st.integers(-128, 127)),
        "name": nullable(TEXT),
        "at": nullable(TIMES),
        "day": nullable(st.dates()),
        "price": nullable(decimals(12, 3)),
        "raw": nullable(st.binary(max_size=8)),
        "x": nullable(st.floats(allow_nan=False, allow_infinity=False)),
        "tags": nullable(st.lists(nullable(TEXT), max_size=3)),
        "sizes": nullable(st.dictionaries(TEXT, nullable(INTS), max_size=3)),
        "inner": nullable(
            st.fixed_dictionaries(
                {
                    "a": INTS,
                    "b c": nullable(
                        st.lists(
                            nullable(st.fixed_dictionaries({"z": nullable(decimals(5, 0))})),
                            max_size=2,
                        )
                    ),
                }
            )
        ),
    }
)


@pytest.mark.parametrize("format_name", ["json", "msgpack"])
@given(row=ROWS)
def test_objects_are_what_they_were(format_name: str, row: dict[str, Any]) -> None:
    codec = codec_of(format_name, DDL)

    assert codec.decode(codec.encode(row), codec) == row


@given(row=ROWS)
def test_json_is_what_others_read(row: dict[str, Any]) -> None:
    found = msgspec.json.decode(codec_of("json", DDL).encode(row))

    assert found["id"] == row["id"]
    assert found["name"] == row["name"]
    assert found["tags"] == row["tags"]
    assert found["day"] == (row["day"] and row["day"].isoformat())


@pytest.mark.parametrize("format_name", ["json", "msgpack", "avro", "protobuf"])
@given(data=st.binary(max_size=64))
def test_arbitrary_bytes_are_decoded_or_refused(format_name: str, data: bytes) -> None:
    codec = codec_of(format_name, {"avro": AVRO, "protobuf": PROTO}.get(format_name, DDL))
    try:
        found = codec.decode(data, codec)
    except PayloadMismatch:
        return
    assert found.keys() == {field.name for field in codec.record.fields}


def test_json_that_is_no_utf8_is_refused_whatever_field_it_is_in() -> None:
    codec = codec_of("json", "größe int")

    with pytest.raises(
        PayloadMismatch, match="invalid JSON: 'utf-8' codec can't decode byte 0xf6"
    ):
        codec.decode('{"größe": 1}'.encode("latin-1"), codec)
    assert codec.decode('{"größe": 1, "x": "ß"}'.encode(), codec) == {"größe": 1}


# --- Avro -----------------------------------------------------------------------------------

AVRO_TYPE = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "x", "type": "double"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "b", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "l", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": ["null", "string"]}},
    ],
}
AVRO = msgspec.json.encode(AVRO_TYPE).decode()
RECORDS = st.fixed_dictionaries(
    {
        "id": LONGS,
        "n": nullable(INTS),
        "x": st.floats(allow_nan=False),
        "s": nullable(TEXT),
        "b": st.binary(max_size=8),
        "at": TIMES,
        "e": st.sampled_from(["A", "B"]),
        "l": st.lists(INTS, max_size=3),
        "m": st.dictionaries(TEXT, nullable(TEXT), max_size=3),
    }
)


@given(row=RECORDS)
def test_avro_is_what_fastavro_writes(row: dict[str, Any]) -> None:
    codec = codec_of("avro", AVRO)
    expected = io.BytesIO()
    fastavro.schemaless_writer(expected, fastavro.parse_schema(AVRO_TYPE), row)

    assert codec.encode(row) == expected.getvalue()
    assert codec.decode(expected.getvalue(), codec) == row


# --- Protobuf -------------------------------------------------------------------------------

SCALARS = {
    "double": st.floats(allow_nan=False), "float": FLOATS.filter(lambda x: not math.isnan(x)),
    "int32": INTS, "int64": LONGS, "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1), "sint32": INTS, "sint64": LONGS,
    "fixed32": st.integers(0, 2**32 - 1), "fixed64": st.integers(0, 2**64 - 1),
    "sfixed32": INTS, "sfixed64": LONGS, "bool": st.booleans(), "string": TEXT,
    "bytes": st.binary(max_size=6),
}  # fmt: skip
_KINDS = descriptor_pb2.FieldDescriptorProto
PROTO = (
    'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M {'
    + "".join(f"{kind} a_{kind} = {n}; " for n, kind in enumerate(SCALARS, 1))
    + "".join(f"repeated {kind} r_{kind} = {n}; " for n, kind in enumerate(SCALARS, 101))
    + "".join(f"optional {kind} o_{kind} = {n}; " for n, kind in enumerate(SCALARS, 201))
    + "enum E { ZERO = 0; ONE = 1; MINUS = -1; } E e = 301; repeated E es = 302;"
    "message N { int32 x = 1; N2 deep = 2; } message N2 { string s = 1; }"
    "N n = 303; repeated N ns = 304; map<string, N> mn = 305; map<int32, string> ms = 306;"
    "google.protobuf.Timestamp at = 307; oneof one { string os = 308; N on = 309; } }"
)


def google_message() -> Any:
    """The same message for google.protobuf, written by hand: no parser of ours is involved."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    root = file.message_type.add(name="M")
    one, many = _KINDS.LABEL_OPTIONAL, _KINDS.LABEL_REPEATED

    def add(into: Any, name: str, number: int, kind: str, label: Any = one, of: str = "") -> Any:
        return into.field.add(
            name=name, number=number, label=label, type_name=of or None,
            type=getattr(_KINDS, f"TYPE_{kind.upper()}"),
        )  # fmt: skip

    for n, kind in enumerate(SCALARS, 1):
        add(root, f"a_{kind}", n, kind)
        add(root, f"r_{kind}", n + 100, kind, many)
    root.oneof_decl.add(name="one")
    for n, kind in enumerate(SCALARS, 201):
        field = add(root, f"o_{kind}", n, kind)
        field.proto3_optional = True
        field.oneof_index = len(root.oneof_decl)
        root.oneof_decl.add(name=f"_o_{kind}")
    enum = root.enum_type.add(name="E")
    for name, number in (("ZERO", 0), ("ONE", 1), ("MINUS", -1)):
        enum.value.add(name=name, number=number)
    add(root, "e", 301, "enum", of=".M.E")
    add(root, "es", 302, "enum", many, of=".M.E")
    inner = root.nested_type.add(name="N")
    add(inner, "x", 1, "int32")
    add(inner, "deep", 2, "message", of=".M.N2")
    add(root.nested_type.add(name="N2"), "s", 1, "string")
    add(root, "n", 303, "message", of=".M.N")
    add(root, "ns", 304, "message", many, of=".M.N")
    for name, number, key, value, of in (
        ("mn", 305, "string", "message", ".M.N"), ("ms", 306, "int32", "string", ""),
    ):  # fmt: skip
        entry = root.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        add(entry, "key", 1, key)
        add(entry, "value", 2, value, of=of)
        add(root, name, number, "message", many, of=f".M.{name.title()}Entry")
    add(root, "at", 307, "message", of=".google.protobuf.Timestamp")
    add(root, "os", 308, "string").oneof_index = 0
    add(root, "on", 309, "message", of=".M.N").oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


GOOGLE = google_message()
ENUM = st.sampled_from(["ZERO", "ONE", "MINUS"])
INNER = st.fixed_dictionaries({"x": INTS, "deep": nullable(st.fixed_dictionaries({"s": TEXT}))})
MESSAGES = st.fixed_dictionaries(
    {f"a_{kind}": of for kind, of in SCALARS.items()}
    | {f"r_{kind}": st.lists(of, max_size=2) for kind, of in SCALARS.items()}
    | {f"o_{kind}": nullable(of) for kind, of in SCALARS.items()}
    | {
        "e": ENUM,
        "es": st.lists(ENUM, max_size=3),
        "n": nullable(INNER),
        "ns": st.lists(INNER, max_size=2),
        "mn": st.dictionaries(TEXT, INNER, max_size=2),
        "ms": st.dictionaries(INTS, TEXT, max_size=2),
        "at": nullable(TIMES),
        "os": st.none(),
        "on": st.none(),
    }
).flatmap(lambda row: st.sampled_from(
    [row, row | {"os": "x"}, row | {"os": ""}, row | {"on": {"x": 0, "deep": None}}]
))  # fmt: skip


def fill(message: Any, row: dict[str, Any]) -> None:
    for name, value in row.items():
        if value is None:
            continue
        if isinstance(value, dt.datetime):
            getattr(message, name).FromDatetime(value)
        elif isinstance(value, dict):
            if name == "mn":
                for key, one in value.items():
                    fill(message.mn[key], one)
            elif name == "ms":
                message.ms.update(value)
            else:
                getattr(message, name).SetInParent()
                fill(getattr(message, name), value)
        elif name == "ns":
            for one in value:
                fill(message.ns.add(), one)
        elif name == "es":
            message.es.extend([GOOGLE.E.Value(one) for one in value])
        elif name == "e":
            message.e = GOOGLE.E.Value(value)
        elif isinstance(value, list):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)


@given(row=MESSAGES)
def test_protobuf_is_what_google_writes_and_reads(row: dict[str, Any]) -> None:
    codec = codec_of("protobuf", PROTO)
    theirs = GOOGLE()
    fill(theirs, row)

    assert codec.decode(theirs.SerializeToString(), codec) == row
    assert GOOGLE.FromString(codec.encode(row)) == theirs
    # In pieces, which a reader has to merge.
    half = GOOGLE()
    fill(half, {name: row[name] for name in ("n", "ns", "at", "os", "on")})
    merged = GOOGLE.FromString(theirs.SerializeToString() + half.SerializeToString())
    again = codec.decode(theirs.SerializeToString() + half.SerializeToString(), codec)
    assert GOOGLE.FromString(codec.encode(again)) == merged
