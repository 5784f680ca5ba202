"""Objects as rows, against both servers and without a JVM."""

import hashlib
import os
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import ObjectStoreConfig, sync
from jetspark.errors import InvalidSchema, StreamFull
from jetspark.spark.connection_settings import Connection
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.objects.options import parse_object_options
from jetspark.spark.objects.reader import Listed, ObjectReader, pack
from jetspark.spark.objects.source import ObjectDataSource
from jetspark.spark.option_reader import Use
from jetspark.spark.stream.planner import DataLoss
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.view import PlanningFailed

READER = sys.modules[ObjectReader.__module__]
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


def parse_connection_of(source: ObjectDataSource) -> Connection:
    """Return the settings of the connection that the source's tasks use."""
    return parse_object_options(source.options, Use.READ).connection


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
    counts = [
        len(source.reader(source.schema()).partitions())
        for source in (_source(url, "PICS", minPartitions=number) for number in ("1", "2"))
    ]
    assert counts == [1, 2]
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


def _replace_when_opened(
    store: sync.ObjectStore, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let another client replace the object ``hot`` after each of the first opens."""
    contents = [bytes([ord("0") + number]) * 3_000_000 for number in range(times + 1)]
    store.put("hot", contents.pop(0))
    really_open = sync.ObjectStore.open

    def opened(opening: sync.ObjectStore, name: str, **options: Any) -> sync.ObjectReader:
        reader = really_open(opening, name, **options)
        if name == "hot" and contents:
            store.put("hot", contents.pop(0))
        return reader

    monkeypatch.setattr(sync.ObjectStore, "open", opened)


@pytest.mark.parametrize("micro_batch", [False, True])
def test_an_object_that_is_replaced_during_the_read_comes_with_its_new_content(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch, micro_batch: bool
) -> None:
    """It was reported as deleted, and missing without an error from a streaming join."""
    bucket = f"HOT{micro_batch}"
    store = _store(jetstream, bucket)
    store.put("cold", b"c")
    _replace_when_opened(store, 2, monkeypatch)
    monkeypatch.setattr(READER, "in_micro_batch", lambda: micro_batch)

    rows = _read(_source(url, bucket))

    assert [(row["path"], row["content"][:1]) for row in rows] == [("cold", b"c"), ("hot", b"2")]


def test_a_read_of_an_object_that_never_stays_ends_with_an_error(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READER, "OPENS_MAX", 3)
    _replace_when_opened(_store(jetstream, "NEVER"), 3, monkeypatch)

    with pytest.raises(DataLoss, match="object 'hot' of 'NEVER' was replaced during each of 3"):
        _read(_source(url, "NEVER"))


def test_a_link_to_a_deleted_object_is_named_and_does_not_end_a_streaming_join(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(jetstream, "BROKEN")
    store.put("a", b"1")
    store.link("alias", store.put("target", b"2"))
    reader = _source(url, "BROKEN").reader(_source(url, "BROKEN").schema())
    parts = reader.partitions()
    store.delete("target")

    with pytest.raises(PlanningFailed, match="'alias' of object store 'BROKEN' is a link to an"):
        _read(_source(url, "BROKEN"))
    monkeypatch.setattr(READER, "in_micro_batch", lambda: True)
    batches: list[Any] = [batch for part in parts for batch in reader.read(part)]
    assert [row["path"] for batch in batches for row in batch.to_pylist()] == ["a"]


def test_a_large_object_does_not_join_small_ones_in_a_batch(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's columns hold 2 GiB at most: together they may be larger than that."""
    monkeypatch.setattr(READER, "BATCH_BYTES", 100)
    store = _store(jetstream, "SIZES")
    for name, size in (("a", 40), ("b", 40), ("c", 500), ("d", 40)):
        store.put(name, bytes(size))
    source = _source(url, "SIZES", minPartitions="1")
    reader = source.reader(source.schema())

    batches: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]

    assert [batch.num_rows for batch in batches] == [2, 1, 1]


def test_only_the_wanted_bytes_are_fetched(url: str, jetstream: sync.JetStream) -> None:
    store = _store(jetstream, "RANGES")
    large = os.urandom(6_000_000)
    store.put("large", large)
    store.put("small", b"12345")
    parsed = parse_connection_of(_source(url, "RANGES"))
    with CONNECTIONS.borrow(parsed) as client:
        before = client.stats.in_bytes

    rows = _read(_source(url, "RANGES", start="4000003", length="70000"))
    tail = _read(_source(url, "RANGES", start="5999990", pathGlobFilter="la*"))
    with CONNECTIONS.borrow(parsed) as client:
        fetched = client.stats.in_bytes - before

    assert [(row["path"], row["length"], row["content"]) for row in rows] == [
        ("large", len(large), large[4_000_003:4_070_003]),
        ("small", 5, b""),
    ]
    assert [row["content"] for row in tail] == [large[-10:]]
    assert 70_000 < fetched < 3_000_000


def test_a_large_object_is_split_into_rows_of_bounded_size(
    url: str, jetstream: sync.JetStream
) -> None:
    store = _store(jetstream, "SPLIT")
    large = os.urandom(3_000_001)
    store.put("large", large)
    store.put("small", b"12345")
    store.put("empty", b"")
    source = _source(url, "SPLIT", splitBytes="1000000", minPartitions="2")

    rows = _read(source)
    middle = _read(_source(url, "SPLIT", splitBytes="500", start="3", length="1200"))

    assert {len(row["content"]) for row in rows} == {0, 1, 5, 1_000_000}
    assert [row["start"] for row in rows if row["path"] == "large"] == [
        n * 1_000_000 for n in range(4)
    ]
    joined = b"".join(row["content"] for row in rows if row["path"] == "large")
    assert hashlib.sha256(joined).digest() == hashlib.sha256(large).digest()
    assert {row["length"] for row in rows} == {0, 5, len(large)}
    assert [(row["path"], row["start"], row["content"]) for row in middle] == [
        ("empty", 0, b""),
        ("large", 3, large[3:503]),
        ("large", 503, large[503:1003]),
        ("large", 1003, large[1003:1203]),
        ("small", 3, b"45"),
    ]
    with pytest.raises(InvalidSchema, match="with splitBytes it needs the column 'start'"):
        source.reader(ROW)


@pytest.mark.parametrize("micro_batch", [False, True])
def test_the_rows_of_an_object_are_of_one_content(
    url: str, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch, micro_batch: bool
) -> None:
    """It would be neither the old nor the new object, without a sign of it."""
    bucket = f"PINNED{micro_batch}"
    monkeypatch.setattr(READER, "in_micro_batch", lambda: micro_batch)
    monkeypatch.setattr(READER, "BATCH_BYTES", 1)
    store = _store(jetstream, bucket)
    store.put("a", b"old!" * 100)
    source = _source(url, bucket, splitBytes="100", minPartitions="1")
    reader = source.reader(source.schema())
    (part,) = reader.partitions()

    batches: Any = reader.read(part)
    assert next(batches).to_pylist()[0]["content"] == b"old!" * 25
    store.put("a", b"new!" * 100)
    with pytest.raises(DataLoss, match=r"'a' of '.*' was replaced since the read was planned"):
        list(batches)

    batches = reader.read(reader.partitions()[0])
    assert next(batches).to_pylist()[0]["content"] == b"new!" * 25
    store.delete("a")
    with pytest.raises(DataLoss, match="was deleted since the read was planned"):
        list(batches)


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


def test_an_object_that_does_not_fit_into_its_store_is_named(
    url: str, jetstream: sync.JetStream
) -> None:
    jetstream.create_object_store(ObjectStoreConfig(bucket="SMALL", max_bytes=400_000))
    writer = _source(url, "SMALL").writer(ROW, False)

    with pytest.raises(StreamFull) as found:
        writer.write(_batch(a=b"1", b=bytes(1_000_000)))

    note = "object 'b', 1000000 bytes, was not stored in object store 'SMALL'"
    assert found.value.__notes__[-1] == note
    assert jetstream.object_store("SMALL").get("a") == b"1"


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
    objects = [Listed(str(number), 10, 0, wanted=10) for number in range(10)]

    assert [len(part) for part in pack(objects, min_partitions=1)] == [10]
    assert [len(part) for part in pack(objects, min_partitions=4)] == [2, 2, 2, 2, 2]
    assert pack([], min_partitions=4) == []
