"""ADR-53, "Note about testing": consumers that ask for a sequence that is not there yet.

Single gets: test_scan.py; many at once: test_last_many.py; copies that lag:
test_late_follower.py. On a server without ADR-53 the client keeps the promise (decisions.md).
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.chaos_proxy import ChaosProxy
from tests.support.every_call import listed
from tests.support.servers import ServerProcess

from jetspark import (
    AckPolicy,
    Client,
    ConsumerConfig,
    JetStream,
    KeyValueConfig,
    ObjectStoreConfig,
    Server,
    Stream,
    StreamConfig,
    connect,
)
from jetspark.errors import MinLastSequence

Connect = Callable[..., AbstractAsyncContextManager[Client]]
T = TypeVar("T")

EARLY = 0.15  # seconds in which nothing may come


async def filled(js: JetStream, name: str) -> Stream:
    stream = await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",)))
    await js.publish(f"{name}.a", b"1")
    return stream


async def not_before(
    reading: Coroutine[Any, Any, T], write: Callable[[], Coroutine[Any, Any, object]]
) -> T:
    """What ``reading`` gives; it must wait for ``write``."""
    task = asyncio.ensure_future(reading)
    early, _ = await asyncio.wait([task], timeout=EARLY)
    assert not early, task
    await write()
    return await task


async def test_a_consumer_delivers_nothing_before_its_sequence_is_reached(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name)

        async def read() -> list[bytes]:
            config = ConsumerConfig(durable="d", ack_policy=AckPolicy.EXPLICIT, min_last_seq=2)
            consumer = await stream.create_consumer(config)
            return [message.data for message in await consumer.fetch(2)]

        found = await not_before(read(), lambda: js.publish(f"{name}.a", b"2"))

        assert found == [b"1", b"2"]


@pytest.mark.parametrize("push", [False, True], ids=["pull", "push"])
async def test_an_ordered_consumer_delivers_nothing_before_its_sequence_is_reached(
    client: Connect, name: str, push: bool
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name)

        async def read() -> list[bytes]:
            config = ConsumerConfig(min_last_seq=2)
            async with stream.ordered_consumer(config, push=push) as consumer:
                return [message.data for message in await consumer.fetch(2)]

        found = await not_before(read(), lambda: js.publish(f"{name}.a", b"2"))

        assert found == [b"1", b"2"]


async def test_keys_history_and_watches_wait_for_their_revision(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        kv = await nc.jetstream().create_key_value(KeyValueConfig(bucket=name, history=5))

        async def keys() -> list[str]:
            return [key async for key in kv.keys(min_last_revision=1)]

        async def history() -> list[bytes]:
            return [entry.value for entry in await kv.history("a", min_last_revision=2)]

        async def watched() -> list[str]:
            async with await kv.watch(min_last_revision=3) as watcher:
                return [entry.key async for entry in watcher.initial()]

        # The bucket is empty: without the revision the answer would be no keys at all.
        assert await not_before(keys(), lambda: kv.put("a", b"1")) == ["a"]
        assert await not_before(history(), lambda: kv.put("a", b"2")) == [b"1", b"2"]
        assert await not_before(watched(), lambda: kv.put("b", b"3")) == ["a", "b"]


async def test_objects_wait_for_their_sequence(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await nc.jetstream().create_object_store(ObjectStoreConfig(bucket=name))

        async def listed() -> list[str]:
            return [info.name async for info in store.list(min_last_seq=2)]

        async def got() -> bytes:
            return await store.get("b", min_last_seq=4)

        # A chunk and the meta message each.
        assert await not_before(listed(), lambda: store.put("a", b"1")) == ["a"]
        assert await not_before(got(), lambda: store.put("b", b"2")) == b"2"


async def test_what_a_watch_tells_can_be_read_with_its_sequence(
    client: Connect, name: str
) -> None:
    """ADR-53, Object Store, the example."""
    async with client() as nc, client() as other:
        store = await nc.jetstream().create_object_store(ObjectStoreConfig(bucket=name))
        theirs = await other.jetstream().object_store(name)
        async with await theirs.watch() as watcher:
            await watcher.ready()
            put = await store.put("file", b"data")
            info = await anext(watcher)
            assert info is not None

            assert info.seq == put.seq
            assert await theirs.get(info.name, min_last_seq=info.seq) == b"data"


async def test_requests_are_those_of_the_document(client: Connect, name: str) -> None:
    """ADR-53, "Message read requests": the two requests of the example."""
    async with client() as nc, client() as watcher:
        js = nc.jetstream()
        stream = await js.create_stream(
            StreamConfig(name=name, subjects=(f"{name}.foo",), allow_direct=True)
        )
        ack = await js.publish(f"{name}.foo")
        seen = await watcher.subscribe(f"$JS.API.DIRECT.GET.{name}.>")
        plain = await watcher.subscribe(f"$JS.API.DIRECT.GET.{name}")
        await watcher.flush()
        await stream.get_msg(seq=ack.seq, min_last_seq=ack.seq)
        await stream.get_msg(last_by_subject=f"{name}.foo", min_last_seq=ack.seq)
        by_seq, last = await plain.next(), await seen.next()

        assert by_seq.data == b'{"seq":1,"min_last_seq":1}'
        assert last.subject == f"$JS.API.DIRECT.GET.{name}.{name}.foo"
        assert last.data == b'{"min_last_seq":1}'


async def test_what_a_handle_wrote_or_saw_is_asked_for(client: Connect, name: str) -> None:
    """It remembers the highest sequence it wrote or saw, in whatever way."""
    async with client() as nc, client() as other:
        theirs = other.jetstream()
        await theirs.create_stream(
            StreamConfig(
                name=name,
                subjects=(f"{name}.>",),
                allow_direct=True,
                allow_atomic=True,
                allow_batched=True,
            )
        )
        js = nc.jetstream(read_after_write=True)
        mine = await js.stream(name)
        known: list[int] = []

        def note() -> None:
            known.append(js._high_water.wanted(name))

        await js.publish(f"{name}.a")
        note()
        async with js.atomic_batch() as batch:
            batch.add(f"{name}.a")
            batch.add(f"{name}.b")
        note()
        async with js.fast_publisher() as fast:
            await fast.publish(f"{name}.a")
        note()
        await (await js.publish_async(f"{name}.a"))
        note()
        await theirs.publish(f"{name}.a")
        assert [m.seq async for m in mine.get_last_many([f"{name}.a"])] == [6]
        note()
        await theirs.publish(f"{name}.a")
        async for _ in mine.scan():
            note()
        await theirs.publish(f"{name}.a")
        assert len([m async for m in mine.get_batch()]) == 8
        note()

        assert known == [1, 3, 4, 5, 6, 7, 8]
        await js.delete_stream(name)
        assert js._high_water.wanted(name) == 0


async def test_what_a_watch_saw_is_asked_for(client: Connect, name: str) -> None:
    """ADR-53, "Monotonic reads"."""
    async with client() as nc, client() as other:
        js = nc.jetstream(read_after_write=True)
        kv = await js.create_key_value(KeyValueConfig(bucket=name))
        theirs = await other.jetstream().key_value(name)
        seen = await other.subscribe(f"$JS.API.DIRECT.GET.KV_{name}.>")
        async with await kv.watch() as watcher:
            await watcher.ready()
            revision = await theirs.put("a", b"1")
            await anext(watcher)
        await kv.get("a")
        asked = await seen.next()
        await js.delete_key_value(name)
        again = await js.create_key_value(KeyValueConfig(bucket=name))

        assert asked.data == b'{"min_last_seq":%d}' % revision
        # A bucket created again begins at 1 again.
        assert await again.put("a", b"2") == 1
        assert (await again.get("a")).value == b"2"


async def test_a_handle_is_monotonic_over_reconnects(
    server: ServerProcess, client: Connect, name: str
) -> None:
    async with client() as watching, ChaosProxy(server.address) as proxy:
        back = asyncio.Event()
        async with await connect(
            proxy.url, reconnect_wait=0.01, reconnected_callback=lambda _: back.set()
        ) as nc:
            js = nc.jetstream(read_after_write=True)
            kv = await js.create_key_value(KeyValueConfig(bucket=name))
            revision = await kv.put("a", b"1")
            seen = await watching.subscribe(f"$JS.API.DIRECT.GET.KV_{name}.>")
            await watching.flush()
            proxy.cut()
            await asyncio.wait_for(back.wait(), 10)
            await kv.get("a")

            assert (await seen.next()).data == b'{"min_last_seq":%d}' % revision


async def test_a_stream_that_was_created_again_can_be_read_once_it_is_opened_again(
    client: Connect, name: str
) -> None:
    async with client() as nc, client() as other:
        js = nc.jetstream(read_after_write=True)
        kv = await js.create_key_value(KeyValueConfig(bucket=name))
        for n in range(5):
            await kv.put("k", b"%d" % n)
        theirs = other.jetstream()
        await theirs.delete_key_value(name)
        await (await theirs.create_key_value(KeyValueConfig(bucket=name))).put("k", b"new")

        with pytest.raises(MinLastSequence) as raised:
            await kv.get("k", timeout=0.8)
        assert "open it again" in raised.value.__notes__[0]
        assert (await (await js.key_value(name)).get("k")).value == b"new"


@pytest.mark.parametrize("direct", [True, False])
async def test_a_stream_that_lags_is_distinguished_from_silence(
    tmp_path: Path, direct: bool
) -> None:
    """Also when the caller has less time than a server holds such reads back."""
    async with (
        Server(store_dir=str(tmp_path), min_last_seq_wait="5m") as server,
        server.connect(timeout=2) as nc,
    ):
        js = nc.jetstream()
        stream = await js.create_stream("S", subjects=["s"], allow_direct=direct)
        await js.publish("s")
        kv = await js.create_key_value("b")
        await kv.put("a", b"1")
        reads: list[Coroutine[Any, Any, object]] = [
            stream.get_msg(seq=1, min_last_seq=99),
            listed(stream.get_batch(seq=1, min_last_seq=99)),
            listed(stream.get_last_many(["s"], min_last_seq=99)),
            kv.get("a", min_last_revision=99),
            kv.get_many(["a"], min_last_revision=99),
            listed(kv.snapshot(at_revision=99)),
        ]
        ended = await asyncio.gather(*reads, return_exceptions=True)

    assert {type(error) for error in ended} == {MinLastSequence}
