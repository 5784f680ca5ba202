"""How snapshots and filtered reads are split, against both servers."""

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceReader, InputPartition

from jetspark import KeyValueConfig, Storage, StreamConfig, sync
from jetspark.spark.kv import reader as kv_reader
from jetspark.spark.kv.plan import KeyPartition, RevisionPartition
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.stream.planner import DataLoss, StreamRecreated
from jetspark.spark.stream.range_reader import SequencePartition
from jetspark.spark.stream.source import JetStreamDataSource


def _bucket(jetstream: sync.JetStream, name: str, history: int = 1) -> sync.KeyValue:
    return jetstream.create_key_value(KeyValueConfig(bucket=name, history=history))


def _planned(url: str, bucket: str, **options: str) -> tuple[Any, list[InputPartition]]:
    source = KvDataSource(options={"servers": url, "bucket": bucket, **options})
    reader: DataSourceReader = source.reader(source.schema())
    parts = list(reader.partitions())
    return pickle.loads(pickle.dumps(reader)), pickle.loads(pickle.dumps(parts))


def _rows(reader: Any, parts: list[InputPartition]) -> list[tuple[str, bytes | None, int]]:
    batches: Iterator[Any] = (batch for part in parts for batch in reader.read(part))
    return sorted(
        (row["key"], row["value"], row["revision"])
        for batch in batches
        for row in batch.to_pylist()
    )


def test_a_bucket_of_one_value_per_key_is_read_by_revision_in_even_parts(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = _bucket(jetstream, "EVEN")
    bucket.put_many({f"k.{number}": b"old" for number in range(3000)})
    bucket.put_many({f"k.{number}": b"new" for number in range(2000)})
    bucket.delete("k.2999")

    reader, parts = _planned(url, "EVEN", minPartitions="4")
    some, some_parts = _planned(url, "EVEN", minPartitions="2", keys="k.1,k.2500")

    assert all(isinstance(part, RevisionPartition) for part in parts)
    expected = [part.expected for part in parts if isinstance(part, RevisionPartition)]
    assert sum(one or 0 for one in expected) == 3000
    assert max(one or 0 for one in expected) < 1000
    assert _rows(reader, parts) == sorted(
        [(f"k.{number}", b"new", 3001 + number) for number in range(2000)]
        + [(f"k.{number}", b"old", number + 1) for number in range(2000, 2999)]
    )
    assert _rows(some, some_parts) == [("k.1", b"new", 3002), ("k.2500", b"old", 2501)]


def test_a_partition_of_a_snapshot_has_at_most_so_many_keys(
    url: str, jetstream: sync.JetStream
) -> None:
    """With a history the keys are listed, without one the revisions are split."""
    for name, history in (("FEWER", 1), ("FEWER_NAMED", 2)):
        bucket = _bucket(jetstream, name, history)
        bucket.put_many({f"k.{number}": b"v" for number in range(40)})
        bucket.put("k.0", b"again")

        reader, whole = _planned(url, name, minPartitions="1")
        _, parts = _planned(url, name, minPartitions="1", maxRecordsPerPartition="10")

        assert len(whole) == 1
        assert len(parts) >= 4
        assert len(_rows(reader, parts)) == 40


def test_many_keys_are_asked_for_by_name(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "NAMED")
    bucket.put_many({f"k.{number}": b"v" for number in range(100)})
    names = ",".join(f"k.{number}" for number in range(0, 100, 4))

    reader, parts = _planned(url, "NAMED", minPartitions="2", keys=names)

    assert all(isinstance(part, KeyPartition) for part in parts)
    assert [row[0] for row in _rows(reader, parts)] == sorted(names.split(","))


def test_a_value_replaced_after_the_planning_fails_a_strict_read(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = _bucket(jetstream, "RACE")
    bucket.put_many({f"k.{number}": b"1" for number in range(50)})
    reader, parts = _planned(url, "RACE", minPartitions="2")
    lenient, keys = _planned(url, "RACE", minPartitions="2", consistency="best-effort")
    bucket.put("k.7", b"2")

    with pytest.raises(DataLoss, match=r"1 of 25 values .* were replaced or removed"):
        _rows(reader, parts)
    replaced = _rows(lenient, keys)

    assert all(isinstance(part, KeyPartition) for part in keys)
    assert [row for row in replaced if row[0] == "k.7"] == [("k.7", b"2", 51)]
    assert len(replaced) == 50


def test_with_a_history_a_value_replaced_after_the_planning_is_still_read(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = _bucket(jetstream, "KEPT", history=2)
    bucket.put_many({f"k.{number}": b"1" for number in range(50)})
    reader, parts = _planned(url, "KEPT", minPartitions="2")
    bucket.put("k.7", b"2")
    later, by_key = _planned(url, "KEPT", minPartitions="2")
    bucket.put("k.8", b"2")

    assert isinstance(parts[0], RevisionPartition)
    assert isinstance(by_key[0], KeyPartition)
    assert _rows(reader, parts) == sorted((f"k.{n}", b"1", n + 1) for n in range(50))
    assert ("k.7", b"2", 51) in _rows(later, by_key)
    assert ("k.8", b"1", 9) in _rows(later, by_key)


def test_a_filtered_read_is_split_by_what_the_filter_leaves(
    url: str, jetstream: sync.JetStream
) -> None:
    """Nats-Num-Pending of probes; equal ranges would give one task everything."""
    config = StreamConfig(
        name="SKEWED", subjects=("SKEWED.>",), allow_direct=True, allow_batched=True
    )
    jetstream.create_stream(config)
    with jetstream.fast_publisher() as publisher:
        publisher.extend(["SKEWED.much"] * 18_000, [b"x"] * 18_000)
        publisher.extend(["SKEWED.rare", "SKEWED.much"] * 1000, [b"x"] * 2000)
    given = {"servers": url, "stream": "SKEWED", "minPartitions": "4", "subject": "SKEWED.rare"}
    source = JetStreamDataSource(options=given)
    reader = source.reader(source.schema())

    parts = [part for part in reader.partitions() if isinstance(part, SequencePartition)]
    batches: list[list[Any]] = [list(reader.read(part)) for part in parts]

    counts = [sum(batch.num_rows for batch in part) for part in batches]
    assert len(counts) == 4
    assert (sum(counts), max(counts) <= 300) == (1000, True)
    sequences = [seq for part in batches for batch in part for seq in batch["seq"].to_pylist()]
    assert sequences == list(range(18_001, 20_000, 2))


def test_a_stream_with_holes_is_split_by_what_is_left(url: str, jetstream: sync.JetStream) -> None:
    config = StreamConfig(
        name="HOLED",
        subjects=("HOLED.>",),
        allow_direct=True,
        allow_batched=True,
        max_msgs_per_subject=1,
    )
    jetstream.create_stream(config)
    with jetstream.fast_publisher() as publisher:
        publisher.extend(["HOLED.first"], [b"x"])
        publisher.extend(["HOLED.same"] * 20_000, [b"x"] * 20_000)
        publisher.extend([f"HOLED.{number}" for number in range(800)], [b"x"] * 800)
    source = JetStreamDataSource(options={"servers": url, "stream": "HOLED", "minPartitions": "4"})
    reader = source.reader(source.schema())

    read: Any = reader.read
    counts = [sum(batch.num_rows for batch in read(part)) for part in reader.partitions()]

    assert sum(counts) == 802
    assert len(counts) == 4
    assert max(counts) <= 450


def test_a_value_that_was_purged_since_fails_a_strict_read_of_the_past(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = _bucket(jetstream, "ERASED", history=5)
    bucket.put("a", b"1")
    bucket.put("b", b"2")
    bucket.purge("a")

    with pytest.raises(DataLoss, match="no value of key 'a' as of revision 2"):
        _rows(*_planned(url, "ERASED", versionAsOf="2"))


@pytest.mark.parametrize("history", [1, 3])
def test_a_bucket_created_again_after_the_planning_fails_the_read(
    url: str, jetstream: sync.JetStream, history: int
) -> None:
    name = f"AGAIN{history}"
    config = KeyValueConfig(bucket=name, history=history, storage=Storage.MEMORY)
    values = {f"k.{number}": b"x" for number in range(10)}
    for _ in range(history):
        jetstream.create_key_value(config).put_many(values)
    reader, parts = _planned(url, name)

    jetstream.delete_key_value(name)
    jetstream.create_key_value(config).put_many(values)

    with pytest.raises(StreamRecreated, match="created again"):
        _rows(reader, parts)


@pytest.mark.parametrize("history", [1, 64])
def test_in_a_streaming_query_every_read_is_one_current_snapshot(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch, history: int
) -> None:
    """Spark plans a static side once: later micro-batches read with the plan of the first.

    A bucket that keeps one value, and is written to without a pause, has every key once; one that
    keeps more is of one point in time, too.
    """
    bucket = _bucket(jetstream, f"STATIC{history}", history=history)
    bucket.put_many({f"k.{number}": b"0" for number in range(400)})
    reader, parts = _planned(url, f"STATIC{history}", minPartitions="4")
    monkeypatch.setattr(kv_reader, "in_micro_batch", lambda: True)
    done = threading.Event()

    def write() -> None:
        """Give ``last`` a number only after ``first`` has it."""
        with sync.connect(url) as client:
            writing = client.jetstream().key_value(f"STATIC{history}")
            number = 0
            while not done.is_set():
                number += 1
                for key in ("first", f"k.{number % 400}", "last"):
                    writing.put(key, b"%d" % number)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        snapshots = [_rows(reader, parts) for _ in range(10)]
    finally:
        done.set()
        writer.join()
    bucket.delete("k.5")
    bucket.put("new", b"1")
    after = _rows(reader, parts)

    for rows in snapshots:
        values = {key: int(value or b"") for key, value, _ in rows}
        assert len(values) == len(rows)
        assert {f"k.{number}" for number in range(400)} <= values.keys()
        if "last" in values and history > 1:
            assert values["first"] - 1 <= values["last"] <= values["first"]
    keys = [key for key, _, _ in after]
    assert sorted(set(keys)) == keys
    assert "new" in keys
    assert "k.5" not in keys


def test_in_a_streaming_query_a_bucket_that_was_empty_is_read(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = _bucket(jetstream, "LATER")
    reader, parts = _planned(url, "LATER")
    pinned, pinned_parts = _planned(url, "LATER", timestampAsOf="2000-01-01T00:00:00Z")
    monkeypatch.setattr(kv_reader, "in_micro_batch", lambda: True)
    bucket.put("k", b"v")

    assert _rows(reader, parts or [InputPartition(None)]) == [("k", b"v", 1)]
    assert _rows(pinned, pinned_parts or [InputPartition(None)]) == []
