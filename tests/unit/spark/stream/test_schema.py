"""Columns of a stream and their Arrow form. No Spark session."""

import datetime as dt

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.errors import InvalidSchema
from jetspark.spark.stream.options import HeaderMode
from jetspark.spark.stream.schema import (
    BatchEncoder,
    check_schema,
    columns_to_read,
    default_schema,
)

BLOCK = b"NATS/1.0\r\nA: 1\r\nB: x\r\nA: 2\r\n\r\n"


CHUNK = MessageColumns(
    sequences=[7, 9],
    times=[1_700_000_000_123_456_789, -1],
    subjects=["a.b", "ä"],
    data=[b"", b"\x00\xff"],
    headers=[b"", BLOCK],
)


def _schema(*fields: tuple[str, object]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (HeaderMode.NONE, ""),
        (HeaderMode.MAP, ",headers:map<string,array<string>>"),
        (HeaderMode.RAW, ",headers:binary"),
    ],
)
def test_the_default_schema_is_that_of_the_document(mode: HeaderMode, text: str) -> None:
    """Stream, subject, seq, timestamp, data (+ headers)."""
    schema = default_schema(mode)

    assert schema.simpleString() == (
        f"struct<stream:string,subject:string,seq:bigint,timestamp:timestamp,data:binary{text}>"
    )
    check_schema(schema, mode)


@pytest.mark.parametrize("mode", list(HeaderMode))
def test_batches_have_exactly_the_arrow_schema_spark_expects(mode: HeaderMode) -> None:
    """Names, types and nullability, or DATA_SOURCE_RETURN_SCHEMA_MISMATCH."""
    schema = default_schema(mode)

    batch = BatchEncoder(schema, stream="ORDERS", headers=mode).encode(CHUNK)

    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    batch.validate(full=True)


def test_values_arrive_unchanged() -> None:
    schema = default_schema(HeaderMode.NONE)

    rows = BatchEncoder(schema, stream="ORDERS", headers=HeaderMode.NONE).encode(CHUNK).to_pylist()

    assert rows == [
        {
            "stream": "ORDERS",
            "subject": "a.b",
            "seq": 7,
            "timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC),
            "data": b"",
        },
        {
            "stream": "ORDERS",
            "subject": "ä",
            "seq": 9,
            # A nanosecond before 1970 lies in the microsecond before it.
            "timestamp": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
            "data": b"\x00\xff",
        },
    ]


def test_a_users_schema_chooses_and_orders_columns() -> None:
    """The only pruning there is; 6.2: timestamp_ns and size by user schema."""
    schema = _schema(
        ("size", IntegerType()), ("Timestamp_NS", LongType()), ("subject", StringType())
    )
    check_schema(schema, HeaderMode.NONE)

    batch = BatchEncoder(schema, stream="S", headers=HeaderMode.NONE).encode(CHUNK)

    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert batch.to_pydict() == {
        "size": [0, 2],
        "Timestamp_NS": [1_700_000_000_123_456_789, -1],
        "subject": ["a.b", "ä"],
    }


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["seq", "stream"], ()),
        (["subject", "seq", "data"], ("data", "subjects")),
        (["size", "timestamp_ns", "Timestamp"], ("data", "times")),
    ],
)
def test_only_what_the_columns_need_is_read(names: list[str], columns: tuple[str, ...]) -> None:
    """Columns not asked for are not built."""
    schema = _schema(*[(name, StringType()) for name in names])

    assert columns_to_read(schema) == columns


def test_headers_as_a_map_are_grouped_and_never_null() -> None:
    """A column of NULL maps is a trap; empty maps are not."""
    mode = HeaderMode.MAP
    schema = _schema(("headers", MapType(StringType(), ArrayType(StringType()))))
    check_schema(schema, mode)

    batch = BatchEncoder(schema, stream="S", headers=mode).encode(CHUNK)

    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert batch.to_pydict() == {"headers": [[], [("A", ["1", "2"]), ("B", ["x"])]]}


def test_raw_headers_are_the_block_as_it_was() -> None:
    mode = HeaderMode.RAW
    schema = _schema(("headers", BinaryType()))

    batch = BatchEncoder(schema, stream="S", headers=mode).encode(CHUNK)

    assert batch.to_pydict() == {"headers": [b"", BLOCK]}


def test_text_that_is_not_utf8_is_replaced_and_not_fatal() -> None:
    block = b"NATS/1.0\r\nA: \xff\r\n\r\n"
    chunk = MessageColumns([1], [0], ["a.\udcff"], [b""], [block])

    batch = BatchEncoder(
        default_schema(HeaderMode.MAP), stream="S", headers=HeaderMode.MAP
    ).encode(chunk)

    assert batch.to_pydict()["subject"] == ["a.\ufffd"]
    assert batch.to_pydict()["headers"] == [[("A", ["\ufffd"])]]


def test_an_empty_chunk_is_an_empty_batch() -> None:
    mode = HeaderMode.MAP
    batch = BatchEncoder(default_schema(mode), stream="S", headers=mode).encode(
        MessageColumns([], [], [], [], [])
    )

    assert batch.num_rows == 0
    assert batch.schema.equals(to_arrow_schema(default_schema(mode), timezone="UTC"))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (_schema(), "it has no column"),
        (_schema(("subjects", StringType())), "unknown column 'subjects': did you mean 'subject'"),
        (_schema(("colour", LongType())), r"unknown column 'colour' \(expected one of stream, "),
        (_schema(("seq", StringType())), "column 'seq' must be bigint, not string"),
        (_schema(("seq", LongType()), ("SEQ", LongType())), "column 'SEQ' is duplicated"),
        (_schema(("headers", BinaryType())), "requires option includeHeaders"),
        (_schema(("timestamp", LongType())), "column 'timestamp' must be timestamp, not bigint"),
    ],
    ids=["empty", "near", "far", "type", "double", "headers", "timestamp"],
)
def test_a_schema_that_does_not_fit_is_refused(schema: StructType, text: str) -> None:
    with pytest.raises(InvalidSchema, match=text):
        check_schema(schema, HeaderMode.NONE)


def test_every_mistake_of_a_schema_is_named() -> None:
    schema = _schema(("seq", StringType()), ("timestamp", TimestampType()), ("what", LongType()))

    with pytest.raises(InvalidSchema, match=r"'seq' must be bigint.*unknown column 'what'"):
        check_schema(schema, HeaderMode.NONE)
