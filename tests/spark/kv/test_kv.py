"""Format ``nats_kv`` in a real Spark session over a real nats-server."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession, functions

from jetspark import KeyValueConfig

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

FORMAT = "nats_kv"


def test_an_aggregate_is_kept_in_a_bucket_and_read_back_at_two_moments(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    """A stream is counted by subject into a bucket; its changes feed another table."""
    streams.fill("TALLIED", 90)
    bucket = streams.jetstream.create_key_value(KeyValueConfig(bucket="COUNTS", history=10))
    where = {"servers": streams.url, "bucket": "COUNTS"}
    events = spark.readStream.format("jetstream").option("servers", streams.url)
    events = events.options(
        stream="TALLIED", startingOffsets="earliest", maxOffsetsPerTrigger="30"
    )
    counts = events.load().groupBy(functions.col("subject").alias("key")).count()
    counted = counts.select("key", functions.col("count").cast("string").alias("value"))

    writer = counted.writeStream.format(FORMAT).outputMode("complete").options(**where)
    writer = writer.option("checkpointLocation", str(tmp_path / "counts"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    now = spark.read.format(FORMAT).options(**where).load()
    past = spark.read.format(FORMAT).options(**where, versionAsOf="3").load()
    changes = (
        spark.readStream.format(FORMAT)
        .options(**where, startingOffsets="earliest", includePrevious="true")
        .load()
    )
    feed = changes.writeStream.format("parquet").option("path", str(tmp_path / "feed"))
    feed = feed.option("checkpointLocation", str(tmp_path / "changes"))
    assert feed.trigger(availableNow=True).start().awaitTermination(120)

    assert {row.key: bytes(row.value) for row in now.collect()} == {
        f"TALLIED.{number}": b"30" for number in range(3)
    }
    assert {row.revision: bytes(row.value) for row in past.collect()} == dict.fromkeys(
        (1, 2, 3), b"10"
    )
    fed = spark.read.parquet(str(tmp_path / "feed")).orderBy("revision").collect()
    assert [row.previous_value and bytes(row.previous_value) for row in fed] == [
        *[None] * 3,
        *[b"10"] * 3,
        *[b"20"] * 3,
    ]
    # The keys of one epoch are written in any order.
    assert {bucket.get(f"TALLIED.{number}").revision for number in range(3)} == {7, 8, 9}
