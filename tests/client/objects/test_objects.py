"""Object stores over a server (ADR-20), and next to nats-py's (ADR-53 for the sequences)."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import nats
import nats.js.errors
import pytest
from nats.js.api import ObjectMeta, ObjectMetaOptions
from tests.support.buckets import new_store

from jetspark import Client, JetStream, ObjectStore
from jetspark.client.jetstream.objects.info import CHUNK_SIZE, encode_name
from jetspark.client.jetstream.objects.reading import SEEK_MIN
from jetspark.errors import (
    ApiError,
    BadName,
    BucketExists,
    BucketNotFound,
    DigestMismatch,
    MinLastSequence,
    NotSupported,
    ObjectExists,
    ObjectNotFound,
    ProtocolViolation,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]
LARGE = bytes(range(256)) * 4001  # a little more than seven chunks


async def names_of(store: ObjectStore, **options: Any) -> list[str]:
    pager = store.list(**options)
    return sorted([info.name async for info in pager])


async def subjects_of(js: JetStream, name: str) -> list[str]:
    info = await (await js.stream(f"OBJ_{name}")).info(subjects_filter=">")
    return sorted(info.state.subjects or {})


async def test_a_store_is_created_opened_and_deleted(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        with pytest.raises(BucketNotFound):
            await js.object_store(name)
        store = await new_store(js, name, description="files", ttl=3600, metadata={"a": "b"})
        with pytest.raises(BucketExists):
            await new_store(js, name)
        status = await store.status()
        config = (await js.stream(f"OBJ_{name}")).config

        assert config.subjects == (f"$O.{name}.C.>", f"$O.{name}.M.>")
        assert config.allow_rollup_hdrs
        assert config.allow_direct
        assert config.allow_batched
        assert (status.config.description, status.config.metadata) == ("files", {"a": "b"})
        assert (status.bucket, status.backing_store, status.sealed) == (name, "JetStream", False)
        await js.delete_object_store(name)
        with pytest.raises(BucketNotFound):
            await store.status()


@pytest.mark.parametrize("data", [b"", b"x", bytes(128 * 1024), LARGE], ids=len)
async def test_an_object_comes_back(client: Connect, name: str, data: bytes) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        put = await store.put("a file.txt", data, description="d", metadata={"k": "v"})
        info = await store.info("a file.txt")

        assert await store.get("a file.txt") == data
        assert put.seq == info.seq == put.chunks + 1
        assert (info.name, info.size, info.bucket) == ("a file.txt", len(data), name)
        assert (info.description, info.metadata) == ("d", {"k": "v"})
        assert info.chunks == -(-len(data) // (128 * 1024))
        assert info.time.timestamp() == pytest.approx(int(info.time_ns) / 1e9, abs=1e-5)


async def test_files_and_iterables_are_put(client: Connect, name: str, tmp_path: Path) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        file = tmp_path / "data"
        file.write_bytes(LARGE)

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(LARGE), 70_001):
                yield LARGE[at : at + 70_001]

        with file.open("rb") as opened:
            await store.put("file", opened)
        await store.put("list", [LARGE[:5], b"", LARGE[5:]])
        await store.put("async", pieces(), chunk_size=10_000)
        await store.put("bytes", io.BytesIO(LARGE))

        for each in ("file", "list", "async", "bytes"):
            assert await store.get(each) == LARGE
        assert (await store.info("async")).chunks == -(-len(LARGE) // 10_000)
        with pytest.raises(TypeError, match="not str"):
            await store.put("text", "text")  # type: ignore[arg-type]
        with pytest.raises(BadName):
            await store.put("", b"")


async def test_an_object_is_read_in_pieces_and_ranges(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        await store.put("a", LARGE)
        told: list[tuple[int, int]] = []
        async with await store.open("a", progress=lambda *at: told.append(at)) as reader:
            first = await reader.read(10)
            rest = b"".join([piece async for piece in reader])
        middle = await store.open("a", start=200_000, length=100_000)

        assert first + rest == LARGE
        assert told[-1] == (len(LARGE), len(LARGE))
        assert await middle.read() == LARGE[200_000:300_000]
        assert await (await store.open("a", start=len(LARGE) + 5)).read() == b""
        with pytest.raises(ValueError, match="start=-1: expected at least 0"):
            await store.open("a", start=-1)


async def test_a_missing_object_is_not_found(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        for call in (store.get("a"), store.info("a"), store.delete("a"), store.open("a")):
            with pytest.raises(ObjectNotFound):
                await call


async def test_a_replaced_object_leaves_no_chunks(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", LARGE)
        second = await store.put("a", b"new")

        assert await store.get("a") == b"new"
        assert len(await subjects_of(js, name)) == 2
        assert f"$O.{name}.C.{second.nuid}" in await subjects_of(js, name)


async def test_a_failed_put_leaves_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)

        async def broken() -> AsyncIterator[bytes]:
            yield LARGE
            raise LookupError

        with pytest.raises(LookupError):
            await store.put("a", broken())
        started = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield LARGE
            started.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(store.put("b", endless()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await names_of(store) == []
        assert await subjects_of(js, name) == []


async def test_a_stream_without_batches_is_written_pipelined(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await js.update_stream(f"OBJ_{name}", allow_batched=False)
        store = await js.object_store(name)
        await store.put("a", LARGE)

        assert await store.get("a") == LARGE


async def test_a_deleted_object_cannot_be_read(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", LARGE)
        await store.put("b", b"b")
        await store.delete("a")

        assert await names_of(store) == ["b"]
        with pytest.raises(ObjectNotFound):
            await store.get("a")
        assert not [each for each in await subjects_of(js, name) if each.count(".C.") > 1]
        again = await store.put("a", b"back")
        assert await store.get("a", min_last_seq=again.seq) == b"back"


async def test_meta_data_changes(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        await store.put("a", b"data", metadata={"x": "1"})
        await store.put("taken", b"")
        await store.update_meta("a", description="new", headers={"H": ["1", "2"]})
        changed = await store.info("a")
        with pytest.raises(ObjectExists, match="exists"):
            await store.update_meta("a", new_name="taken")
        await store.update_meta("a", new_name="b")

        assert (changed.description, changed.headers) == ("new", {"H": ["1", "2"]})
        assert changed.metadata == {"x": "1"}
        assert await store.get("b") == b"data"
        assert await names_of(store) == ["b", "taken"]


async def test_links_lead_to_objects(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store, other = await new_store(js, name), await new_store(js, f"{name}-2")
        target = await store.put("a", LARGE)
        link = await other.link("l", target)
        await other.link_bucket("all", name)

        assert await other.get("l") == LARGE
        assert (await (await other.open("l", start=5, length=3)).read()) == LARGE[5:8]
        assert link.link is not None
        assert (link.link.bucket, link.link.name) == (name, "a")
        with pytest.raises(NotSupported, match="whole store"):
            await other.get("all")
        with pytest.raises(ValueError, match="is a link itself"):
            await other.link("m", link)
        with pytest.raises(ObjectExists, match="exists"):
            await store.link("a", target)
        await store.delete("a")
        with pytest.raises(ObjectNotFound):
            await other.get("l")


async def test_a_watch_tells_of_changes(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        await store.put("a", b"1")
        async with await store.watch() as watcher:
            first = [each async for each in watcher.initial()]
            await store.put("b", b"2")
            await store.delete("a")
            later = [await anext(watcher), await anext(watcher)]
        async with await store.watch(updates_only=True, ignore_deletes=True) as updates:
            await updates.ready()
            assert await anext(updates.marked()) is None

        assert [each.name for each in first] == ["a"]
        assert [(each.name, each.deleted) for each in later] == [("b", False), ("a", True)]


async def test_a_sealed_store_is_read_only(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        await store.put("a", b"1")
        await store.seal()

        assert (await store.status()).sealed
        assert await store.get("a") == b"1"
        with pytest.raises(ApiError, match="sealed"):
            await store.put("b", b"2")


async def test_damage_is_noticed(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        info = await store.put("a", LARGE)
        await (await js.stream(f"OBJ_{name}")).delete_msg(1)
        await js.publish(f"$O.{name}.C.{info.nuid}", bytes(128 * 1024))

        with pytest.raises(DigestMismatch):
            await store.get("a")


async def test_a_sequence_that_must_be_there_is_waited_for(client: Connect, name: str) -> None:
    """ADR-53, Object Store."""
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        info = await store.put("a", b"1")

        assert await store.get("a", min_last_seq=info.seq) == b"1"
        assert await names_of(store, min_last_seq=info.seq) == ["a"]
        with pytest.raises(MinLastSequence):
            await store.info("a", min_last_seq=info.seq + 1, timeout=0.7)


SIZES = (0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE)


async def test_objects_travel_between_clients(server: Any, client: Connect, name: str) -> None:
    """ADR-20 as released clients speak it; sizes about the edges of chunks."""
    theirs = await nats.connect(server.url)
    try:
        async with client() as nc:
            ours = await new_store(nc.jetstream(), name)
            bucket = await theirs.jetstream().object_store(name)
            for size in SIZES:
                data = LARGE[:size]
                put = await ours.put(f"ours {size}", data)
                await bucket.put(f"theirs {size}", data)
                got = await bucket.get(f"ours {size}")

                assert (got.data, got.info.chunks) == (data, put.chunks)
                assert await ours.get(f"theirs {size}") == data
            assert len(await names_of(ours)) == 2 * len(SIZES)
    finally:
        await theirs.close()


async def test_what_clients_say_of_objects_is_understood(
    server: Any, client: Connect, name: str
) -> None:
    """Metadata, links, deletions and names, in both directions."""
    theirs = await nats.connect(server.url)
    try:
        async with client() as nc:
            ours = await new_store(nc.jetstream(), name)
            bucket = await theirs.jetstream().object_store(name)
            options = ObjectMetaOptions(max_chunk_size=10)
            described = ObjectMeta(
                name="t", description="d", headers={"h": ["1"]}, options=options
            )
            await bucket.put("t", b"from theirs, in chunks", meta=described)
            info = await ours.info("t")
            await ours.put("o", b"from ours", description="e", headers={"i": ["2"]}, chunk_size=4)
            seen = await bucket.get_info("o")
            await ours.link("l", info)
            linked = await bucket.get("l")

            assert (info.description, info.headers, info.chunks) == ("d", {"h": ["1"]}, 3)
            assert (seen.description, seen.headers, seen.chunks) == ("e", {"i": ["2"]}, 3)
            assert linked.data == await ours.get("t")
            await bucket.delete("t")
            with pytest.raises(ObjectNotFound):
                await ours.get("t")
            await ours.update_meta("o", new_name="p")
            with pytest.raises(nats.js.errors.ObjectNotFoundError):
                await bucket.get("o")
            assert (await bucket.get("p")).data == b"from ours"
            await bucket.update_meta("p", ObjectMeta(name="p", description="new"))
            assert (await ours.info("p")).description == "new"
            assert await names_of(ours) == ["l", "p"]
            listed = await bucket.list(ignore_deletes=True)
            assert sorted(each.name for each in listed) == ["l", "p"]
            await ours.put("t", b"again")
            assert (await bucket.get("t")).data == b"again"
    finally:
        await theirs.close()


async def test_ranges_at_every_edge(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        data = LARGE[:35]
        await store.put("a", data, chunk_size=10)
        for start in (0, 1, 9, 10, 11, 19, 20, 34, 35, 36, 1000):
            for length in (None, 0, 1, 9, 10, 11, 35, 1000):
                part = await store.open("a", start=start, length=length)
                end = None if length is None else start + length
                assert await part.read() == data[start:end], (start, length)
        assert nc.stats.subscriptions == 0


async def test_a_range_far_into_an_object_does_not_read_what_is_before_it(
    client: Connect, name: str
) -> None:
    """Chunks of other sizes, and of other objects between them, are no obstacle."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)

        async def beside() -> AsyncIterator[bytes]:
            for at in range(0, len(LARGE), 100_000):
                await js.publish(f"$O.{name}.C.other", b"x" * 77)
                yield LARGE[at : at + 100_000]

        data = LARGE * 4
        await store.put("a", data)
        await store.put("b", beside(), chunk_size=30_000)
        for start in (SEEK_MIN, 9 * CHUNK_SIZE, 9 * CHUNK_SIZE + 1):
            part = await store.open("a", start=start, length=10)
            assert await part.read() == data[start : start + 10]
        await nc.flush()  # what the server sent after the ranges
        before = nc.stats.in_bytes
        last = await store.open("a", start=len(data) - 5)
        assert await last.read() == data[-5:]

        assert nc.stats.in_bytes - before < 2 * CHUNK_SIZE
        assert await (await store.open("b", start=1_000_000)).read() == LARGE[1_000_000:]
        assert nc.stats.subscriptions == 0


@pytest.mark.parametrize(
    "meta",
    [{"nuid": ">", "size": 1}, {"nuid": "*", "size": 1}, {"nuid": "", "size": 1}, {"size": -1}],
    ids=str,
)
async def test_a_meta_message_cannot_lead_to_the_chunks_of_others(
    client: Connect, name: str, meta: dict[str, Any]
) -> None:
    """Deleting or replacing such an object would remove the data of all."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("good", LARGE)
        body = json.dumps({"name": "bad", "bucket": name, "chunks": 1} | meta).encode()
        await js.publish(f"$O.{name}.M.{encode_name('bad')}", body)

        with pytest.raises(ProtocolViolation):
            await store.get("bad")
        await store.put("bad", b"better")
        await store.delete("bad")
        assert await store.get("good") == LARGE
