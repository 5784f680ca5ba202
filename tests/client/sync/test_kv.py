"""The blocking twin of buckets and batches."""

import threading
from typing import Any

import msgspec
import pytest
from tests.support.servers import ServerProcess

import jetspark.sync
from jetspark import (
    Entry,
    KeyValueConfig,
    ObjectInfo,
    ObjectStoreConfig,
    Operation,
    StreamConfig,
)
from jetspark.errors import AlreadyEnded, CodecFailed, KeyNotFound, WrongLastSequence


def test_a_bucket_is_used_without_asyncio(server: ServerProcess, name: str) -> None:
    with jetspark.sync.connect(server.url) as nc:
        js = nc.jetstream()
        kv = js.create_key_value(KeyValueConfig(bucket=name, history=5))
        revision = kv.put("a", b"1")
        kv.update("a", b"2", revision)
        kv.create("b", b"3")
        kv.put_many({"c.1": b"x", "c.2": b"y"})
        kv.delete("b")

        assert kv.get("a").value == b"2"
        assert [each.value for each in kv.history("a")] == [b"1", b"2"]
        assert sorted(kv.keys("c.*")) == ["c.1", "c.2"]
        assert {each.key for each in kv.snapshot()} == {"a", "c.1", "c.2"}
        assert set(kv.get_many(["a", "b"])) == {"a"}
        assert kv.status().values == 6
        assert name in list(js.key_value_names())
        with pytest.raises(KeyNotFound):
            kv.get("b")
        assert kv.read_only().is_read_only
        kv.destroy()


def test_a_watch_crosses_threads_by_chunks(server: ServerProcess, name: str) -> None:
    with jetspark.sync.connect(server.url) as nc:
        kv = nc.jetstream().create_key_value(KeyValueConfig(bucket=name))
        kv.put_many({f"k.{n}": b"%d" % n for n in range(1000)})
        with kv.watch() as watcher:
            first = list(watcher.initial())
            threading.Timer(0.05, lambda: kv.delete("k.1")).start()
            later = next(watcher)

        assert len(first) == 1000
        assert later.operation is Operation.DEL


def test_transactions_locks_and_batches(server: ServerProcess, name: str) -> None:
    with jetspark.sync.connect(server.url) as nc:
        js = nc.jetstream()
        kv = js.create_key_value(KeyValueConfig(bucket=name))
        with kv.transaction() as tx:
            tx.create("a", b"1")
            tx.put("b", b"2")
        with pytest.raises(WrongLastSequence), kv.transaction() as failing:
            failing.create("a", b"3")
        with kv.lock("l") as lock:
            assert lock.is_held
            assert lock.token == 3
            assert not kv.lock("l").try_acquire()
        with kv.elect("e", "me") as election:
            assert election.is_leader
            assert election.leader() == "me"
        with kv.members("g").join("one", b"here"):
            assert kv.members("g").list() == {"one": b"here"}
        js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",), allow_atomic=True))
        with js.atomic_batch() as batch:
            for _ in range(10):
                batch.add(f"{name}.a", b"x")
            assert len(batch) == 10

        assert tx.revisions == {"a": 1, "b": 2}
        assert batch.ack.count == 10


def test_objects_are_put_and_read(server: ServerProcess, name: str) -> None:
    data = bytes(300_000)
    with jetspark.sync.connect(server.url) as nc:
        js = nc.jetstream()
        store = js.create_object_store(ObjectStoreConfig(bucket=name))
        store.put("a", data)
        with store.open("a", start=5) as reader:
            pieces = list(reader)
        with store.watch() as watcher:
            first = list(watcher.initial())

        assert store.get("a") == data
        assert b"".join(pieces) == data[5:]
        assert [info.name for info in store.list()] == ["a"]
        assert [info.name for info in first] == ["a"]


def test_a_watch_with_a_callback_may_block_and_call_back(server: ServerProcess, name: str) -> None:
    with jetspark.sync.connect(server.url) as nc:
        js = nc.jetstream()
        kv = js.create_key_value(KeyValueConfig(bucket=name))
        store = js.create_object_store(ObjectStoreConfig(bucket=name))
        kv.put("a", b"1")
        store.put("o", b"2")
        values: list[bytes] = []
        objects: list[str] = []
        both = threading.Barrier(3)

        def on_entry(entry: Entry) -> None:
            values.append(kv.get(entry.key).value)
            both.wait(30)

        def on_object(info: ObjectInfo) -> None:
            objects.append(info.name)
            both.wait(30)

        with kv.watch(callback=on_entry), store.watch(callback=on_object):
            both.wait(30)

        assert (values, objects) == ([b"1"], ["o"])


class Point(msgspec.Struct):
    x: int


def test_typed_values(server: ServerProcess, name: str) -> None:
    with jetspark.sync.connect(server.url) as nc:
        kv = nc.jetstream().create_key_value(KeyValueConfig(bucket=name, history=5))
        points = kv.typed(Point)
        revision = points.put("a", Point(1))
        points.update("a", Point(2), revision)
        points.create("b", Point(3))
        with points.watch() as watcher:
            seen = list(watcher.initial())

        assert points.get("a").value == Point(2)
        assert [each.value for each in points.history("a")] == [Point(1), Point(2)]
        assert {each.key for each in points.snapshot()} == set(points.keys()) == {"a", "b"}
        assert [each.value for each in seen] == [Point(2), Point(3)]
        assert points.decode(kv.get("b")).value == Point(3)
        kv.put("a", b"no point")
        with pytest.raises(CodecFailed, match="does not hold a Point"):
            points.get("a")


@pytest.mark.parametrize("typed", [False, True])
def test_a_watch_may_be_read_in_several_ways(
    server: ServerProcess, name: str, *, typed: bool
) -> None:
    """What the iteration has read ahead exists for the others, and gone when it is closed."""
    with jetspark.sync.connect(server.url) as nc:
        kv = nc.jetstream().create_key_value(name)
        names = [f"k{n}" for n in range(6)]
        kv.put_many(dict.fromkeys(names, b"1"))
        bucket: Any = kv.typed(int) if typed else kv
        with bucket.watch() as watcher:
            assert next(watcher).key == "k0"
            assert next(watcher.initial()).key == "k1"
            assert next(watcher).key == "k2"
            assert [each.key for each in watcher.initial()] == names[3:]
            assert watcher.initial_done
            kv.put("new", b"2")
            kv.put("newer", b"3")
            assert watcher.next(timeout=20).key == "new"
            assert next(watcher).key == "newer"
        with bucket.watch() as watcher:
            assert next(watcher).key == "k0"
            marked = watcher.marked()
            found = [next(marked) for _ in range(8)]
            keys = [None if each is None else each.key for each in found]
            assert keys == [*names[1:], "new", "newer", None]
        watcher = bucket.watch()
        next(watcher)
        watcher.close()
        assert watcher.is_closed
        assert list(watcher) == []
        with pytest.raises(AlreadyEnded):
            watcher.next(timeout=20)


def test_an_object_may_be_read_in_several_ways(server: ServerProcess, name: str) -> None:
    with jetspark.sync.connect(server.url) as nc:
        store = nc.jetstream().create_object_store(name)
        data = bytes(range(256)) * 4000
        store.put("a", data)
        reader = store.open("a")
        assert next(reader) + reader.read(10) + next(reader) + reader.read() == data
        reader = store.open("a")
        next(reader)
        reader.close()
        with pytest.raises(AlreadyEnded):
            next(reader)
        with store.watch() as watcher:
            assert next(watcher).name == "a"
            assert list(watcher.initial()) == []
