"""What a user reads when a read or a table is refused: the reason, as the last line."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jetspark import KeyValueConfig
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.objects.source import ObjectDataSource
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream.source import JetStreamDataSource

if TYPE_CHECKING:
    from tests.spark.conftest import Streams


def _last_line(error: BaseException) -> str:
    """Return the last line of the Python traceback, before what the JVM adds."""
    text = str(error).partition("=== Streaming Query ===")[0].partition("JVM stacktrace")[0]
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("SQLSTATE")][-1]


@pytest.mark.parametrize(
    ("format_name", "schema", "options", "reason"),
    [
        ("jetstream", None, {"stream": "S", "maxPartitions": "2"}, "unknown option"),
        ("jetstream", "subject long", {"stream": "S"}, "column 'subject' must be string"),
        ("nats_kv", None, {"bucket": "B", "startingOffsets": "first"}, "'first' is not"),
        ("nats_kv", "key long", {"bucket": "B"}, "column 'key' must be string"),
        ("nats_object", None, {"bucket": "B"}, "does not support readStream: use spark.read"),
    ],
)
def test_a_refused_streaming_read_ends_with_its_reason(
    spark: SparkSession,
    tmp_path: Path,
    format_name: str,
    schema: str | None,
    options: dict[str, str],
    reason: str,
) -> None:
    """The runner of pyspark would end with an UnboundLocalError of its own."""
    reader = spark.readStream.format(format_name).option("servers", "nats://127.0.0.1:1")
    reader = reader.options(**options)
    frame = (reader if schema is None else reader.schema(schema)).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))

    with pytest.raises(PySparkException) as refused:
        writer.trigger(availableNow=True).start().awaitTermination(120)

    assert reason in _last_line(refused.value)
    assert "UnboundLocalError" not in str(refused.value)


def test_a_refused_batch_ends_with_its_reason(spark: SparkSession) -> None:
    where = {"servers": "nats://127.0.0.1:1", "stream": "S"}

    with pytest.raises(PySparkException) as read:
        spark.read.format("jetstream").options(**where, batchSize="0").load().count()
    frame = spark.range(1).selectExpr("'s' AS subject", "'d' AS data")
    writer = frame.write.format("jetstream").options(**where, retries="x").mode("append")
    with pytest.raises(PySparkException) as written:
        writer.save()

    assert "batchSize '0' is not a whole number from 1" in _last_line(read.value)
    assert "retries 'x' is" in _last_line(written.value)


def test_a_table_in_the_catalog_is_refused_with_the_view_named(spark: SparkSession) -> None:
    """Spark stores such a table and passes none of its options to the format."""
    options = "OPTIONS (servers 'nats://127.0.0.1:1', stream 'S')"

    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW name USING jetstream"):
        spark.sql(f"CREATE TABLE refused_table USING jetstream {options}")
    spark.sql(f"CREATE TABLE late_table (seq LONG) USING jetstream {options}")
    try:
        with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW name USING jetstream"):
            spark.sql("SELECT * FROM late_table").collect()
    finally:
        spark.sql("DROP TABLE late_table")

    assert not spark.catalog.tableExists("refused_table")


@pytest.mark.parametrize("source", [JetStreamDataSource, KvDataSource, ObjectDataSource])
def test_create_table_is_refused_when_spark_asks_for_its_columns(
    source: type[JetStreamDataSource],
) -> None:
    given = {"provider": source.name(), "owner": "me", "servers": "s", "option.servers": "s"}

    with pytest.raises(InvalidOptions, match=f"VIEW name USING {source.name()} OPTIONS"):
        source(given).schema()


@pytest.mark.timeout(400)
def test_times_without_a_zone_are_the_sessions(spark: SparkSession, streams: "Streams") -> None:
    """The planner gets the zone from register(); a zone that was changed since is noticed."""
    from jetspark.spark import register

    streams.fill("ZONED", 3)
    bucket = streams.jetstream.create_key_value(KeyValueConfig(bucket="ZONED"))
    bucket.put("k", b"v")
    setting = "spark.sql.session.timeZone"
    before = str(spark.conf.get(setting))
    stored = streams.jetstream.stream("ZONED").get_msg(seq=2).time_ns
    rows = spark.read.format("jetstream").options(servers=streams.url, stream="ZONED")
    try:
        spark.conf.set(setting, "Asia/Tokyo")
        register(spark)
        text = spark.sql(f"SELECT CAST(timestamp_micros({stored // 1000}) AS STRING)").first()
        assert text is not None
        local = str(text[0])
        frame = rows.option("startingTimestamp", local).load().select("seq")
        # Spark keeps microseconds: the message before may have come in the same one.
        assert {2, 3} <= {row.seq for row in frame.collect()}
        assert rows.option("startingTimestamp", "2199-01-01").load().count() == 0

        spark.conf.set(setting, "America/New_York")
        with pytest.raises(PySparkException, match=r"now 'America/New_York': append Z"):
            rows.option("startingTimestamp", local).load().count()
        past = spark.read.format("nats_kv").options(servers=streams.url, bucket="ZONED")
        with pytest.raises(PySparkException, match=r"now 'America/New_York': append Z"):
            past.option("timestampAsOf", "2199-01-01 00:00:00").load().count()
    finally:
        spark.conf.set(setting, before)
        register(spark)
