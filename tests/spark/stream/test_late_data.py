"""Late events: what a watermark over several streams drops, and how nothing is dropped."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from jetspark.spark import decode_json

if TYPE_CHECKING:
    from tests.spark.conftest import Streams


def _events(spark: SparkSession, url: str, **named: str) -> DataFrame:
    source = spark.readStream.format("jetstream").option("servers", url).options(**named)
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "4")
    rows = source.load().select(decode_json("data", "at timestamp").alias("row"))
    return rows.select("row.at").withWatermark("at", "1 minute")


def _totals(spark: SparkSession, rows: DataFrame, folder: Path) -> dict[str, int]:
    minutes = rows.groupBy(f.window("at", "1 minute")).count()
    minutes = minutes.select(f.col("window.start").cast("string").alias("minute"), "count")
    writer = minutes.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"), "parquet", "append")
    query.awaitTermination()
    found = spark.read.schema("minute string, count long").parquet(str(folder / "out"))
    return {row.minute[-8:-3]: row["count"] for row in found.collect()}


def test_a_stream_that_lags_loses_no_rows_if_it_has_a_watermark_of_its_own(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    slow, fast = "LATE_SLOW", "LATE_FAST"
    streams.create(slow)
    streams.create(fast)
    # The fast stream is ten minutes ahead, message by message.
    for minute in range(8):
        for stream, ahead in ((slow, 0), (fast, 10)):
            at = {"at": f"2026-11-18T12:{minute + ahead:02}:30Z"}
            streams.jetstream.publish(f"{stream}.x", json.dumps(at).encode())
    names = {"streams": f"{slow},{fast}"}

    together = _totals(spark, _events(spark, streams.url, **names), tmp_path / "together")
    apart = _events(spark, streams.url, stream=slow).union(
        _events(spark, streams.url, stream=fast)
    )
    each = _totals(spark, apart, tmp_path / "each")

    # The watermark of the slow stream is a minute before its last event, 12:07:30.
    assert {minute: n for minute, n in each.items() if minute < "12:06"} == {
        f"12:{minute:02}": 1 for minute in range(6)
    }
    assert sum(n for minute, n in together.items() if minute < "12:06") < 6
