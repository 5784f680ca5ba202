"""What of .proto files is understood, and what is refused by name."""

import json

import pytest

from jetspark.errors import InvalidSchema, PayloadMismatch
from jetspark.schemas.ddl import to_ddl
from jetspark.schemas.formats import codec_of

HEAD = 'syntax = "proto3";\n'


def test_everything_that_has_columns_is_understood() -> None:
    text = """
        // Comments of both kinds.
        syntax = "proto3"; /* also
        here */ package shop.v1;
        import "google/protobuf/timestamp.proto";
        option java_package = "x.y";
        message Order {
          option deprecated = false;
          enum State { option allow_alias = true; NEW = 0; PAID = 1; SETTLED = 1; reserved 5; }
          message Item { string sku = 1; uint32 count = 2 [deprecated = true, (x.y) = "]"]; }
          reserved 9, 20 to 30, 100 to max; reserved "old";
          int64 id = 1; State state = 0x2; repeated Item items = 3;
          map<string, .shop.v1.Order.Item> by_sku = 4;
          optional double price = 5; google.protobuf.Timestamp at = 6;
          oneof who { option (z) = true; string user = 7; Order.Item bot = 8; }
          uint64 big = 11; v1.Currency currency = 12; int32 message = 13; bytes option_ = 14;
        };
        enum Currency { EUR = 0; }
        service Orders { rpc Put(Order) returns (Order) { option (a) = { b: 1 }; } }
    """
    found = codec_of("protobuf", text).record

    item = "struct<sku: string NOT NULL, count: bigint NOT NULL>"
    assert to_ddl(found) == (
        "id bigint NOT NULL, state string NOT NULL, "
        f"items array<{item}> NOT NULL, by_sku map<string, {item}> NOT NULL, "
        f"price double, at timestamp, user string, bot {item}, big decimal(20,0) NOT NULL, "
        "currency string NOT NULL, message int NOT NULL, option_ binary NOT NULL"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message M { int32 a = 1; }", 'expected syntax = "proto3"'),
        ('syntax = "proto2"; message M { int32 a = 1; }', 'only syntax = "proto3"'),
        (HEAD, "has no message"),
        (HEAD + "message M { }", "message M has no fields"),
        (HEAD + "message M { required int32 a = 1; }", "line 2.*required is proto2's"),
        (HEAD + "message M { M m = 1; }", "m is a recursive M"),
        (HEAD + "message M { int32 a = 1; int32 b = 1; }", "a and b both have number 1"),
        (HEAD + "message M { int32 a = 1; string a = 2; }", "two fields have the name a"),
        (HEAD + "message M { int32 a = 3; reserved 2 to 4; }", r"number 3 \(a\) is reserved"),
        (HEAD + 'message M { int32 a = 3; reserved "a"; }', "the name a is reserved"),
        (HEAD + "message M { int32 a = 0; }", "number of field a is 0"),
        (HEAD + "message M { int32 a = 19500; }", "19500"),
        (HEAD + "message M { google.protobuf.Any a = 1; }", "type google.protobuf.Any"),
        (HEAD + "message M { Missing a = 1; }", "a has type Missing"),
        (HEAD + 'import "other.proto"; message M { int32 a = 1; }', "one file"),
        (HEAD + "message M { map<bool, int32> a = 1; }", "keys of type bool"),
        (HEAD + "message M { repeated group G = 1 { } }", "groups are proto2's"),
        (HEAD + "message M { enum E { A = 1; } E e = 1; }", "first value must be 0"),
        (HEAD + "message M { int32 a = 1;", "at the end: expected a name"),
        (HEAD + "message M { int32 a = 1 }", "expected ;"),
        (HEAD + "message M { int32 a = 1; } message M { int32 a = 1; }", "M is declared twice"),
        (HEAD + "message M { int32 a = 1; oneof o { repeated int32 b = 2; } }", "repeated"),
        (HEAD + "message M { int32 a = @; }", "unexpected character|whole number"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem):
        codec_of("protobuf", text)


@pytest.mark.parametrize("format_name", ["protobuf", "avro"])
def test_types_that_multiply_are_refused(format_name: str) -> None:
    """Each of 40 types has two fields of the next one: 2^40 columns."""
    if format_name == "protobuf":
        text = HEAD + "".join(
            f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(40)
        )
        text += "message M40 { int32 a = 1; }"
    else:
        kind: object = {"type": "record", "name": "R40", "fields": [{"name": "a", "type": "int"}]}
        for n in reversed(range(40)):
            fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{n + 1}"}]
            kind = {"type": "record", "name": f"R{n}", "fields": fields}
        text = json.dumps(kind)

    with pytest.raises(InvalidSchema, match="more than 10,000 fields"):
        codec_of(format_name, text)


def test_comments_before_a_mistake_take_no_time() -> None:
    """Failed before: 2^n ways to skip them were tried."""
    with pytest.raises(InvalidSchema, match="unexpected character"):
        codec_of("protobuf", "/" * 400 + "\n@")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x00\x01", "number 0"),
        (b"\x80\x80\x80\x80\x80\x01\x38", "number 4294967296"),
        (b"\x53\x5c", "a group ends that was not started"),
        (b"\x12\x04\x0d\x00\x00\x00", "it is truncated"),
        (b"\x12\x05\x0d\x00\x00\x00\x00", "at: .*another wire type"),
        (b"\x0d\x00\x00\x00\x00", "a: .*wire type 5, expected 0"),
    ],
)
def test_bytes_that_no_writer_makes_are_refused(data: bytes, problem: str) -> None:
    text = HEAD + "message M { int32 a = 1; google.protobuf.Timestamp at = 2; }"
    codec = codec_of("protobuf", text)

    assert codec.decode(b"\x53\x08\x01\x54", codec) == {"a": 0, "at": None}  # an unknown group
    with pytest.raises(PayloadMismatch, match=problem):
        codec.decode(data, codec)
