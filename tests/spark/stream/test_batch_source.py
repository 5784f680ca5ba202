"""The format ``jetstream`` in a real Spark session over a real nats-server."""

import datetime as dt
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.functions import col, count_distinct
from pyspark.sql.functions import sum as sum_of

from jetspark.units import format_rfc3339

if TYPE_CHECKING:
    from tests.spark.conftest import Streams


def _reader(spark: SparkSession, streams: "Streams", stream: str) -> DataFrameReader:
    return spark.read.format("jetstream").option("servers", streams.url).option("stream", stream)


def _failure(frame: DataFrame) -> str:
    """Run a query that must fail while Spark plans it, and return what it says."""
    with pytest.raises(AnalysisException) as caught:
        frame.count()
    return str(caught.value)


def test_two_lines_count_a_stream(spark: SparkSession, streams: "Streams") -> None:
    streams.fill("COUNTED", 5000)

    frame = spark.read.format("jetstream").options(servers=streams.url, stream="COUNTED").load()

    assert frame.count() == 5000


def test_rows_are_the_messages(spark: SparkSession, streams: "Streams") -> None:
    before = dt.datetime.now(dt.UTC)
    streams.fill("ROWS", 100)

    rows = sorted(_reader(spark, streams, "ROWS").load().collect(), key=lambda row: row.seq)

    assert [(row.stream, row.subject, row.seq, row.data) for row in rows] == [
        ("ROWS", f"ROWS.{number % 3}", number, b"%d" % number) for number in range(1, 101)
    ]
    # Spark hands out local times without a zone.
    times = [row.timestamp.astimezone(dt.UTC) for row in rows]
    assert times == sorted(times)
    assert before - dt.timedelta(seconds=1) <= times[0] <= dt.datetime.now(dt.UTC)


def test_there_are_two_partitions_for_each_task_slot(
    spark: SparkSession, streams: "Streams"
) -> None:
    """The builder from configure() sets minPartitions to twice spark.default.parallelism."""
    streams.fill("PARTS", 1000)
    reader = _reader(spark, streams, "PARTS")

    assert reader.load().rdd.getNumPartitions() == 4
    assert reader.option("minPartitions", 7).load().rdd.getNumPartitions() == 7


def test_spark_finds_the_format_by_its_module_name(
    spark: SparkSession, streams: "Streams"
) -> None:
    """A session in which nothing was registered."""
    streams.fill("FOUND", 1000)
    frame = _reader(spark.newSession(), streams, "FOUND").load()

    assert frame.agg(count_distinct("seq"), sum_of("seq")).first() == (1000, 500500)
    assert frame.rdd.getNumPartitions() == 4


def test_offsets_filter_and_holes(spark: SparkSession, streams: "Streams") -> None:
    stream = streams.fill("RANGE", 200)
    stream.delete_msg(100)
    frame = (
        _reader(spark, streams, "RANGE")
        .options(startingOffsets="50", endingOffsets="150", subject="RANGE.1", batchSize="7")
        .load()
    )

    found = sorted(row.seq for row in frame.select("seq").collect())

    assert found == [seq for seq in range(50, 150) if seq % 3 == 1 and seq != 100]


def test_empty_streams_and_ranges_have_no_rows(spark: SparkSession, streams: "Streams") -> None:
    streams.create("EMPTY")
    streams.fill("SOME", 10)
    nothing = _reader(spark, streams, "SOME").options(startingOffsets="5", endingOffsets="5")

    assert _reader(spark, streams, "EMPTY").load().collect() == []
    assert nothing.load().collect() == []


def test_a_start_that_was_deleted_fails_or_is_moved(
    spark: SparkSession, streams: "Streams"
) -> None:
    """With failOnDataLoss and without."""
    streams.fill("LOST", 100).purge(seq=61)
    reader = _reader(spark, streams, "LOST").option("startingOffsets", 10)

    assert "starts at 61" in _failure(reader.load())
    assert reader.option("failOnDataLoss", "false").load().count() == 40


def test_a_schema_chooses_columns(spark: SparkSession, streams: "Streams") -> None:
    """Manual pruning; timestamp_ns and size only by schema."""
    streams.fill("CHOSEN", 20)
    frame = (
        _reader(spark, streams, "CHOSEN")
        .schema("size int, seq long, timestamp_ns long, timestamp timestamp")
        .load()
    )

    rows = frame.orderBy("seq").select("*", col("timestamp").cast("double")).collect()

    assert [(row[0], row[1]) for row in rows] == [(len(str(n)), n) for n in range(1, 21)]
    assert all(abs(row[2] / 1e9 - row[4]) < 1e-5 for row in rows)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("map", [{}, {"A": ["1", "2"], "B": ["x"]}]),
        ("raw", [b"", b"NATS/1.0\r\nA: 1\r\nB: x\r\nA: 2\r\n\r\n"]),
    ],
)
def test_headers(
    spark: SparkSession, streams: "Streams", mode: str, expected: list[object]
) -> None:
    """Empty, never NULL; the server's own lines do not show."""
    name = f"HEADERS_{mode}"
    streams.create(name)
    streams.jetstream.publish(f"{name}.a", b"plain")
    streams.jetstream.publish(f"{name}.b", b"with", headers=[("A", "1"), ("B", "x"), ("A", "2")])

    frame = _reader(spark, streams, name).option("includeHeaders", mode).load()

    assert [row.headers for row in frame.orderBy("seq").collect()] == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stream": "NO_SUCH"}, "stream 'NO_SUCH' does not exist on 127.0.0.1"),
        ({"servers": "nats://127.0.0.1:1"}, "cannot read stream 'S' on 127.0.0.1:1"),
        (
            {"batchsize": "x", "strat": "1"},
            "2 options are invalid: unknown option 'strat'",
        ),
    ],
    ids=["stream", "server", "options"],
)
def test_mistakes_are_one_line_before_any_task(
    spark: SparkSession, streams: "Streams", options: dict[str, str], text: str
) -> None:
    """Fail in planning, on the driver."""
    with pytest.raises(AnalysisException) as caught:
        _reader(spark, streams, "S").options(**options).load().count()

    lines = [line for line in str(caught.value).splitlines() if text in line]
    assert len(lines) == 1


def test_a_wrong_schema_is_refused_with_a_hint(spark: SparkSession, streams: "Streams") -> None:
    frame = _reader(spark, streams, "S").schema("subjects string").load()

    assert "unknown column 'subjects': did you mean 'subject'?" in _failure(frame)


def test_conditions_leave_out_rows(spark: SparkSession, streams: "Streams") -> None:
    streams.fill("WHERE", 100)
    frame = _reader(spark, streams, "WHERE").load()

    one = frame.where("seq = 7 AND subject = 'WHERE.1'")
    some = frame.where("seq > 90 AND subject LIKE 'WHERE.%' AND NOT (seq = 95)")

    assert [row.seq for row in one.collect()] == [7]
    assert sorted(row.seq for row in some.collect()) == [91, 92, 93, 94, 96, 97, 98, 99, 100]


def test_a_subject_alone_finds_its_stream(spark: SparkSession, streams: "Streams") -> None:
    """Exactly one stream takes the subject."""
    streams.fill("LOOKED", 30)

    frame = spark.read.format("jetstream").options(servers=streams.url, subject="LOOKED.1").load()

    assert {row.stream for row in frame.collect()} == {"LOOKED"}
    assert frame.count() == 10


def test_a_subject_without_a_stream_is_one_line(spark: SparkSession, streams: "Streams") -> None:
    frame = spark.read.format("jetstream").options(servers=streams.url, subject="none.x").load()

    assert "a stream that stores" in _failure(frame)


def test_times_choose_messages(spark: SparkSession, streams: "Streams") -> None:
    stream = streams.fill("TIMED", 10)
    middle = stream.get_msg(seq=6).time_ns

    rows = (
        _reader(spark, streams, "TIMED")
        .options(startingTimestamp=format_rfc3339(middle), endingOffsets="9")
        .load()
        .collect()
    )
    before = (
        _reader(spark, streams, "TIMED").options(endingTimestamp=format_rfc3339(middle)).load()
    )

    assert sorted(row.seq for row in rows) == [6, 7, 8]
    assert before.count() == 5
