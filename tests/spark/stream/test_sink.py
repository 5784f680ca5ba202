"""``write`` and ``writeStream`` with format ``jetstream`` in a real Spark session.

Rows carry their origin: what is compared is the multiset
of (origin, payload), never a count.
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

from jetspark import StreamConfig, sync
from jetspark.spark import foreach_batch_writer

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

FORMAT = "jetstream"


def _target(streams: "Streams", name: str) -> sync.Stream:
    return streams.jetstream.create_stream(
        StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True, allow_batched=True)
    )


def _pairs(stream: sync.Stream) -> Counter[tuple[str, bytes]]:
    """What is stored, as origin (the last token of the subject) and payload."""
    return Counter(
        (subject.rpartition(".")[2], payload)
        for chunk in stream.scan()
        for subject, payload in zip(chunk.subjects, chunk.data, strict=True)
    )


def _copied(spark: SparkSession, streams: "Streams", source: str, target: str) -> DataFrame:
    """The rows of one stream in flight into another, with their origin in the subject."""
    reader = spark.readStream.format(FORMAT).option("servers", streams.url)
    rows = reader.option("stream", source).option("startingOffsets", "earliest")
    origin = functions.concat(functions.lit(f"{target}."), functions.col("seq"))
    return (
        rows.options(maxOffsetsPerTrigger="13000", minPartitions="1")
        .load()
        .select(origin.alias("subject"), "data")
    )


def _run(frame: DataFrame, checkpoint: Path, **options: str) -> None:
    writer = frame.writeStream.format(FORMAT).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def test_a_batch_write_stores_its_rows_with_headers(
    spark: SparkSession, streams: "Streams"
) -> None:
    stream = _target(streams, "WRITTEN")
    frame = spark.range(1, 301).selectExpr(
        "concat('WRITTEN.', id) AS subject", "cast(id AS string) AS value", "map('N', id) AS h"
    )
    frame = frame.withColumn("headers", functions.expr("transform_values(h, (k, v) -> string(v))"))
    writer = frame.drop("h").write.format(FORMAT).mode("append").option("servers", streams.url)

    for _ in range(2):
        writer.option("stream", "WRITTEN").options(txnAppId="job", txnVersion="1").save()

    assert _pairs(stream) == Counter((str(n), b"%d" % n) for n in range(1, 301))
    message = next(iter(stream.get_batch(seq=17, limit=1)))
    assert message.headers["N"] == message.data.decode()


def test_rows_are_stored_in_the_streams_that_a_column_names(
    spark: SparkSession, streams: "Streams"
) -> None:
    stored = [_target(streams, name) for name in ("EVEN", "ODD")]
    frame = spark.range(100).selectExpr(
        "if(id % 2 = 0, 'EVEN', 'ODD') AS stream",
        "concat(stream, '.', id) AS subject",
        "cast(id AS string) AS data",
    )
    writer = frame.write.format(FORMAT).mode("append").option("servers", streams.url)

    for _ in range(2):
        writer.options(streams="EVEN,ODD", txnAppId="job", txnVersion="1").save()

    for start, stream in enumerate(stored):
        assert _pairs(stream) == Counter((str(n), b"%d" % n) for n in range(start, 100, 2))


def test_every_row_is_stored_once_although_tasks_fail_and_an_epoch_is_run_again(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    """A task that dies half way, then a restart that repeats a whole epoch."""
    count = 26_000
    streams.fill("ORIGIN", count)
    stream = _target(streams, "COPY")
    options = {"servers": streams.url, "stream": "COPY"}

    def fail_once(subject: str) -> str:
        context = TaskContext.get()
        # After the first chunk of a task, which is stored by then or in flight.
        if subject.endswith("2000") and context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt of every task dies half way")
        return subject

    frame = _copied(spark, streams, "ORIGIN", "COPY")
    failing = functions.udf(fail_once, "string", useArrow=False)
    _run(frame.withColumn("subject", failing("subject")), tmp_path, **options)
    (tmp_path / "commits" / "1").unlink()
    (tmp_path / "commits" / ".1.crc").unlink(missing_ok=True)
    _run(_copied(spark, streams, "ORIGIN", "COPY"), tmp_path, **options)

    assert _pairs(stream) == Counter((str(n), b"%d" % n) for n in range(1, count + 1))


def test_a_foreach_batch_that_dies_within_an_epoch_comes_back_with_other_partitions(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    """Files, which no offset cuts: rows are equal, partitions differ from run to run.

    ``test_restarts.py`` has the same for the sink itself.
    """
    name = "SPREAD"
    stream = _target(streams, name)
    rows = [str(number % 1500) for number in range(4000)]
    source = tmp_path / "files"
    source.mkdir()
    (source / "rows.txt").write_text("\n".join(rows))
    options = {"servers": streams.url, "stream": name, "ackTimeoutMs": "500"}

    def fail(value: str) -> str:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 2 and value == "700":
            raise RuntimeError("this partition dies every time")
        return value

    def run(partitions: int, *, dies: bool) -> None:
        frame = spark.readStream.text(str(source)).repartition(partitions)
        data = functions.udf(fail, "string", useArrow=False)("value") if dies else "value"
        frame = frame.select(functions.lit(f"{name}.rows").alias("subject"), data).toDF(
            "subject", "data"
        )
        checkpoint = tmp_path / "checkpoint"
        store = foreach_batch_writer("spread", **options)
        query = frame.writeStream.foreachBatch(store).trigger(availableNow=True)
        assert query.option("checkpointLocation", str(checkpoint)).start().awaitTermination(120)

    with pytest.raises(StreamingQueryException):
        run(3, dies=True)
    before = _payloads(stream, name)
    run(2, dies=False)

    assert before.total() > 1000
    assert _payloads(stream, name) == Counter(row.encode() for row in rows)


def _payloads(stream: sync.Stream, name: str) -> Counter[bytes]:
    return Counter(one for chunk in stream.scan(filters=(f"{name}.rows",)) for one in chunk.data)


def test_mistakes_are_one_line(spark: SparkSession, streams: "Streams", tmp_path: Path) -> None:
    streams.fill("FROM", 10)
    narrow = StreamConfig(name="NARROW", subjects=("NARROW.>",), duplicate_window=1)
    streams.jetstream.create_stream(narrow)
    writer = spark.range(3).write.format(FORMAT).options(servers=streams.url, stream="NARROW")

    with pytest.raises(PySparkException, match="column 'id' does not exist in a message"):
        writer.mode("append").save()
    with pytest.raises(StreamingQueryException, match="duplicate_window of 1s, less than the 1m"):
        _run(
            _copied(spark, streams, "FROM", "NARROW"),
            tmp_path,
            servers=streams.url,
            stream="NARROW",
        )
