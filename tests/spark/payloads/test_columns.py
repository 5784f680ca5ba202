"""The column helpers in a real Spark session."""

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jetspark.headers.block import decode_headers
from jetspark.spark import encode_headers, parse_headers, with_msg_id

HEADERS = "map('A', array('1', '2'), 'B', array('x: y'))"


def test_headers_become_a_block_and_a_map_again(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT {HEADERS} AS h UNION ALL SELECT map() UNION ALL SELECT NULL")

    rows = frame.select(encode_headers("h").alias("block")).withColumn(
        "back", parse_headers("block")
    )
    found = [(bytes(row.block), row.back) for row in rows.collect()]

    assert found == [
        (b"NATS/1.0\r\nA: 1\r\nA: 2\r\nB: x: y\r\n\r\n", {"A": ["1", "2"], "B": ["x: y"]}),
        (b"", {}),
        (b"", {}),
    ]


def test_a_line_break_does_not_become_a_header(spark: SparkSession) -> None:
    frame = spark.sql("SELECT map('A', '1\\r\\nNats-Rollup: all') AS h")

    with pytest.raises(PySparkException, match="a header contains a line break"):
        frame.select(encode_headers("h", several=False)).collect()


@pytest.mark.parametrize("name", ["", "A: 1, B", ":"])
def test_a_name_does_not_become_another_header(spark: SparkSession, name: str) -> None:
    frame = spark.sql(f"SELECT map('{name}', array('2')) AS h")

    with pytest.raises(PySparkException, match="name of a header is empty or contains a colon"):
        frame.select(encode_headers("h")).collect()


def test_a_block_is_parsed_as_the_source_does_it(spark: SparkSession) -> None:
    block = b"NATS/1.0\r\nA:\t x \r\nbare\r\nA:y\t\r\n: z\r\nB:\r\n\r\n"
    frame = spark.createDataFrame([(bytearray(block),)], "block binary")

    (row,) = frame.select(parse_headers("block").alias("found")).collect()

    expected: dict[str, list[str]] = {}
    for name, value in decode_headers(block).items():
        expected.setdefault(name, []).append(value)
    assert row.found == expected


def test_ids_are_made_of_stream_sequence_and_content(spark: SparkSession) -> None:
    """A stream that was created again has other messages under the same sequences."""
    rows = spark.sql(
        "SELECT 'S' AS stream, seq, subject, CAST(data AS BINARY) AS data "
        "FROM VALUES (1, 's.a', 'one'), (2, 's.a', 'one'), (1, 's.a', 'other'), "
        "(1, 's.b', 'one'), (1, 's.a', 'one') AS t(seq, subject, data)"
    )

    ids = [row.msg_id for row in with_msg_id(rows).collect()]

    assert [one.rpartition(":")[0] for one in ids] == ["S:1", "S:2", "S:1", "S:1", "S:1"]
    assert len(set(ids)) == 4
    assert ids[0] == ids[4]
    with pytest.raises(ValueError, match=r"needs the columns stream, seq, .* seq is missing"):
        with_msg_id(rows.drop("seq"))
