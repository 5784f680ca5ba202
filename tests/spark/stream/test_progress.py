"""Lag, rows and bytes of streaming queries in a real session, compared with what was published."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import wait_until

pytest.importorskip("pyspark")

from pyspark.sql import Observation

from jetspark.spark import SourceLag, described, lag, observed, watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from tests.spark.conftest import Streams


def test_reports_have_the_true_rows_bytes_and_lag_also_after_a_restart(
    spark: "SparkSession", streams: "Streams", tmp_path: Path
) -> None:
    """Ten messages in micro-batches of four, then three more in a second life of the query."""
    streams.fill("WATCHED", 10)
    reports: list[dict[str, Any]] = []
    listener = watch(spark, reports.append)

    def live() -> "StreamingQuery":
        rows = spark.readStream.format("jetstream").options(
            servers=streams.url, stream="WATCHED", startingOffsets="earliest",
            maxOffsetsPerTrigger="4",
        ).load()  # fmt: skip
        writer = observed(rows, "read").writeStream.format("noop").queryName("watched")
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        query.processAllAvailable()
        query.stop()
        return query

    try:
        first = live()
        # Spark stops before the last report reaches its listeners.
        wait_until(lambda: len(ended(reports)) == 1, "the first life did not end")
        told, reports[:] = [each for each in reports if each.get("rows")], []
        for number in (11, 12, 13):
            streams.jetstream.publish("WATCHED.0", b"%d" % number)
        live()
        wait_until(lambda: len(ended(reports)) == 1, "the second life did not end")
    finally:
        spark.streams.removeListener(listener)
    later = [each for each in reports if each.get("rows")]

    assert [(each["rows"], each["bytes"], each["lag"]) for each in told] == [
        (4, 4, {"WATCHED": 6}), (4, 4, {"WATCHED": 2}), (2, 3, {"WATCHED": 0}),
    ]  # fmt: skip
    assert [(each["rows"], each["bytes"], each["lag"]) for each in later] == [
        (3, 6, {"WATCHED": 0})
    ]
    assert (later[0]["query"], later[0]["batch"]) == ("watched", 3)
    assert later[0]["observed"]["read"]["first_seq"] == 11
    assert later[0]["observed"]["read"]["last_seq"] == 13
    assert later[0]["observed"]["read"]["newest"] is not None
    assert later[0]["durationsMs"]["addBatch"] >= 0
    assert lag(first) == [SourceLag("WATCHED", 0, 11)]


def test_the_lag_grows_while_messages_arrive_and_a_filter_counts_its_own_rows(
    spark: "SparkSession", streams: "Streams", tmp_path: Path
) -> None:
    streams.fill("ARRIVING", 9)
    rows = spark.readStream.format("jetstream").options(
        servers=streams.url, stream="ARRIVING", subject="ARRIVING.0",
        startingOffsets="earliest", maxOffsetsPerTrigger="3",
    ).load()  # fmt: skip
    writer = observed(rows, "read").writeStream.format("noop").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        for _ in range(6):
            streams.jetstream.publish("ARRIVING.0", b"more")
        query.processAllAvailable()
        seen = [each for each in query.recentProgress if each["numInputRows"]]
    finally:
        query.stop()

    # Of the first nine every third is one of this subject.
    assert sum(each["observedMetrics"]["read"]["rows"] for each in seen) == 3 + 6
    assert sum(each["observedMetrics"]["read"]["bytes"] for each in seen) == 3 + 6 * 4
    for each in seen:
        (source,) = lag(each)
        assert source.behind is not None
        assert 0 <= source.behind <= 15 - (source.next - 1)
    assert lag(seen[-1]) == [SourceLag("ARRIVING", 0, 16)]


def test_a_batch_is_counted_and_its_jobs_are_described(
    spark: "SparkSession", streams: "Streams"
) -> None:
    streams.fill("OBSERVED", 12)
    rows = spark.read.format("jetstream").options(servers=streams.url, stream="OBSERVED").load()
    counts = Observation("batch")
    context = spark.sparkContext

    with described(spark, "OBSERVED, all subjects"):
        inside = context.getLocalProperty("spark.job.description")
        observed(rows, counts).write.format("noop").mode("overwrite").save()

    assert inside == "OBSERVED, all subjects"
    assert context.getLocalProperty("spark.job.description") is None
    found = counts.get
    assert (found["rows"], found["bytes"]) == (12, 9 + 2 * 3)
    assert (found["first_seq"], found["last_seq"]) == (1, 12)
    with pytest.raises(ValueError, match="the text is empty"), described(spark, ""):
        pass


def ended(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in reports if each["event"] == "terminated"]
