"""One DataFrame, view or static join side used many times, in every order, while data changes."""

import itertools
import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from jetspark import KeyValueConfig, ObjectStoreConfig
from jetspark.spark import refresh
from jetspark.spark.refreshing import RefreshFailed

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

# Several queries each, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

ROWS = 60
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def _read(spark: SparkSession, streams: "Streams", stream: str, **options: str) -> DataFrame:
    reader = spark.read.format("jetstream").option("servers", streams.url)
    return reader.options(stream=stream, **options).load()


@pytest.mark.parametrize("push_down", ["false", "true"])
def test_a_frame_and_a_view_give_the_same_rows_in_every_order(
    spark: SparkSession, streams: "Streams", push_down: str
) -> None:
    """A filter of one query must not stay in the next, whatever Spark's setting is."""
    name = f"ORDERS_{push_down}"
    streams.fill(name, ROWS)
    streams.create(f"{name}_COPY")
    spark.conf.set(PUSH_DOWN, push_down)
    try:
        frame = _read(spark, streams, name)
        frame.createOrReplaceTempView(f"view_{push_down}")
        view = f"view_{push_down}"
        few = frame.where("seq <= 10")
        late = f"SELECT seq FROM {view} WHERE seq > {ROWS - 5}"
        copied = itertools.count(1)

        def copy() -> int:
            target = frame.selectExpr(f"concat('{name}_COPY.', seq) AS subject", "data")
            writer = target.write.format("jetstream").option("servers", streams.url)
            writer = writer.options(stream=f"{name}_COPY", delivery="at-least-once")
            writer.mode("append").save()
            stored = streams.jetstream.stream(f"{name}_COPY").info().state.messages
            return stored // next(copied)

        steps: list[tuple[Callable[[], int], int]] = [
            (frame.count, ROWS),
            (few.count, 10),
            (lambda: frame.where("subject = 'none'").count(), 0),
            (lambda: spark.sql(f"SELECT * FROM {view}").count(), ROWS),
            (lambda: spark.sql(late).count(), 5),
            (lambda: frame.alias("a").join(few.alias("b"), "seq").count(), 10),
            (lambda: few.union(frame).count(), ROWS + 10),
            (lambda: frame.join(spark.sql(late), "seq").count(), 5),
            (copy, ROWS),
        ]
        order = [*steps, *random.Random(7).sample(steps, 4)]
        for number, (action, expected) in enumerate(order):
            assert action() == expected, number
    finally:
        spark.conf.unset(PUSH_DOWN)


def test_refresh_reads_what_came_later_and_survives_a_purge(
    spark: SparkSession, streams: "Streams"
) -> None:
    stream = streams.fill("GROWING", 20)
    frame = _read(spark, streams, "GROWING")
    query = frame.where("seq > 5").select("seq")
    frame.createOrReplaceTempView("growing")
    assert (frame.count(), query.count(), spark.table("growing").count()) == (20, 15, 20)

    for number in range(10):
        streams.jetstream.publish("GROWING.0", b"%d" % number)
    planned_once = query.count()
    fresh = refresh(query)
    assert planned_once == 15
    assert fresh.columns == ["seq"]
    assert (fresh.count(), len(fresh.collect()), spark.table("growing").count()) == (25, 25, 30)
    stream.purge()
    streams.jetstream.publish("GROWING.0", b"new")

    assert [row.seq for row in refresh("growing").collect()] == [31]
    nested = spark.sql("SELECT 1 AS one WHERE 31 IN (SELECT seq FROM growing)")
    assert refresh(nested).count() == 1


def test_what_cannot_be_refreshed_says_why(spark: SparkSession, streams: "Streams") -> None:
    streams.fill("CACHED", 3)
    frame = _read(spark, streams, "CACHED")

    with pytest.raises(RefreshFailed, match="no batch read of format jetstream"):
        refresh(spark.range(3))
    frame.cache()
    assert frame.count() == 3
    with pytest.raises(RefreshFailed, match=r"cached.*unpersist\(\)"):
        refresh(frame.where("seq > 1"))
    frame.unpersist(blocking=True)
    assert refresh(frame).count() == 3


def test_an_open_read_follows_its_stream(spark: SparkSession, streams: "Streams") -> None:
    stream = streams.fill("OPEN", 20)
    streams.create("OPEN_EMPTY")
    frame = _read(spark, streams, "OPEN", endingOffsets="open", minPartitions="3")
    empty = _read(spark, streams, "OPEN_EMPTY", endingOffsets="open")
    assert (frame.count(), empty.count()) == (20, 0)

    streams.jetstream.publish("OPEN.0", b"more")
    streams.jetstream.publish("OPEN_EMPTY.0", b"first")
    assert (frame.count(), empty.count()) == (21, 1)
    stream.purge(seq=16)
    assert sorted(row.seq for row in frame.select("seq").collect()) == list(range(16, 22))
    stream.purge()
    assert frame.count() == 0


def test_the_static_side_of_a_join_is_the_bucket_of_each_micro_batch(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    """Keys that change, come and go between micro-batches; a snapshot inside foreachBatch too."""
    streams.create("TICKS")
    bucket = streams.jetstream.create_key_value(KeyValueConfig(bucket="RATES"))
    store = streams.jetstream.create_object_store(ObjectStoreConfig(bucket="NOTES"))
    where = {"servers": streams.url}
    rates = spark.read.format("nats_kv").options(**where, bucket="RATES").load()
    notes = spark.read.format("nats_object").options(**where, bucket="NOTES").load()
    static = rates.selectExpr("key", "CAST(value AS STRING) AS rate").join(
        notes.selectExpr("path AS key", "CAST(content AS STRING) AS note"), "key", "left"
    )
    ticks = spark.readStream.format("jetstream").options(**where, stream="TICKS").load()
    joined = ticks.crossJoin(static).selectExpr("seq", "key", "rate", "note")
    seen: list[tuple[Any, ...]] = []

    def keep(batch: DataFrame, _: int) -> None:
        inside = batch.sparkSession.read.format("nats_kv").options(**where, bucket="RATES").load()
        count = inside.count()
        seen.extend((row.seq, row.key, row.rate, row.note, count) for row in batch.collect())

    query = (
        joined.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "ticks"))
        .start()
    )
    values: dict[str, str] = {}
    objects: dict[str, str] = {}
    expected: list[tuple[Any, ...]] = []
    chance = random.Random(3)
    try:
        query.processAllAvailable()
        for _ in range(5):
            for number in chance.sample(range(12), 6):
                key = f"k{number}"
                if key in values and chance.random() < 0.4:
                    bucket.delete(key)
                    del values[key]
                else:
                    values[key] = uuid.UUID(int=chance.getrandbits(128)).hex
                    bucket.put(key, values[key].encode())
                if key in objects and chance.random() < 0.5:
                    store.delete(key)
                    del objects[key]
                else:
                    objects[key] = f"note {chance.random()}"
                    store.put(key, objects[key].encode())
            seq = streams.jetstream.publish("TICKS.0", b"").seq
            query.processAllAvailable()
            expected += [
                (seq, key, rate, objects.get(key), len(values)) for key, rate in values.items()
            ]
    finally:
        query.stop()

    assert Counter(seen) == Counter(expected)
