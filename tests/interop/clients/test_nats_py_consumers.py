"""nats-py reads streams, buckets and object stores of ours, with restarts in between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    KeyValueConfig,
    ObjectMeta,
    RetentionPolicy,
    StreamConfig,
)
from nats.js.kv import KeyValue
from tests.interop.clients.nats_py_client import PATIENCE_S, Watch, connected, patiently
from tests.interop.clients.restarts import Restarted

COUNT = 200


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Restarted, Client, Watch]]:
    """A server, and a client that comes back on its own."""
    watch = Watch()
    async with (
        Restarted(folder / "store") as server,
        connected(server.url, watch, allow_reconnect=True) as client,
    ):
        yield server, client, watch


async def restart(server: Restarted, watch: Watch) -> None:
    watch.reconnected.clear()
    await server.restart()
    await patiently(watch.reconnected.wait())


async def filled(client: Client, count: int = COUNT, **config: Any) -> JetStreamContext:
    """A stream with messages that say which they are."""
    js = client.jetstream(timeout=PATIENCE_S)
    await js.add_stream(StreamConfig(name="S", subjects=["s.>"], **config))
    await put(js, 0, count)
    return js


async def put(js: JetStreamContext, first: int, last: int) -> None:
    for number in range(first, last):
        await js.publish(f"s.{number % 3}", str(number).encode())


def numbers(messages: list[Msg]) -> list[int]:
    return [int(message.data) for message in messages]


async def received(subscription: Any, count: int) -> list[Msg]:
    return [await subscription.next_msg(timeout=PATIENCE_S) for _ in range(count)]


# Pull --------------------------------------------------------------------------------------------


async def test_fetch_and_ack_continues_where_it_was_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client, watch):
        js = await filled(client)
        puller = await js.pull_subscribe("s.>", "durable")
        first = await puller.fetch(50, timeout=PATIENCE_S)
        for message in first:
            await message.ack_sync(timeout=PATIENCE_S)
        await restart(server, watch)
        rest: list[Msg] = []
        while len(rest) < COUNT - 50:
            batch = await puller.fetch(64, timeout=2)
            for message in batch:
                await message.ack()
            rest += batch
        info = await puller.consumer_info()

    assert numbers(first) + numbers(rest) == list(range(COUNT))
    assert info.num_pending == 0


async def test_what_was_not_acknowledged_comes_again_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client, watch):
        js = await filled(client, 10)
        config = ConsumerConfig(ack_wait=1)
        puller = await js.pull_subscribe("s.>", "durable", config=config)
        first = await puller.fetch(10, timeout=PATIENCE_S)
        for message in first[::2]:
            await message.ack_sync(timeout=PATIENCE_S)
        await restart(server, watch)
        again = await puller.fetch(5, timeout=PATIENCE_S)

    assert numbers(again) == numbers(first[1::2])
    assert all(message.metadata.num_delivered == 2 for message in again)


async def test_metadata_and_naks_and_terms(tmp_path: Path) -> None:
    async with served(tmp_path) as (_server, client, _watch):
        js = await filled(client, 3)
        puller = await js.pull_subscribe("s.>", "durable")
        first, second, third = await puller.fetch(3, timeout=PATIENCE_S)
        await first.nak()
        await second.term()
        await third.in_progress()
        (again,) = await puller.fetch(1, timeout=PATIENCE_S)
        await again.ack_sync(timeout=PATIENCE_S)
        await third.ack_sync(timeout=PATIENCE_S)
        info = await puller.consumer_info()

    assert (first.metadata.sequence.stream, first.metadata.num_pending) == (1, 2)
    assert (again.metadata.sequence.stream, again.metadata.num_delivered) == (1, 2)
    assert (info.num_ack_pending, info.num_pending) == (0, 0)
    assert info.ack_floor is not None
    assert info.ack_floor.stream_seq == 3


async def test_a_fetch_that_gets_nothing_times_out_and_a_late_message_arrives(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (_server, client, _watch):
        js = await filled(client, 0)
        puller = await js.pull_subscribe("s.>", "durable")
        with pytest.raises(nats.errors.TimeoutError):
            await puller.fetch(1, timeout=0.2)
        waiting = asyncio.create_task(puller.fetch(1, timeout=PATIENCE_S))
        await asyncio.sleep(0.05)
        await put(js, 7, 8)

        assert numbers(await waiting) == [7]


async def test_work_is_shared_and_taken_out_of_a_work_queue(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client, watch):
        js = await filled(client, 60, retention=RetentionPolicy.WORK_QUEUE)
        workers = [await js.pull_subscribe("s.>", "workers") for _ in range(3)]
        done: list[int] = []
        for _ in range(2):
            for worker in workers:
                for message in await worker.fetch(10, timeout=PATIENCE_S):
                    await message.ack_sync(timeout=PATIENCE_S)
                    done += numbers([message])
            if len(done) == 30:
                await restart(server, watch)
        info = await js.stream_info("S")

    assert sorted(done) == list(range(60))
    assert info.state.messages == 0


# Push --------------------------------------------------------------------------------------------


async def test_push_delivers_history_and_new_messages_and_continues_after_a_restart(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (server, client, watch):
        js = await filled(client, 20)
        subscription = await js.subscribe("s.>", durable="pushed", manual_ack=True)
        got = await received(subscription, 20)
        for message in got:
            await message.ack_sync(timeout=PATIENCE_S)
        await restart(server, watch)
        await put(js, 20, 40)
        more = await received(subscription, 20)

    assert numbers(got) + numbers(more) == list(range(40))


async def test_a_queue_shares_a_push_consumer(tmp_path: Path) -> None:
    async with served(tmp_path) as (_server, client, _watch):
        js = await filled(client, 0)
        seen: list[list[int]] = [[], [], []]
        done = asyncio.Event()

        def taker(number: int) -> Any:
            async def take(message: Msg) -> None:
                seen[number].append(int(message.data))
                if sum(map(len, seen)) == 90:
                    done.set()

            return take

        for number in range(3):
            await js.subscribe("s.>", queue="shared", cb=taker(number))
        await put(js, 0, 90)
        await patiently(done.wait())

    assert sorted(itertools.chain(*seen)) == list(range(90))
    assert all(seen)


async def test_an_ordered_consumer_gets_everything_in_order_through_a_restart(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (server, client, watch):
        js = await filled(client, 50)
        subscription = await js.subscribe(
            "s.>", ordered_consumer=True, idle_heartbeat=0.5, flow_control=True
        )
        first = await received(subscription, 50)
        await restart(server, watch)
        await put(js, 50, 80)
        rest = await received(subscription, 30)

    assert numbers(first) + numbers(rest) == list(range(80))


async def test_flow_control_lets_a_large_stream_through(tmp_path: Path) -> None:
    async with served(tmp_path) as (_server, client, _watch):
        js = client.jetstream(timeout=PATIENCE_S)
        await js.add_stream(StreamConfig(name="S", subjects=["s.>"]))
        payload = b"x" * 100_000
        for _ in range(80):
            await js.publish("s.a", payload)
        subscription = await js.subscribe(
            "s.>", ordered_consumer=True, idle_heartbeat=1, flow_control=True
        )
        got = await received(subscription, 80)

    assert [message.metadata.sequence.stream for message in got] == list(range(1, 81))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (DeliverPolicy.ALL, list(range(9))),
        (DeliverPolicy.LAST, [8]),
        (DeliverPolicy.NEW, []),
        (DeliverPolicy.LAST_PER_SUBJECT, [6, 7, 8]),
    ],
)
async def test_deliver_policies(
    tmp_path: Path, policy: DeliverPolicy, expected: list[int]
) -> None:
    async with served(tmp_path) as (_server, client, _watch):
        js = await filled(client, 9)
        subscription = await js.subscribe("s.>", deliver_policy=policy, ordered_consumer=True)
        await put(js, 9, 10)
        got = await received(subscription, len(expected) + 1)

    assert numbers(got) == [*expected, 9]


# Consumers ---------------------------------------------------------------------------------------


async def test_consumers_are_made_listed_paused_and_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client, watch):
        js = await filled(client, 3)
        for name in ("b", "a", "c"):
            await js.add_consumer(
                "S", ConsumerConfig(durable_name=name, ack_policy=AckPolicy.EXPLICIT)
            )
        await restart(server, watch)
        listed = [info.name for info in await js.consumers_info("S")]
        paused = await js.pause_consumer("S", "a", "2099-01-01T00:00:00Z")
        held = (await js.consumer_info("S", "a")).paused
        resumed = await js.resume_consumer("S", "a")
        deleted = await js.delete_consumer("S", "b")
        with pytest.raises(nats.js.errors.NotFoundError):
            await js.consumer_info("S", "b")

    assert listed == ["a", "b", "c"]
    assert (paused.paused, held, resumed.paused, deleted) == (True, True, False, True)


# Buckets -----------------------------------------------------------------------------------------


async def watched(watcher: Any, count: int) -> list[str]:
    """The next updates of a watcher; nothing is the end of what existed at the start."""
    found = []
    for _ in range(count):
        entry = await watcher.updates(timeout=PATIENCE_S)
        found.append(
            "-" if entry is None else f"{entry.key}={entry.operation or entry.value.decode()}"
        )
    return found


async def test_keys_history_and_watch_of_a_bucket_through_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client, watch):
        js = client.jetstream(timeout=PATIENCE_S)
        kv = await js.create_key_value(KeyValueConfig(bucket="b", history=5))
        for value in (b"1", b"2"):
            await kv.put("x", value)
            await kv.put("y", value)
        await kv.delete("y")
        watcher = await kv.watchall()
        first = await watched(watcher, 3)
        await watcher.stop()  # type: ignore[no-untyped-call]
        await restart(server, watch)
        watcher = await kv.watchall()
        again = await watched(watcher, 3)
        await kv.put("z", b"9")
        await kv.put("x", b"3")
        after = await watched(watcher, 2)
        keys = await kv.keys()
        history = [entry.value for entry in await kv.history("x")]
        await watcher.stop()  # type: ignore[no-untyped-call]

    assert first == again == ["x=2", "y=DEL", "-"]
    assert after == ["z=9", "x=3"]
    assert sorted(keys) == ["x", "z"]
    assert history == [b"1", b"2", b"3"]


async def test_an_empty_bucket_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as (_server, client, _watch):
        js = client.jetstream(timeout=PATIENCE_S)
        kv: KeyValue = await js.create_key_value(KeyValueConfig(bucket="b"))
        watcher = await kv.watchall()
        with pytest.raises(nats.js.errors.NoKeysError):
            await kv.keys()

        assert await watched(watcher, 1) == ["-"]


# Objects -----------------------------------------------------------------------------------------


async def test_objects_are_stored_read_listed_and_watched_through_a_restart(
    tmp_path: Path,
) -> None:
    large = bytes(range(256)) * 4096
    async with served(tmp_path) as (server, client, watch):
        js = client.jetstream(timeout=PATIENCE_S)
        store = await js.create_object_store("o")
        await store.put("large", large, meta=ObjectMeta(description="a megabyte"))
        await store.put("small", b"tiny")
        await restart(server, watch)
        read = await store.get("large")
        listed = sorted(info.name for info in await store.list())
        watcher = await store.watch()
        seen = [
            await watcher.updates(timeout=PATIENCE_S)  # type: ignore[no-untyped-call]
            for _ in range(3)
        ]
        await store.delete("small")
        with pytest.raises(nats.js.errors.ObjectNotFoundError):
            await store.get("small")

    assert read.data == large
    assert read.info.description == "a megabyte"
    assert listed == ["large", "small"]
    assert [info and info.name for info in seen] == ["large", "small", None]
