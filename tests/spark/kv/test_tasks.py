"""Buckets as tables, against both servers and without a JVM."""

import math
import pickle
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from jetspark import KeyValueConfig, StreamConfig, sync
from jetspark.errors import InvalidSchema, MessageTooLarge, WrongLastSequence
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.objects.source import ObjectDataSource
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream.planner import DataLoss
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.sink.rows import RowRefused
from jetspark.spark.stream.streaming_reader import JetStreamStreamReader
from jetspark.spark.stream.view import PlanningFailed
from jetspark.units import format_rfc3339

if TYPE_CHECKING:
    from tests.spark.conftest import FakeTask

ROW = StructType().add("key", "string").add("value", "string")


def _bucket(jetstream: sync.JetStream, name: str, history: int = 1, **more: Any) -> sync.KeyValue:
    return jetstream.create_key_value(KeyValueConfig(bucket=name, history=history, **more))


def _rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    names = ("key", "value", "revision", "operation")
    return [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]


def _read(url: str, bucket: str, **options: str) -> list[tuple[Any, ...]]:
    source = KvDataSource(options={"servers": url, "bucket": bucket, **options})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    copy = pickle.loads(pickle.dumps(reader))
    return sorted(row for part in parts for row in _rows(copy.read(part)))


def _feed(url: str, bucket: str, **options: str) -> JetStreamStreamReader:
    source = KvDataSource(options={"servers": url, "bucket": bucket, **options})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, JetStreamStreamReader)
    return reader


def _next(
    reader: JetStreamStreamReader, start: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    end = reader.latestOffset(start, ReadAllAvailable())
    return end, _replay(reader, start, end)


def _replay(
    reader: JetStreamStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[Any, ...]]:
    parts = reader.partitions(start, end)
    return [row for part in parts for row in _rows(reader.read(part))]


def _write(url: str, bucket: str, schema: StructType, rows: dict[str, Any], **more: Any) -> None:
    streaming, partition = more.pop("streaming", False), more.pop("partition", 0)
    source = KvDataSource(options={"servers": url, "bucket": bucket, **more})
    writer = source.streamWriter(schema, False) if streaming else source.writer(schema, False)
    told = pickle.loads(pickle.dumps(writer)).write(iter([pa.RecordBatch.from_pydict(rows)]))
    assert told.task.partition == partition


def test_a_snapshot_has_the_last_value_of_every_key(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "SNAP", history=3)
    bucket.put_many({f"k.{number}": b"old" for number in range(2500)})
    bucket.put("k.7", b"new")
    bucket.delete("k.8")

    rows = _read(url, "SNAP", minPartitions="3")

    assert len(rows) == 2499
    assert ("k.7", b"new", 2501, "PUT") in rows
    assert "k.8" not in {row[0] for row in rows}
    deleted = _read(url, "SNAP", keys="k.8,k.9", includeDeleted="true")
    assert deleted == [("k.8", None, 2502, "DEL"), ("k.9", b"old", 10, "PUT")]


def test_a_snapshot_can_be_of_the_past(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "PAST", history=5)
    bucket.put("a", b"1")
    at = bucket.put("b", b"2")
    moment = bucket.get("b").time_ns
    bucket.put("a", b"3")
    bucket.put("c", b"4")
    stamp = datetime.fromtimestamp(moment // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")

    by_revision = _read(url, "PAST", versionAsOf=str(at))
    by_time = _read(url, "PAST", timestampAsOf=f"{stamp}.{moment % 10**9:09d}Z")

    assert by_revision == by_time == [("a", b"1", 1, "PUT"), ("b", b"2", 2, "PUT")]
    before = bucket.get("a", revision=1).time_ns - 1_000
    for moment_before in ("2001-01-01T00:00:00Z", format_rfc3339(before)):
        assert _read(url, "PAST", timestampAsOf=moment_before) == [], "it had no keys then"


def test_a_value_that_was_deleted_is_reported_or_replaced(
    url: str, jetstream: sync.JetStream
) -> None:
    """With history 1 a key overwritten after S is simply missing."""
    bucket = _bucket(jetstream, "GONE")
    bucket.put("a", b"1")
    bucket.put("b", b"2")
    bucket.put("a", b"3")

    with pytest.raises(DataLoss, match="no value of key 'a' as of revision 2"):
        _read(url, "GONE", versionAsOf="2")
    replaced = _read(url, "GONE", versionAsOf="2", consistency="best-effort")

    assert replaced == [("a", b"3", 3, "PUT"), ("b", b"2", 2, "PUT")]


def test_a_bucket_without_direct_gets_is_read_anyway(url: str, jetstream: sync.JetStream) -> None:
    """Buckets made by nats-py have allow_direct off; our server always switches it on."""
    config = StreamConfig(name="KV_OLD", subjects=("$KV.OLD.>",), max_msgs_per_subject=2)
    if jetstream.create_stream(config).config.allow_direct:
        pytest.skip("this server has allow_direct on in every bucket")
    bucket = jetstream.key_value("OLD")
    bucket.put("a", b"1")
    bucket.put("a", b"2")
    bucket.put("b", b"3")

    assert _read(url, "OLD") == [("a", b"2", 2, "PUT"), ("b", b"3", 3, "PUT")]


def test_values_that_expire_have_no_strict_past(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "TTL", ttl=3600)
    bucket.put("a", b"1")

    with pytest.raises(PlanningFailed, match="expire"):
        _read(url, "TTL", versionAsOf="1")
    assert _read(url, "TTL") == [("a", b"1", 1, "PUT")]


@pytest.mark.parametrize(("source", "prefix"), [(KvDataSource, "KV_"), (ObjectDataSource, "OBJ_")])
def test_the_name_of_its_stream_is_not_that_of_a_bucket(
    url: str, source: type[KvDataSource], prefix: str
) -> None:
    made = source(options={"servers": url, "bucket": f"{prefix}B"})

    with pytest.raises(PlanningFailed, match=f"does not exist .{prefix} is part of the name of"):
        made.reader(made.schema()).partitions()


def test_mistakes_are_one_line(url: str, jetstream: sync.JetStream) -> None:
    _bucket(jetstream, "FINE")

    with pytest.raises(PlanningFailed, match="bucket 'NONE' does not exist"):
        _read(url, "NONE")
    with pytest.raises(PlanningFailed, match="versionAsOf is 7, but bucket 'FINE' is at"):
        _read(url, "FINE", versionAsOf="7")
    with pytest.raises(InvalidOptions, match="initialSnapshot is for readStream"):
        _read(url, "FINE", initialSnapshot="true")
    with pytest.raises(InvalidSchema, match="column 'id' does not exist in a bucket"):
        _write(url, "FINE", StructType([*ROW.fields]).add("id", "long"), {})
    with pytest.raises(WriteRefused, match="cannot be overwritten as a whole"):
        KvDataSource(options={"servers": url, "bucket": "FINE"}).writer(ROW, True)


def test_a_feed_shows_every_change_after_a_snapshot(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "FEED", history=4)
    bucket.put("a", b"1")
    bucket.put("a", b"2")
    bucket.put("b", b"3")
    reader = _feed(url, "FEED", initialSnapshot="true", maxOffsetsPerTrigger="1")
    start = reader.initialOffset()

    first_end, snapshot = _next(reader, start)
    bucket.put("a", b"4")
    bucket.delete("b")
    last_end, changes = _next(reader, first_end)

    assert sorted(snapshot) == [("a", b"2", 2, "PUT"), ("b", b"3", 3, "PUT")]
    assert changes == [("a", b"4", 4, "PUT"), ("b", None, 5, "DEL")]
    assert _next(reader, last_end)[1] == []
    assert sorted(_replay(reader, start, first_end)) == sorted(snapshot)


def test_a_feed_continues_although_old_values_were_forgotten(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = _bucket(jetstream, "SLOW")
    bucket.put("a", b"1")
    reader = _feed(url, "SLOW", startingOffsets="earliest", keys="a")
    start = reader.initialOffset()
    for number in range(2, 6):
        bucket.put("a", b"%d" % number)
        bucket.put("x", b"other")

    _, changes = _next(reader, start)

    assert changes == [("a", b"5", 8, "PUT")]


def test_a_feed_of_a_bucket_created_again_stops(url: str, jetstream: sync.JetStream) -> None:
    _bucket(jetstream, "ANEW").put("a", b"1")
    reader = _feed(url, "ANEW", startingOffsets="earliest")
    start = reader.initialOffset()
    jetstream.delete_key_value("ANEW")
    _bucket(jetstream, "ANEW").put("a", b"2")

    with pytest.raises(DataLoss, match="was created again"):
        _next(reader, start)


@pytest.mark.parametrize("option", [{"onRecreate": "earliest"}, {"failOnDataLoss": "false"}])
def test_a_feed_of_a_bucket_created_again_starts_over_if_it_may(
    url: str, jetstream: sync.JetStream, option: dict[str, str]
) -> None:
    name = f"OVER_{next(iter(option))}"
    _bucket(jetstream, name).put("a", b"1")
    reader = _feed(url, name, startingOffsets="earliest", **option)
    end, before = _next(reader, reader.initialOffset())
    jetstream.delete_key_value(name)
    _bucket(jetstream, name).put("b", b"2")

    _, changes = _next(reader, end)

    assert (before, changes) == ([("a", b"1", 1, "PUT")], [("b", b"2", 1, "PUT")])


def test_headers_of_entries_are_read_by_snapshots_and_feeds(
    url: str, jetstream: sync.JetStream
) -> None:
    """A deletion is marked by a header; other headers come from publishers that add some."""
    _bucket(jetstream, "HEADED")
    jetstream.publish("$KV.HEADED.a", b"1", headers={"Origin": "till"})
    jetstream.key_value("HEADED").put("b", b"2")

    def headers(reader: Any, parts: Any) -> list[tuple[str, Any]]:
        batches = [batch for part in parts for batch in reader.read(part)]
        rows = [row for batch in batches for row in batch.to_pylist()]
        return sorted((row["key"], row["headers"]) for row in rows)

    for mode, due in (
        ("map", [("Origin", ["till"])]),
        ("raw", b"NATS/1.0\r\nOrigin: till\r\n\r\n"),
    ):
        source = KvDataSource(options={"servers": url, "bucket": "HEADED", "includeHeaders": mode})
        snapshot = source.reader(source.schema())
        feed = _feed(url, "HEADED", startingOffsets="earliest", includeHeaders=mode)
        start = feed.initialOffset()
        end = feed.latestOffset(start, ReadAllAvailable())

        rows = headers(snapshot, snapshot.partitions())

        assert rows == headers(feed, feed.partitions(start, end))
        assert rows[0] == ("a", due)
        assert not rows[1][1]


def test_rows_put_and_delete(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "WRITE", history=5)
    bucket.put_many({"b": b"0", "c": b"0"})
    schema = StructType([*ROW.fields]).add("operation", "string")
    rows = {
        "key": ["a", "b", "c"],
        "value": ["1", None, None],
        "operation": ["PUT", "DEL", "PURGE"],
    }

    _write(url, "WRITE", schema, rows)

    assert bucket.get("a").value == b"1"
    assert [entry.operation for entry in bucket.history("b")] == ["PUT", "DEL"]
    assert [entry.operation for entry in bucket.history("c")] == ["PURGE"]


def test_a_null_value_is_no_deletion(url: str, jetstream: sync.JetStream) -> None:
    _bucket(jetstream, "NULLS")

    with pytest.raises(RowRefused, match="NULL in a row that puts"):
        _write(url, "NULLS", ROW, {"key": ["a"], "value": pa.array([None], pa.string())})
    with pytest.raises(RowRefused, match="is not a valid key"):
        _write(url, "NULLS", ROW, {"key": ["a b"], "value": ["1"]})


def test_the_last_row_of_a_key_wins(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "ORDER", history=5)
    schema = StructType([*ROW.fields]).add("at", "long")
    rows = {"key": ["a", "b", "a"], "value": ["3", "1", "2"], "at": [3, 1, 2]}

    _write(url, "ORDER", schema, rows, orderBy="at")

    assert [entry.value for entry in bucket.history("a")] == [b"3"]
    assert bucket.get("b").value == b"1"


@pytest.mark.parametrize("order", [[2.0, math.nan], [math.nan, 2.0]])
def test_nan_is_the_last_in_order_as_in_spark(
    url: str, jetstream: sync.JetStream, order: list[float]
) -> None:
    name = f"NANS{order.index(2.0)}"
    bucket = _bucket(jetstream, name)
    schema = StructType([*ROW.fields]).add("at", "double")

    _write(
        url, name, schema, {"key": ["a"] * 2, "value": map(str, order), "at": order}, orderBy="at"
    )

    assert bucket.get("a").value == b"nan"


def test_an_expected_revision_is_compared(url: str, jetstream: sync.JetStream) -> None:
    bucket = _bucket(jetstream, "CASB", history=5)
    revision = bucket.put("a", b"1")
    schema = StructType([*ROW.fields]).add("expected_revision", "long")
    rows = {"key": ["a"], "value": ["2"], "expected_revision": [revision]}

    _write(url, "CASB", schema, rows)
    with pytest.raises(WrongLastSequence) as refusal:
        _write(url, "CASB", schema, rows)

    conflict = f"'$KV.CASB.a' has {revision + 1} and the row expects {revision}"
    assert conflict in refusal.value.__notes__[-1]

    assert [entry.value for entry in bucket.history("a")] == [b"1", b"2"]


def test_rows_of_a_transaction_are_written_together_or_not_at_all(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = _bucket(jetstream, "TXNB", history=5)
    bucket.put("b.city", b"old")
    schema = StructType([*ROW.fields]).add("expected_revision", "long").add("txn", "string")
    rows = {
        "key": ["a.city", "a.street", "c"],
        "value": ["X", "Y", "Z"],
        "expected_revision": pa.array([0, None, None], pa.int64()),
        "txn": ["t1", "t1", None],
    }
    failing = {
        "key": ["b.street", "b.city"],
        "value": ["Y", "X"],
        "expected_revision": pa.array([None, 99], pa.int64()),
        "txn": ["t2", "t2"],
    }

    _write(url, "TXNB", schema, rows)
    with pytest.raises(WrongLastSequence) as refusal:
        _write(url, "TXNB", schema, failing)

    assert "'$KV.TXNB.b.city' has 1 and the row expects 99" in refusal.value.__notes__[-1]

    assert sorted(bucket.keys()) == ["a.city", "a.street", "b.city", "c"]
    assert bucket.get("a.street").revision == bucket.get("a.city").revision + 1


def test_an_epoch_that_is_run_again_leaves_the_history_clean(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    bucket = _bucket(jetstream, "CLEAN", history=5)
    rows = {"key": ["a", "b"], "value": ["1", "2"]}

    _write(url, "CLEAN", ROW, rows, streaming=True)
    _write(url, "CLEAN", ROW, rows, streaming=True)
    task.epoch = "1"
    _write(url, "CLEAN", ROW, rows, streaming=True)

    assert len(bucket.history("a")) == 2


def test_a_task_of_a_batch_that_runs_again_leaves_values_and_history_as_they_are(
    url: str, jetstream: sync.JetStream
) -> None:
    """Older values fell out of the history; a second run that Spark ended left an older value."""
    bucket = _bucket(jetstream, "BATCH", history=4)
    bucket.put("a", b"before")
    made = KvDataSource(options={"servers": url, "bucket": "BATCH"}).writer(ROW, False)
    rows = {"key": ["a", "b", "a", "a"], "value": ["1", "2", "3", "1"]}
    whole = pa.RecordBatch.from_pydict(rows)

    def ended_early() -> Iterator[pa.RecordBatch]:
        yield whole.slice(0, 3)
        raise KeyboardInterrupt

    pickle.loads(pickle.dumps(made)).write(iter([whole]))
    with pytest.raises(KeyboardInterrupt):
        pickle.loads(pickle.dumps(made)).write(ended_early())

    values = [one.value for one in bucket.history("a")]
    assert values == [b"before", b"1", b"3", b"1"]
    assert len(bucket.history("b")) == 1
    _write(url, "BATCH", ROW, rows)
    assert [one.value for one in bucket.history("a")] == [b"1", b"1", b"3", b"1"]


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("streaming", [False, True])
def test_a_value_as_large_as_the_bucket_allows_is_written(
    url: str, jetstream: sync.JetStream, streaming: bool
) -> None:
    """The header of an id counts for the limit of a message."""
    bucket = _bucket(jetstream, f"LIMIT{streaming}", max_value_size=150)
    rows = {"key": ["a", "b", "c"], "value": ["x" * 10, "x" * 150, "x" * 140]}

    _write(url, bucket.bucket, ROW, rows, streaming=streaming)

    assert {key: len(bucket.get(key).value) for key in "abc"} == {"a": 10, "b": 150, "c": 140}
    with pytest.raises(MessageTooLarge):
        _write(url, bucket.bucket, ROW, {"key": ["d"], "value": ["x" * 151]}, streaming=streaming)


def test_an_expected_revision_of_a_replay_in_another_layout_is_no_conflict(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    """The epoch was written before: its own values are not taken for those of another writer."""
    for window in (None, 0.1):
        name = f"RECAS{window is None}"
        bucket = _bucket(jetstream, name, history=5)
        if window is not None:
            config = jetstream.stream(f"KV_{name}").info().config
            short = config.replace(duplicate_window=window)
            jetstream.update_stream(short)
        schema = StructType([*ROW.fields]).add("expected_revision", "long")
        rows = {"key": ["a", "b"], "value": ["1", "2"], "expected_revision": [0, 0]}
        task.partition = 0
        _write(url, name, schema, rows, streaming=True)
        time.sleep(0.3 if window is not None else 0)

        more = {"key": ["c", "b"], "value": ["3", "2"], "expected_revision": [0, 0]}
        task.partition = 1
        _write(url, name, schema, more, streaming=True, partition=1)
        task.epoch = str(int(task.epoch) + 1)
        with pytest.raises(WrongLastSequence):
            _write(url, name, schema, {**rows, "value": ["x", "y"]}, streaming=True, partition=1)

        values = {key: [one.value for one in bucket.history(key)] for key in "abc"}
        assert values == {"a": [b"1"], "b": [b"2"], "c": [b"3"]}


def test_a_transaction_of_a_replay_in_another_layout_is_written_once(
    url: str, jetstream: sync.JetStream, task: "type[FakeTask]"
) -> None:
    bucket = _bucket(jetstream, "RETXN", history=5)
    config = jetstream.stream("KV_RETXN").info().config
    jetstream.update_stream(config.replace(allow_atomic=True))
    schema = StructType([*ROW.fields]).add("txn", "string")
    rows = {"key": ["a", "b"], "value": ["1", "2"], "txn": ["t", "t"]}

    for task.partition in (0, 1):
        _write(url, "RETXN", schema, rows, streaming=True, partition=task.partition)

    assert {key: [one.value for one in bucket.history(key)] for key in "ab"} == {
        "a": [b"1"],
        "b": [b"2"],
    }


@pytest.mark.usefixtures("task")
def test_a_replay_of_which_the_window_knows_only_the_end_leaves_the_last_value(
    url: str, jetstream: sync.JetStream
) -> None:
    """The id of the older row is forgotten, so that it is stored again, unlike the newer one."""
    bucket = _bucket(jetstream, "HALF", history=5)
    config = jetstream.stream("KV_HALF").info().config
    jetstream.update_stream(config.replace(duplicate_window=1.5))
    deleted = StructType([*ROW.fields]).add("operation", "string")

    def rows(pause: float) -> Iterator[pa.RecordBatch]:
        older = {"key": ["a", "b", "c"], "value": ["1"] * 3, "operation": ["PUT"] * 3}
        newer = {"key": ["a", "b"], "value": ["2", None], "operation": ["PUT", "DEL"]}
        yield pa.RecordBatch.from_pydict(older)
        time.sleep(pause)
        yield pa.RecordBatch.from_pydict(newer)

    for pause in (1.2, 0.0):
        options = {"servers": url, "bucket": "HALF"}
        made: Any = KvDataSource(options=options).streamWriter(deleted, False)
        made._rows.commit([made._rows.write(rows(pause))])
        time.sleep(0.8)

    assert (bucket.get("a").value, bucket.get("c").value) == (b"2", b"1")
    assert sorted(bucket.keys()) == ["a", "c"]


@pytest.mark.parametrize("history", [1, 3, 64])
def test_changes_come_with_the_revision_before_them_as_far_as_it_is_kept(
    url: str, jetstream: sync.JetStream, history: int
) -> None:
    """Random changes in several partitions; the truth is the list of everything that was done."""
    name = f"BEFORE{history}"
    bucket, dice = _bucket(jetstream, name, history=history), random.Random(history)
    done: dict[str, list[tuple[int, bytes | None]]] = {}
    stream = jetstream.stream(f"KV_{name}")
    for number in range(120):
        key = f"k.{dice.randrange(9)}"
        value = None if dice.random() < 0.2 else b"%d" % number
        if value is None:
            bucket.delete(key)
        else:
            bucket.put(key, value)
        done.setdefault(key, []).append((stream.info().state.last_seq, value))
    source = KvDataSource(
        options={
            "servers": url,
            "bucket": name,
            "startingOffsets": "earliest",
            "includePrevious": "true",
            "maxRecordsPerPartition": "17",
        }
    )
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    parts = reader.partitions(start, end)
    batches: Any = [batch for part in parts for batch in reader.read(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]

    kept = {seq for one in stream.scan() for seq in one.sequences}
    assert len(rows) == len(kept)
    assert len(parts) > 1 or history == 1
    for row in rows:
        changes = done[row["key"]]
        at = [seq for seq, _ in changes].index(row["revision"])
        assert row["value"] == changes[at][1]
        due = changes[at - 1] if at and changes[at - 1][0] in kept else (None, None)
        assert (row["previous_revision"], row["previous_value"]) == due
    assert any(row["previous_revision"] for row in rows) == (history > 1)


def test_previous_revisions_belong_to_the_change_feed(url: str) -> None:
    source = KvDataSource(options={"servers": url, "bucket": "A", "includePrevious": "true"})

    with pytest.raises(InvalidOptions, match="includePrevious is for readStream"):
        source.reader(source.schema())
    plain = KvDataSource(options={"servers": url, "bucket": "A"})
    with pytest.raises(InvalidSchema, match="'previous_value' requires option includePrevious"):
        plain.reader(source.schema())
