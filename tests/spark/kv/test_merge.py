"""``kv_merge``: decisions, conflicts and repetitions, against both servers and in a session."""

import itertools
import random
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jetspark import KeyValueConfig, sync
from jetspark.errors import InvalidSchema, KeyNotFound
from jetspark.spark import kv_merge
from jetspark.spark.connection_settings import Connection
from jetspark.spark.kv import merge_tasks
from jetspark.spark.kv.merge_tasks import MergePlan, TaskMerge
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.sink.rows import RowRefused

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

RUNS = itertools.count()
Row = tuple[str, bytes | None, str | None, int | None]


def _plan(url: str, bucket: str, matched: str = "update", missing: str = "insert") -> MergePlan:
    return MergePlan(
        connection=Connection(servers=(url,)),
        bucket=bucket,
        when_matched=matched,
        when_not_matched=missing,
        run=f"run{next(RUNS)}",
    )


def _batches(rows: list[Row]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("value", pa.binary()),
            ("operation", pa.string()),
            ("expected_revision", pa.int64()),
        ]
    )
    for start in range(0, len(rows), 7):
        columns = zip(*rows[start : start + 7], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns], schema=None, names=schema.names
        ).cast(schema)


def _merge(plan: MergePlan, rows: list[Row]) -> tuple[dict[str, int], list[tuple[Any, ...]]]:
    table = pa.Table.from_batches(TaskMerge(plan).merge(_batches(rows)))
    conflicts = merge_tasks.conflict_table(table).to_pylist()
    return merge_tasks.counted(table), sorted(tuple(one.values()) for one in conflicts)


def _contents(bucket: sync.KeyValue, keys: list[str]) -> dict[str, tuple[bytes, int]]:
    found = {}
    for key in keys:
        try:
            entry = bucket.get(key)
        except KeyNotFound:
            continue
        found[key] = (entry.value, entry.revision)
    return found


@pytest.mark.parametrize("matched", ["update", "delete", "ignore"])
@pytest.mark.parametrize("missing", ["insert", "ignore"])
def test_a_merge_does_what_a_row_by_row_model_does_and_a_repeated_task_changes_nothing(
    url: str, jetstream: sync.JetStream, matched: str, missing: str
) -> None:
    name = f"MODEL_{matched}_{missing}"
    bucket = jetstream.create_key_value(KeyValueConfig(bucket=name, history=2))
    dice = random.Random(f"{matched}{missing}")
    keys = [f"k.{number}" for number in range(40)]
    for key in dice.sample(keys, 25):
        bucket.put(key, b"old")
    for key in dice.sample(keys, 8):
        bucket.delete(key)
    before = _contents(bucket, keys)
    rows: list[Row] = []
    due, ignored, deleted, conflicts = dict(before), 0, 0, []
    for key in dice.sample(keys, 33):
        operation = dice.choice((None, None, "PUT", "DEL", "PURGE"))
        revision = before[key][1] if key in before else 0
        expected = dice.choice((None, None, revision, revision + 1, 0))
        value = b"new " + key.encode()
        rows.append((key, value, operation, expected))
        action = (matched if key in before else missing) if operation is None else operation
        if expected is not None and expected != revision:
            conflicts.append((key, expected, revision or None))
        elif action in {"DEL", "PURGE", "delete"}:
            deleted += key in before
            ignored += key not in before
            due.pop(key, None)
        elif action == "ignore":
            ignored += 1
        else:
            due[key] = (value, 0)
    plan = _plan(url, name, matched, missing)

    counts, found = _merge(plan, rows)
    after = _contents(bucket, keys)
    again, found_again = _merge(plan, rows)

    assert {key: value for key, (value, _) in after.items()} == {
        key: value for key, (value, _) in due.items()
    }
    assert found == sorted(conflicts)
    written = len(rows) - ignored - deleted - len(conflicts)
    assert counts == {"written": written, "deleted": deleted, "ignored": ignored}
    # Another attempt of the same task, as Spark makes one: the same outcome, nothing written.
    assert _contents(bucket, keys) == after
    assert again["written"] >= written
    assert {key for key, *_ in found_again} <= {key for key, *_ in found}


def test_decisions_are_made_again_when_another_writer_is_faster(
    url: str, jetstream: sync.JetStream
) -> None:
    """Several merges of the same keys at the same time: none is lost, none is a conflict."""
    bucket = jetstream.create_key_value(KeyValueConfig(bucket="RACED", history=64))
    keys = [f"k.{number}" for number in range(5)]
    failures: list[BaseException] = []

    def merge_all(name: str) -> None:
        try:
            for _ in range(3):
                rows: list[Row] = [(key, name.encode(), None, None) for key in keys]
                counts, conflicts = _merge(_plan(url, "RACED"), rows)
                assert (counts["written"], conflicts) == (5, [])
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=merge_all, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    for key in keys:
        assert len(bucket.history(key)) == 12


def test_a_key_that_occurs_twice_and_other_mistakes_are_refused(
    url: str, jetstream: sync.JetStream
) -> None:
    bucket = jetstream.create_key_value(KeyValueConfig(bucket="STRICT"))
    twice: list[Row] = [(f"k.{number % 30}", b"1", None, None) for number in range(31)]

    with pytest.raises(RowRefused, match=r"'k\.0' twice"):
        _merge(_plan(url, "STRICT"), twice)
    for row, text in (
        (("a b", b"1", None, None), "not a valid key"),
        (("a", None, None, None), "'value' is NULL for key 'a'"),
        (("a", b"1", "POST", None), "contains 'POST'"),
        (("a", b"1", None, -1), "is negative"),
    ):
        with pytest.raises(RowRefused, match=text):
            _merge(_plan(url, "STRICT"), [row])
    assert list(bucket.keys()) == []
    with pytest.raises(WriteRefused, match="bucket 'MISSING' does not exist"):
        _merge(_plan(url, "MISSING"), [("a", b"1", None, None)])


def test_a_merge_reports_its_conflicts_as_a_table(spark: SparkSession, streams: "Streams") -> None:
    bucket = streams.jetstream.create_key_value(KeyValueConfig(bucket="STOCK", history=5))
    revision = bucket.put("apple", b"1")
    bucket.put("pear", b"2")
    rows = spark.createDataFrame(
        [("apple", "10", revision), ("pear", "20", 1), ("plum", "30", None)],
        "key string, value string, expected_revision long",
    )

    report = kv_merge(rows, "STOCK", servers=streams.url)

    assert (report.written, report.deleted, report.ignored) == (2, 0, 0)
    assert [tuple(row) for row in report.conflicts.collect()] == [("pear", 1, 2)]
    assert bucket.get("apple").value == b"10"
    assert bucket.get("pear").value == b"2"
    with pytest.raises(PySparkException, match="contains 'apple' twice"):
        kv_merge(rows.union(rows), "STOCK", servers=streams.url)
    with pytest.raises(InvalidSchema, match="column 'value' is missing"):
        kv_merge(rows.drop("value"), "STOCK", servers=streams.url)
    with pytest.raises(ValueError, match="when_matched is 'upsert': expected one of update"):
        kv_merge(rows, "STOCK", servers=streams.url, when_matched="upsert")
