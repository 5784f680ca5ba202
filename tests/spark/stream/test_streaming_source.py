"""``readStream.format("jetstream")`` in a real Spark session over a real nats-server."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jetspark import Storage
from jetspark.spark import publish_progress

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

FORMAT = "jetstream"


class Pipeline:
    """Streaming reads of one stream into a table of files, one checkpoint for all of them."""

    def __init__(self, spark: SparkSession, streams: "Streams", stream: str, folder: Path) -> None:
        self.spark = spark
        self.url = streams.url
        self.stream = stream
        self.folder = folder

    def frame(self, **options: str) -> DataFrame:
        given = {"servers": self.url, "stream": self.stream, "startingOffsets": "earliest"}
        chosen = {name: text for name, text in {**given, **options}.items() if text}
        return self.spark.readStream.format(FORMAT).options(**chosen).load()

    def start(self, *, available_now: bool = True, **options: str) -> StreamingQuery:
        writer = self.frame(**options).select("seq", "subject", "data").writeStream
        writer = writer.format("parquet").option("path", str(self.folder / "out"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        if available_now:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def catch_up(self, **options: str) -> StreamingQuery:
        """Read what there is and end; raises what the query ended with."""
        query = self.start(available_now=True, **options)
        query.awaitTermination(120)
        return query

    def sequences(self) -> list[int]:
        rows = self.spark.read.parquet(str(self.folder / "out")).select("seq").collect()
        return sorted(row.seq for row in rows)


@pytest.fixture
def pipeline(
    request: pytest.FixtureRequest, spark: SparkSession, streams: "Streams", tmp_path: Path
) -> Iterator[Pipeline]:
    name = f"FLOW{abs(hash(request.node.name)) % 10**9}"
    yield Pipeline(spark, streams, name, tmp_path)
    for query in spark.streams.active:
        query.stop()


def _more(streams: "Streams", stream: str, first: int, count: int) -> None:
    for number in range(first, first + count - 1):
        streams.client.publish(f"{stream}.{number % 3}", b"%d" % number)
    streams.jetstream.publish(f"{stream}.last", b"%d" % (first + count - 1))


def test_available_now_reads_all_in_limited_batches_and_ends(
    pipeline: Pipeline, streams: "Streams"
) -> None:
    streams.fill(pipeline.stream, 1000)

    query = pipeline.catch_up(maxOffsetsPerTrigger="300")

    assert pipeline.sequences() == list(range(1, 1001))
    rows = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert rows == [300, 300, 300, 100]


def test_a_second_run_continues_from_the_checkpoint(
    pipeline: Pipeline, streams: "Streams"
) -> None:
    streams.fill(pipeline.stream, 100)
    pipeline.catch_up()
    _more(streams, pipeline.stream, 101, 50)

    pipeline.catch_up()

    assert pipeline.sequences() == list(range(1, 151))


def test_a_running_query_follows_the_stream_and_reports_its_lag(
    pipeline: Pipeline, streams: "Streams"
) -> None:
    streams.fill(pipeline.stream, 10)
    query = pipeline.start(available_now=False, startingOffsets="latest")
    query.processAllAvailable()

    _more(streams, pipeline.stream, 11, 20)
    query.processAllAvailable()

    assert pipeline.sequences() == list(range(11, 31))
    source = next(p.sources[0] for p in reversed(query.recentProgress) if p.numInputRows)
    assert f'"{pipeline.stream}"' in str(source.endOffset).replace("'", '"')
    assert "31" in str(source.latestOffset)


def test_a_query_over_a_pattern_reads_new_streams_and_publishes_its_progress(
    pipeline: Pipeline, streams: "Streams"
) -> None:
    """Two streams, then a third and a longer first one; the truth is what was published."""
    first, second, third = (f"{pipeline.stream}_{letter}" for letter in "ABC")
    options = {
        "stream": "",
        "streamPattern": f"{pipeline.stream}_[A-C]",
        "startingOffsets": f'{{"{first}": 11, "{second}": "earliest"}}',
        "progressConsumer": "spark",
        "maxOffsetsPerTrigger": "40",
    }
    built = [streams.fill(first, 50), streams.fill(second, 5)]
    told = streams.client.subscribe(f"{pipeline.stream}.progress")
    with publish_progress(pipeline.spark, f"{pipeline.stream}.progress", servers=streams.url):
        pipeline.catch_up(**options)
        built.append(streams.fill(third, 30))
        _more(streams, first, 51, 10)
        options["startingOffsets"] = "latest"
        pipeline.catch_up(**options)
    # Leaving the block has published the end of the second run, too.
    reports: list[dict[str, Any]] = []
    while sum(each["event"] == "terminated" for each in reports) < 2:
        reports.append(json.loads(told.next(timeout=60).data))

    table = pipeline.spark.read.parquet(str(pipeline.folder / "out"))
    found = Counter((row.subject.partition(".")[0], row.seq) for row in table.collect())
    due = [(first, seq) for seq in range(11, 61)]
    due += [
        (name, seq) for name, count in ((second, 5), (third, 30)) for seq in range(1, count + 1)
    ]
    assert found == Counter(due)
    read = [each["rows"] for each in reports if each["event"] == "progress" and each["rows"]]
    assert (sum(read), max(read)) == (85, 40)
    assert set(reports[-2]["lag"]) == {first, second, third}
    # Spark asks for new messages once more before it ends, so the last commit is shown as well.
    shown = [one.consumer("spark").info() for one in built]
    assert [(one.ack_floor.stream_seq, one.num_pending) for one in shown] == [
        (60, 0),
        (5, 0),
        (30, 0),
    ]


def test_a_filter_and_a_start_by_number(pipeline: Pipeline, streams: "Streams") -> None:
    streams.fill(pipeline.stream, 90)

    pipeline.catch_up(startingOffsets="31", subject=f"{pipeline.stream}.0,{pipeline.stream}.1")

    assert pipeline.sequences() == [seq for seq in range(31, 91) if seq % 3 != 2]


def test_messages_removed_unread_stop_the_query(pipeline: Pipeline, streams: "Streams") -> None:
    stream = streams.fill(pipeline.stream, 100)
    pipeline.catch_up(maxOffsetsPerTrigger="100")
    _more(streams, pipeline.stream, 101, 100)
    stream.purge(seq=151)

    with pytest.raises(StreamingQueryException, match="removed unread"):
        pipeline.catch_up()
    pipeline.catch_up(failOnDataLoss="false")

    assert pipeline.sequences() == [*range(1, 101), *range(151, 201)]


def test_a_stream_created_again_stops_the_query(pipeline: Pipeline, streams: "Streams") -> None:
    streams.fill(pipeline.stream, 20, storage=Storage.MEMORY)
    pipeline.catch_up()
    streams.jetstream.delete_stream(pipeline.stream)
    streams.fill(pipeline.stream, 5, storage=Storage.MEMORY)

    with pytest.raises(StreamingQueryException, match="was created again"):
        pipeline.catch_up()
    pipeline.catch_up(failOnDataLoss="false")

    assert pipeline.sequences() == sorted([*range(1, 21), *range(1, 6)])


def test_a_failed_micro_batch_runs_again_in_its_partitions_whatever_the_options(
    pipeline: Pipeline, streams: "Streams"
) -> None:
    """What exactly-once writes rest on; the first run began at the end of the stream."""
    streams.fill(pipeline.stream, 10)
    runs: list[list[tuple[int, int]]] = []

    def note(rows: DataFrame, _epoch: int) -> None:
        found = rows.selectExpr("spark_partition_id() AS part", "seq").collect()
        runs.append(sorted((row.part, row.seq) for row in found))
        if found and len(runs) < 3:
            raise RuntimeError("the sink is broken")

    def start(**options: str) -> StreamingQuery:
        writer = pipeline.frame(startingOffsets="latest", **options).writeStream
        writer = writer.option("checkpointLocation", str(pipeline.folder / "checkpoint"))
        return writer.foreachBatch(note).start()

    query = start(minPartitions="4")
    query.processAllAvailable()
    _more(streams, pipeline.stream, 11, 40)
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        query.awaitTermination(60)
    _more(streams, pipeline.stream, 51, 8)
    query = start(minPartitions="2", maxOffsetsPerTrigger="100")
    query.processAllAvailable()
    query.stop()

    empty, first, again, after = runs
    assert empty == []
    assert again == first
    assert {part for part, _ in first} == {0, 1, 2, 3}
    assert [seq for _, seq in first + after] == list(range(11, 59))
    assert {part for part, _ in after} == {0, 1}


def test_foreign_messages_give_a_query_with_a_filter_no_micro_batch(
    pipeline: Pipeline, streams: "Streams"
) -> None:
    streams.fill(pipeline.stream, 10)
    query = pipeline.start(
        available_now=False, startingOffsets="latest", subject=f"{pipeline.stream}.wanted"
    )
    query.processAllAvailable()
    before = len(list((pipeline.folder / "checkpoint" / "offsets").glob("[0-9]*")))

    for _ in range(5):
        streams.jetstream.publish(f"{pipeline.stream}.foreign", b"x")
        query.processAllAvailable()
    after = len(list((pipeline.folder / "checkpoint" / "offsets").glob("[0-9]*")))
    streams.jetstream.publish(f"{pipeline.stream}.wanted", b"x")
    query.processAllAvailable()

    assert after == before
    assert pipeline.sequences() == [16]


def test_mistakes_are_one_line(pipeline: Pipeline, streams: "Streams") -> None:
    streams.fill(pipeline.stream, 1)

    with pytest.raises(
        StreamingQueryException,
        match="endingOffsets is for read, not for readStream: a stream has no end",
    ):
        pipeline.catch_up(endingOffsets="5")
    with pytest.raises(StreamingQueryException, match="stream 'NOWHERE' does not exist"):
        pipeline.catch_up(stream="NOWHERE")
