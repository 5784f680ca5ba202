"""The table of docs/schemas.md: which changes each format allows, in which direction."""

import json

import pytest

from jetspark.schemas.compatibility import compatibility_problems
from jetspark.schemas.formats import codec_of


def allowed(format_name: str, old: str, new: str) -> str:
    """Return ``backward``, ``forward``, ``full`` or ``none``: what the change keeps."""
    before, after = codec_of(format_name, old), codec_of(format_name, new)
    backward = not compatibility_problems("backward", after, before, 1)
    forward = not compatibility_problems("forward", after, before, 1)
    assert (not compatibility_problems("full", after, before, 1)) == (backward and forward)
    assert compatibility_problems("none", after, before, 1) == []
    return {(True, True): "full", (True, False): "backward", (False, True): "forward"}.get(
        (backward, forward), "none"
    )


COLUMNS = [
    ("id bigint", "id bigint, name string", "full", "a nullable field is added"),
    ("id bigint, name string", "id bigint", "full", "a nullable field is removed"),
    ("id bigint", "id bigint, n int NOT NULL", "forward", "a required field is added"),
    ("id bigint, n int NOT NULL", "id bigint", "backward", "a required field is removed"),
    ("id int NOT NULL", "id int", "backward", "a field becomes nullable"),
    ("id int", "id int NOT NULL", "forward", "a field becomes required"),
    ("id int", "id bigint", "backward", "an integer becomes wider"),
    ("id bigint", "id smallint", "forward", "an integer becomes narrower"),
    ("id int", "id double", "backward", "an integer that a double holds exactly"),
    ("id bigint", "id double", "none", "an integer that a double would round"),
    ("x float", "x double", "backward", "a float becomes a double"),
    ("id int", "id decimal(10,0)", "backward", "an integer becomes a decimal"),
    ("id int", "id decimal(10,2)", "none", "a decimal without room for every integer"),
    ("d decimal(10,2)", "d decimal(12,3)", "backward", "a decimal gets more digits"),
    ("d decimal(10,2)", "d decimal(10,3)", "none", "a decimal trades digits"),
    ("s varchar(10)", "s string", "backward", "text without a limit"),
    ("s string", "s int", "none", "another type"),
    ("id int", "ID int", "full", "another name: one removed, one added"),
    ("s struct<a: int>", "s struct<a: bigint, b: int>", "backward", "within a struct"),
    ("s array<int>", "s array<bigint>", "backward", "within an array"),
    ("s map<string, int>", "s map<string, string>", "none", "within a map"),
    ("id int, name string", "name string, id int", "full", "another order"),
]  # fmt: skip


@pytest.mark.parametrize("format_name", ["json", "msgpack"])
@pytest.mark.parametrize(("old", "new", "keeps", "what"), COLUMNS)
def test_columns(format_name: str, old: str, new: str, keeps: str, what: str) -> None:
    assert allowed(format_name, old, new) == keeps, what


def record(*fields: object) -> str:
    named = [
        {"name": f"f{n}", "type": one} if not isinstance(one, dict) or "name" not in one else one
        for n, one in enumerate(fields)
    ]
    return json.dumps({"type": "record", "name": "r", "fields": named})


def enum(*symbols: str, **more: str) -> dict[str, object]:
    # Within "type", so that it is not taken for a field.
    return {
        "name": "e", "type": {"type": "enum", "name": "E", "symbols": list(symbols), **more},
    }  # fmt: skip


def fixed(size: int) -> dict[str, object]:
    return {"name": "f", "type": {"type": "fixed", "name": "x", "size": size}}


WITH_DEFAULT = {"name": "n", "type": "int", "default": 0}
NULLABLE = {"name": "n", "type": ["null", "int"], "default": None}
AVRO = [
    (record("long"), record("long", WITH_DEFAULT), "full", "a field with a default is added"),
    (record("long"), record("long", NULLABLE), "full", "a nullable field is added"),
    (record("long"), record("long", "int"), "forward", "a field without a default is added"),
    (record("long", "int"), record("long"), "backward", "a field without a default is removed"),
    (record("int"), record("long"), "backward", "int becomes long"),
    (record("int"), record("double"), "backward", "int becomes double"),
    (record("int"), record("float"), "none", "int becomes float, which rounds"),
    (record("long"), record("double"), "none", "long becomes double, which rounds"),
    (record("string"), record("bytes"), "backward", "string becomes bytes"),
    (record("int"), record(["null", "int"]), "backward", "a field becomes nullable"),
    (record(enum("A")), record(enum("A", "B")), "backward", "an enum gets a symbol"),
    (record(enum("A", default="A")), record(enum("A", "B", default="A")), "full", "with default"),
    (record({"name": "a", "type": "int"}),
     record({"name": "b", "aliases": ["a"], "type": "int"}), "backward", "renamed with an alias"),
    (record({"type": "array", "items": "int"}), record({"type": "array", "items": "long"}),
     "backward", "within an array"),
    (record({"type": "int", "logicalType": "date"}), record("int"), "none", "a logical type"),
    (record(fixed(4)),
     record(fixed(8)), "none", "a fixed of another size"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "keeps", "what"), AVRO)
def test_avro(old: str, new: str, keeps: str, what: str) -> None:
    assert allowed("avro", old, new) == keeps, what


def message(body: str) -> str:
    return f'syntax = "proto3"; message M {{ {body} }}'


PROTOBUF = [
    ("int64 id = 1;", "int64 id = 1; string s = 2;", "full", "a field is added"),
    ("int64 id = 1; string s = 2;", "int64 id = 1;", "full", "a field is removed"),
    ("int32 id = 1;", "int64 id = 1;", "backward", "int32 becomes int64"),
    ("int32 id = 1;", "sint32 id = 1;", "none", "the same numbers, other bytes"),
    ("int32 id = 1;", "fixed32 id = 1;", "none", "another wire type"),
    ("uint32 id = 1;", "int64 id = 1;", "backward", "uint32 becomes int64"),
    ("uint64 id = 1;", "int64 id = 1;", "none", "uint64 becomes int64"),
    ("string s = 1;", "bytes s = 1;", "backward", "string becomes bytes"),
    ("int64 id = 1;", "int64 id = 2;", "none", "another number"),
    ("int64 id = 1;", "int64 other = 1;", "none", "a number is reused"),
    ("int64 id = 1;", "optional int64 id = 1;", "full", "a field gets presence"),
    ("int64 id = 1;", "repeated int64 id = 1;", "none", "a field becomes repeated"),
    ("enum E { A = 0; } E e = 1;", "enum E { A = 0; B = 1; } E e = 1;", "backward", "enum"),
    ("enum E { A = 0; } E e = 1;", "int32 e = 1;", "backward", "an enum becomes a number"),
    ("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", "none", "a oneof"),
    ("message N { int32 x = 1; } N n = 1;", "message N { int64 x = 1; } N n = 1;", "backward",
     "within a message"),
    ("map<string, int32> m = 1;", "map<string, int64> m = 1;", "backward", "within a map"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "keeps", "what"), PROTOBUF)
def test_protobuf(old: str, new: str, keeps: str, what: str) -> None:
    assert allowed("protobuf", message(old), message(new)) == keeps, what


def test_a_problem_names_the_version_and_the_field() -> None:
    before, after = codec_of("json", "a struct<b: int>"), codec_of("json", "a struct<b: string>")

    assert compatibility_problems("backward", after, before, 7) == [
        "payloads of version 7 could not be read: a.b is string, which does not hold every int"
    ]
