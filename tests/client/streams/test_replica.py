"""Replicas in the process: current, bounded, and never stale when asked."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.buckets import new_bucket
from tests.support.chaos_proxy import ChaosProxy

from jetspark import Client, StreamConfig, connect
from jetspark.errors import (
    BucketNotFound,
    BufferFull,
    ConnectionClosed,
    KeyNotFound,
    MessageNotFound,
    StreamNotFound,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def knows_its_stream(replica: Any) -> None:
    """Wait until it can tell its stream from one that is created again."""
    source = replica._copy._source
    follow = getattr(source, "_follow", source)  # of a bucket, or of a stream
    async with asyncio.timeout(10):
        while not follow._created:
            await asyncio.sleep(0.005)


async def test_a_replica_has_what_the_bucket_has(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=3)
        await kv.put_many({f"k.{n}": b"%d" % n for n in range(500)})
        await kv.delete("k.7")
        async with await kv.replica() as replica:
            assert len(replica) == 499
            assert replica.get("k.3").value == b"3"
            assert replica.value("k.4") == b"4"
            assert replica.value("none", b"default") == b"default"
            with pytest.raises(KeyNotFound):
                replica.get("k.7")
            assert replica.items().keys() == {f"k.{n}" for n in range(500)} - {"k.7"}

            revision = await kv.put("k.3", b"new")
            await kv.purge("k.4")
            assert (await replica.get_at("k.3", revision)).value == b"new"
            assert await replica.wait_for(revision + 1)
            assert replica.value("k.4") is None
        with pytest.raises(ConnectionClosed, match="closed"):
            replica.get("k.3")


async def test_part_of_a_bucket_is_copied(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put_many({"a.1": b"1", "b.1": b"2"})
        async with await kv.replica("a.*") as replica:
            assert list(replica.items()) == ["a.1"]
            # A revision that the replica will never see is read from the server.
            revision = await kv.put("b.1", b"3")
            assert (await replica.get_at("b.1", revision, timeout=0.4)).value == b"3"
            assert not await replica.wait_for(revision, timeout=0.1)


async def test_an_empty_bucket_makes_an_empty_replica(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        async with await kv.replica() as replica:
            assert (len(replica), replica.revision, replica.memory) == (0, 0, 0)


async def test_memory_is_bounded(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put_many({f"k.{n}": bytes(1000) for n in range(100)})
        with pytest.raises(BufferFull, match="max_bytes=50000"):
            await kv.replica(max_bytes=50_000)
        replica = await kv.replica(max_bytes=200_000)
        await kv.put("large", bytes(200_000))
        with pytest.raises(BufferFull, match="raise it"):
            await replica.wait_for(200, timeout=5)
        with pytest.raises(BufferFull):
            replica.get("k.1")
        await replica.close()


async def test_values_expire_in_the_replica_too(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, ttl=60)
        await kv.put("short", b"1", ttl=1)
        await kv.put("long", b"2")
        async with await kv.replica() as replica:
            assert replica.value("short") == b"1"
            async with asyncio.timeout(5):
                while replica.value("short") is not None:
                    await asyncio.sleep(0.05)

            assert list(replica.items()) == ["long"]


async def test_a_stream_is_copied_by_subject(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
        for n in range(10):
            await js.publish(f"{name}.{n % 3}", b"%d" % n, headers={"n": str(n)})
        async with await js.replica(name) as replica:
            assert [each.data for each in replica.messages()] == [b"7", b"8", b"9"]
            assert replica.get_last(f"{name}.1").headers["n"] == "7"
            with pytest.raises(MessageNotFound):
                replica.get_last(f"{name}.none")
            ack = await js.publish(f"{name}.1", b"10")
            assert (await replica.get_last_at(f"{name}.1", ack.seq)).data == b"10"
            assert replica.seq == ack.seq


async def test_a_key_that_is_not_copied_is_asked_for_at_once(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        revision = await kv.put("b.1", b"3")
        async with await kv.replica("a.*") as replica, asyncio.timeout(2):
            # Waiting for it would take half of the timeout.
            assert (await replica.get_at("b.1", revision, timeout=60)).value == b"3"
        await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
        ack = await js.publish(f"{name}.b", b"4")
        async with await js.replica(name, subjects=[f"{name}.a"]) as part, asyncio.timeout(2):
            found = await part.get_last_at(f"{name}.b", ack.seq, timeout=60)
            assert (found.data, part.memory) == (b"4", 0)


@pytest.mark.parametrize("again", [True, False])
async def test_a_bucket_that_was_deleted_is_no_copy_of_the_one_created_again(
    server: Any, client: Connect, name: str, again: bool
) -> None:
    """Noticed when the consumer is created again: after a reconnect, or 20 s of silence."""
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(proxy.url, reconnect_wait=0.01) as nc,
        client() as other,
    ):
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put_many({"a": b"old", "b": b"old"})
        replica = await kv.replica()
        js = other.jetstream()
        revision = await kv.put("a", b"older")
        await replica.wait_for(revision)
        await knows_its_stream(replica)
        await js.delete_key_value(name)
        if again:
            anew = await new_bucket(js, name)
            for n in range(5):
                await anew.put("a", b"new %d" % n)
        proxy.cut()

        with pytest.raises(BucketNotFound) as raised:
            await replica.wait_for(100, timeout=10)
        with pytest.raises(BucketNotFound):
            replica.get("b")
        assert ("created again" in raised.value.__notes__[0]) == again
        await replica.close()


async def test_a_stream_that_was_created_again_is_another_one(
    server: Any, client: Connect, name: str
) -> None:
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(proxy.url, reconnect_wait=0.01) as nc,
        client() as other,
    ):
        config = StreamConfig(name=name, subjects=(f"{name}.>",))
        js = other.jetstream()
        await js.create_stream(config)
        await js.publish(f"{name}.a", b"old")
        async with await nc.jetstream().replica(name) as replica:
            await knows_its_stream(replica)
            await js.delete_stream(name)
            await js.create_stream(config)
            for _ in range(3):
                await js.publish(f"{name}.b", b"new")
            proxy.cut()

            with pytest.raises(StreamNotFound, match="created again while it was read"):
                await replica.wait_for(100, timeout=10)
            with pytest.raises(StreamNotFound):
                replica.get_last(f"{name}.a")


async def test_a_replica_catches_up_after_a_reconnect(
    server: Any, client: Connect, name: str
) -> None:
    """A restarted server is the same to it: `connection/test_reconnect_jetstream.py`."""
    async with (
        ChaosProxy(server.address) as proxy,
        await connect(proxy.url, reconnect_wait=0.01) as nc,
        client() as other,
    ):
        kv = await new_bucket(nc.jetstream(), name)
        theirs = await other.jetstream().key_value(name)
        await kv.put_many({f"k.{n}": b"1" for n in range(100)})
        async with await kv.replica() as replica:
            proxy.cut()
            assert replica.value("k.3") == b"1"  # reads ask no one
            await theirs.put("k.3", b"2")
            revision = await theirs.delete("k.4")

            assert await replica.wait_for(revision, timeout=10)
            assert (replica.value("k.3"), len(replica)) == (b"2", 99)
