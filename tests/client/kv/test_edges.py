"""ADR-8 at its edges over a server: what is not there yet, or any more, and who gave up."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.buckets import new_bucket

from jetspark import Client, KeyValue, KeyValueConfig, StreamSource
from jetspark.errors import (
    BucketNotFound,
    MinLastSequence,
    NotSupported,
    WrongLastSequence,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def listed(kv: KeyValue, **options: Any) -> list[str]:
    pager = kv.snapshot(**options)
    return [each.key async for each in pager]


async def test_a_revision_in_the_future_cannot_be_shown(client: Connect, name: str) -> None:
    """nats-server answers a ``up_to_seq`` beyond its end with nothing, like a copy that lags."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        revision = await kv.put("a", b"1")

        assert await listed(kv, at_revision=revision) == ["a"]
        with pytest.raises(MinLastSequence, match="did not reach sequence 2"):
            await listed(kv, at_revision=revision + 1, timeout=0.7)


async def test_a_watch_does_not_resume_beyond_the_end(client: Connect, name: str) -> None:
    """Of a bucket that was created again it would pass over all changes up to the old revision."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        revision = await kv.put("a", b"1")
        with pytest.raises(MinLastSequence):
            await kv.watch(resume_from=revision + 2, timeout=0.3)

        async with await kv.watch(resume_from=revision + 1) as watcher:
            assert [each async for each in watcher.initial()] == []
            await kv.put("a", b"2")
            entry = await anext(watcher)

        assert entry.value == b"2"


async def test_reading_a_deleted_bucket_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        async with await kv.watch() as watcher:
            await watcher.ready()
            await js.delete_key_value(name)
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: kv.get("a"),
                lambda: kv.get_many(["a"]),
                lambda: kv.history("a"),
                lambda: anext(kv.keys()),
                lambda: anext(kv.snapshot()),
                kv.watch,
                lambda: kv.lock("a").acquire(),
                lambda: kv.delete("*"),
            ]
            for call in calls:
                with pytest.raises(BucketNotFound, match=name):
                    await call()


async def test_a_bucket_without_key_ttl_says_how_to_get_it(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name, allow_key_ttl=False)

        async def together() -> None:
            async with kv.transaction() as tx:
                tx.put("a", b"", ttl=5)

        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: kv.put("a", b"", ttl=5),
            lambda: kv.create("a", b"", ttl=5),
            lambda: kv.put_many({"a": b""}, ttl=5),
            lambda: kv.members("g").join("a"),
            together,
        ]
        for call in calls:
            with pytest.raises(NotSupported, match="allow_key_ttl"):
                await call()
        changed = await js.update_key_value(KeyValueConfig(bucket=name))

        assert await changed.put("a", b"", ttl=5) == 1


async def test_a_conflict_names_the_keys_it_may_be_about(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        tx = kv.transaction()
        tx.create("a", b"")
        tx.update("b", b"", 7)
        tx.put("c", b"")
        with pytest.raises(WrongLastSequence) as raised:
            await tx.commit()

        assert raised.value.__notes__ == [
            "nothing was written; expected revisions: 'a' without a value, 'b' at 7"
        ]


async def test_watches_that_were_given_up_leave_no_consumer(client: Connect, name: str) -> None:
    """nats-server may do a deletion before a creation that was sent first."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        stream = await js.stream(f"KV_{name}")
        for turns in range(120):
            task = asyncio.create_task(kv.history("a"))
            for _ in range(turns % 12):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > 1:  # creations in progress are waited for
                await asyncio.sleep(0.01)
            while (await stream.info()).state.consumer_count:
                await asyncio.sleep(0.01)


async def test_a_transaction_over_a_mirror_is_made_at_its_origin(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        origin = await new_bucket(js, name)
        mirror = await new_bucket(js, f"{name}-near", mirror=StreamSource(name=name))
        async with mirror.transaction() as tx:
            tx.create("a", b"1")
            tx.create("b", b"2")

        assert sorted(await origin.get_many(["a", "b"])) == ["a", "b"]
        assert tx.revisions == {"a": 1, "b": 2}
        stream = (await js.stream(f"KV_{name}")).config
        await js.update_stream(stream.replace(allow_atomic=False))
        with pytest.raises(NotSupported, match=f"'KV_{name}' lacks allow_atomic"):
            await put_one(mirror)
        with pytest.raises(NotSupported, match=f"'KV_{name}' lacks allow_atomic"):
            await put_one(await js.key_value(name))


async def test_the_longest_key_is_taken(client: Connect, name: str) -> None:
    """A longer one would exceed the protocol line that servers take, and end the connection."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        key = "k" * 3000
        await kv.put(key, b"1")

        assert (await kv.get(key)).value == b"1"
        assert list(await kv.get_many([key])) == [key]
        assert [each.value for each in await kv.history(key)] == [b"1"]
        assert nc.stats.reconnects == 0


async def put_one(kv: KeyValue) -> None:
    async with kv.transaction() as tx:
        tx.put("a", b"")


async def test_what_is_written_meanwhile_is_not_missing(client: Connect, name: str) -> None:
    """More keys than one answer holds, without history: what is overwritten is forgotten."""
    async with client() as nc, client() as other:
        kv = await new_bucket(nc.jetstream(), name)
        theirs = await other.jetstream().key_value(name)
        count = 1100
        await kv.put_many({f"k.{n}": b"" for n in range(count)})

        async def write() -> None:
            while True:
                await theirs.put_many({f"k.{n}": b"new" for n in range(0, count, 7)})

        writing = asyncio.create_task(write())
        sizes = [len(await listed(kv)) for _ in range(3)]
        sizes.append(len(await kv.get_many([f"k.{n}" for n in range(count)])))
        keys = [key async for key in kv.keys("k.*")]
        writing.cancel()

        assert sizes == [count] * 4
        assert len(set(keys)) == len(keys)
