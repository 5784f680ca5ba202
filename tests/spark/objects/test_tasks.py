"""Objects as rows, against both servers and without a JVM."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import ObjectStoreConfig, sync
from jetspark.spark.objects.reader import Listed, pack
from jetspark.spark.objects.source import ObjectDataSource
from jetspark.spark.stream.planner import DataLoss
from jetspark.spark.stream.schema import InvalidSchema
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.view import PlanningFailed

ROW = StructType().add("path", "string").add("content", "binary")


def _store(jetstream: sync.JetStream, name: str) -> sync.ObjectStore:
    return jetstream.create_object_store(ObjectStoreConfig(bucket=name))


def _source(url: str, bucket: str, **options: str) -> ObjectDataSource:
    return ObjectDataSource(options={"servers": url, "bucket": bucket, **options})


def _read(source: ObjectDataSource, schema: StructType | None = None) -> list[dict[str, Any]]:
    reader = source.reader(schema or source.schema())
    parts = reader.partitions()
    copy = pickle.loads(pickle.dumps(reader))
    return [row for part in parts for batch in copy.read(part) for row in batch.to_pylist()]


def _batch(**objects: bytes) -> Iterator[pa.RecordBatch]:
    columns = {"path": list(objects), "content": list(objects.values())}
    return iter([pa.RecordBatch.from_pydict(columns)])


def test_objects_are_rows(url: str, jetstream: sync.JetStream) -> None:
    store = _store(jetstream, "PICS")
    large = bytes(range(256)) * 4096
    store.put("b.png", large)
    store.put("a.txt", b"text")
    info = store.info("a.txt")
    store.put("gone", b"x")
    store.delete("gone")

    rows = _read(_source(url, "PICS", minPartitions="2"))

    assert [(row["path"], row["length"], row["content"]) for row in rows] == [
        ("a.txt", 4, b"text"),
        ("b.png", len(large), large),
    ]
    assert abs(rows[0]["modificationTime"].timestamp() - int(info.time_ns) / 1e9) < 0.001
    assert [row["path"] for row in _read(_source(url, "PICS", pathGlobFilter="*.png"))] == [
        "b.png"
    ]


def test_without_content_nothing_is_fetched(url: str, jetstream: sync.JetStream) -> None:
    store = _store(jetstream, "FACTS")
    store.put("a", b"12345")
    source = _source(url, "FACTS")
    schema = StructType().add("length", "long").add("path", "string")
    reader = source.reader(schema)
    parts = reader.partitions()
    store.delete("a")

    batches: list[Any] = [batch for part in parts for batch in reader.read(part)]
    assert [b.to_pylist() for b in batches] == [[{"length": 5, "path": "a"}]]
    whole = source.reader(source.schema())
    with pytest.raises(DataLoss, match=r"was deleted since.*jetspark\.spark\.refresh"):
        list(whole.read(parts[0]))


def test_links_are_followed(url: str, jetstream: sync.JetStream) -> None:
    store = _store(jetstream, "LINKS")
    target = store.put("real", b"here")
    store.link("alias", target)
    store.link_bucket("all", "LINKS")

    rows = _read(_source(url, "LINKS"))

    assert {row["path"]: row["content"] for row in rows} == {"real": b"here", "alias": b"here"}


def test_rows_become_objects_and_a_second_run_changes_nothing(
    url: str, jetstream: sync.JetStream
) -> None:
    store = _store(jetstream, "OUT")
    writer = pickle.loads(pickle.dumps(_source(url, "OUT").writer(ROW, False)))

    first = writer.write(_batch(a=b"1", b=b"2" * 300_000))
    before = store.info("b").nuid
    second = writer.write(_batch(a=b"1", b=b"2" * 300_000, c=b"3"))
    third = writer.write(_batch(a=b"changed"))

    assert (first.stored, second.stored, second.unchanged, third.stored) == (2, 1, 2, 1)
    assert store.info("b").nuid == before
    assert store.get("a") == b"changed"


def test_mistakes_are_one_line(url: str, jetstream: sync.JetStream) -> None:
    _store(jetstream, "GOOD")

    with pytest.raises(PlanningFailed, match="object store 'NONE' does not exist"):
        _read(_source(url, "NONE"))
    with pytest.raises(InvalidSchema, match="column 'id' does not exist"):
        _source(url, "GOOD").writer(StructType([*ROW.fields]).add("id", "long"), False)
    with pytest.raises(WriteRefused, match="cannot be overwritten as a whole"):
        _source(url, "GOOD").writer(ROW, True)
    with pytest.raises(
        PlanningFailed, match=r"'nats_object' does not support readStream: use spark\.read"
    ):
        _source(url, "GOOD").streamReader(ROW).initialOffset()


def test_small_objects_share_a_partition() -> None:
    objects = [Listed(str(number), 10, 0) for number in range(10)]

    assert [len(part) for part in pack(objects, min_partitions=1)] == [10]
    assert [len(part) for part in pack(objects, min_partitions=4)] == [2, 2, 2, 2, 2]
    assert pack([], min_partitions=4) == []
