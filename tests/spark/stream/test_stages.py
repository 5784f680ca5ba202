"""One stage reads what another one has committed, in a real session.

Stage B is started with what stage A's commit says: the sequence (``minLastSeq``), or the query
(``endingOffsets`` = ``committed:<queryId>``). It never misses a row, and never sees one too many.
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

from jetspark import KeyValueConfig, StreamConfig, sync
from jetspark.spark.stream.sink.ledger import LedgerEntry

if TYPE_CHECKING:
    from tests.spark.conftest import Streams


class Stages:
    """Stream FIRST, copied by stage A into SECOND, with a ledger."""

    def __init__(self, spark: SparkSession, streams: "Streams", folder: Path) -> None:
        self._spark = spark
        self._url = streams.url
        self._folder = folder
        streams.fill("FIRST", 600)
        streams.jetstream.create_stream(
            StreamConfig(name="SECOND", subjects=("SECOND.>",), allow_direct=True)
        )
        self._ledger: sync.KeyValue = streams.jetstream.create_key_value(
            KeyValueConfig(bucket="STAGES")
        )

    def run_a(self) -> StreamingQuery:
        source = self._spark.readStream.format("jetstream").options(
            servers=self._url,
            stream="FIRST",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="350",
        )
        subject = functions.concat(functions.lit("SECOND."), functions.col("seq"))
        writer = source.load().select(subject.alias("subject"), "data").writeStream
        writer = writer.format("jetstream").options(
            servers=self._url, stream="SECOND", ledgerBucket="STAGES"
        )
        writer = writer.option("checkpointLocation", str(self._folder / "a"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return query

    def committed(self, query: StreamingQuery) -> LedgerEntry:
        value = self._ledger.get(str(query.id)).value
        return msgspec.json.decode(value, type=LedgerEntry)

    def run_b(self, **options: str) -> Counter[tuple[str, bytes]]:
        reader = self._spark.read.format("jetstream").options(
            servers=self._url, stream="SECOND", **options
        )
        rows = reader.load().select("subject", "data").collect()
        return Counter((row.subject.rpartition(".")[2], bytes(row.data)) for row in rows)


def test_a_stage_reads_exactly_what_the_one_before_has_committed(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    stages = Stages(spark, streams, tmp_path)
    due = Counter((str(number), b"%d" % number) for number in range(1, 601))

    query = stages.run_a()
    entry = stages.committed(query)
    after_sequence = stages.run_b(minLastSeq=str(entry.last_seq))
    # Rows that stage A has not committed: an epoch in progress, or someone else's.
    streams.jetstream.publish("SECOND.1", b"not committed")
    committed = stages.run_b(endingOffsets=f"committed:{query.id}", ledgerBucket="STAGES")

    assert (entry.epoch, entry.last_seq, entry.query) == (1, 600, str(query.id))
    assert after_sequence == due
    assert committed == due
