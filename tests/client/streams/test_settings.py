"""Settings said directly, on both servers: create, change what is named, read back."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest
from tests.support.servers import ServerProcess

from jetspark import (
    AckPolicy,
    Client,
    ConsumerConfig,
    KeyValueConfig,
    ObjectStoreConfig,
    Retention,
    Storage,
    StreamConfig,
    sync,
)
from jetspark.errors import ApiError, ConsumerNotFound, StreamNotFound

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def test_a_stream_is_made_and_changed_by_its_settings(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(
            name,
            subjects=[f"{name}.>"],
            max_age=3600,
            duplicate_window=timedelta(minutes=1),
            retention="workqueue",
            storage="memory",
            metadata={"team": "a"},
        )
        before = stream.config
        assert (before.max_age, before.duplicate_window) == (3600, 60)
        assert before.retention is Retention.WORKQUEUE
        assert before.storage is Storage.MEMORY

        info = await stream.update(max_msgs=5)
        assert info.config.max_msgs == stream.config.max_msgs == 5
        assert info.config.replace(max_msgs=-1, metadata={}) == before.replace(metadata={})
        assert info.config.metadata["team"] == "a"

        again = await js.update_stream(name, max_age=timedelta(hours=2))
        assert (again.config.max_age, again.config.max_msgs) == (7200, 5)
        assert (await js.create_or_update_stream(name, max_msgs=6)).config.max_age == 7200
        whole = await js.update_stream(
            StreamConfig(name, subjects=[name], retention="workqueue", storage="memory"),
            max_msgs=7,
        )
        assert (whole.config.max_age, whole.config.max_msgs) == (0, 7)
        with pytest.raises(StreamNotFound):
            await js.update_stream(f"{name}-2", max_msgs=5)
        with pytest.raises(ApiError):
            await stream.update(storage="file")
        await js.delete_stream(name)
        with pytest.raises(StreamNotFound):
            await stream.update(max_msgs=1)


async def test_what_a_server_said_is_taken_back_without_a_change(
    client: Connect, name: str
) -> None:
    """Nanoseconds that no float of seconds holds."""
    odd = 200 * 86_400 + 1 / 3
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, max_age=odd, subjects=[name])
        consumer = await stream.create_consumer(durable="w", ack_wait=odd, backoff=[odd, 1 / 3])
        read, found = stream.config, consumer.config

        assert (await js.update_stream(read)).config == read
        assert (await stream.update(description="x")).config.max_age == read.max_age
        assert (await stream.update_consumer(found)).config == found
        assert (await js.create_stream(read.replace(name=f"{name}-2", subjects=[]))).config.max_age


async def test_a_consumer_is_made_and_changed_by_its_settings(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, subjects=[name])
        consumer = await js.create_consumer(name, durable="w", ack_wait=30, filter_subject=name)
        assert consumer.config.ack_policy is AckPolicy.EXPLICIT
        assert consumer.config.ack_wait == 30

        before = consumer.config
        info = await consumer.update(max_ack_pending=7, ack_wait=timedelta(seconds=5))
        assert (info.config.max_ack_pending, consumer.config.ack_wait) == (7, 5)
        kept = before.replace(max_ack_pending=7, ack_wait=5, metadata={})
        assert info.config.replace(metadata={}) == kept
        again = await stream.update_consumer("w", max_deliver=3)
        assert (again.config.max_deliver, again.config.max_ack_pending) == (3, 7)
        assert (await js.consumer(name, "w")).config.max_deliver == 3
        with pytest.raises(ConsumerNotFound):
            await stream.update_consumer("x", max_deliver=3)

        await js.publish(name, b"1")
        silent = await stream.create_consumer(ConsumerConfig(name="n"), ack_policy="none")
        assert silent.config.ack_policy is AckPolicy.NONE
        ordered = stream.ordered_consumer(filter_subject=name)
        assert [each.data for each in await ordered.fetch(1)] == [b"1"]
        await ordered.close()


async def test_an_unacknowledged_message_waits_for_seconds(client: Connect, name: str) -> None:
    """ack_wait=30 was 30 nanoseconds once: the message came thousands of times a second."""
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(name, subjects=[name])
        consumer = await js.create_consumer(name, durable="w", ack_wait=30)
        await js.publish(name, b"1")

        assert len(await consumer.fetch(5, timeout=0.5)) == 1
        info = await consumer.info()
        assert (info.num_ack_pending, info.num_redelivered) == (1, 0)


async def test_buckets_are_made_and_changed_by_their_settings(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        bucket = await js.create_key_value(name, history=5, ttl=3600, storage="memory")
        status = await bucket.status()
        assert (status.history, status.ttl) == (5, 3600)
        changed = await js.update_key_value(name, history=7)
        config = (await changed.status()).config
        assert (config.history, config.ttl, config.storage) == (7, 3600, Storage.MEMORY)
        whole = KeyValueConfig(name, history=7, storage="memory")
        assert (await (await js.update_key_value(whole)).status()).ttl == 0
        assert (await js.create_or_update_key_value(f"{name}-2", history=2)).bucket == f"{name}-2"
        mirror = await js.create_key_value(f"{name}-m", mirror=name)
        assert (await mirror.status()).is_read_only

        store = await js.create_object_store(name, ttl=timedelta(hours=1), description="files")
        kept = (await store.status()).config
        assert (kept.ttl, kept.description) == (3600, "files")
        other = await js.create_object_store(ObjectStoreConfig(f"{name}-2"), compression=True)
        assert (await other.status()).config.compression


def test_the_blocking_twins_take_settings_too(server: ServerProcess, name: str) -> None:
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name, subjects=[name], max_age=timedelta(hours=1))
        assert stream.update(max_msgs=5).config.max_age == 3600
        consumer = js.create_consumer(name, durable="w", ack_wait=30)
        assert consumer.update(ack_wait=31).config.ack_wait == consumer.config.ack_wait == 31
        assert js.create_key_value(name, history=3).status().history == 3
        assert repr(stream) == f"Stream({name!r})"


async def test_consumers_are_managed_by_the_name_of_their_stream(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(name, subjects=[name])
        await js.create_or_update_consumer(name, durable="c", ack_wait=10)
        await js.create_or_update_consumer(name, durable="c", ack_wait=20)
        before = nc.stats.out_msgs
        changed = await js.update_consumer(name, "c", max_ack_pending=5)
        assert nc.stats.out_msgs - before == 2  # read and written
        assert (changed.config.ack_wait, changed.config.max_ack_pending) == (20, 5)
        whole = await js.update_consumer(name, changed.config.replace(ack_wait=30))
        assert (whole.config.ack_wait, whole.config.max_ack_pending) == (30, 5)
        await js.delete_consumer(name, "c")
        assert [each async for each in stream.consumer_names()] == []
        with pytest.raises(ConsumerNotFound, match=f"'c' of stream '{name}'"):
            await js.update_consumer(name, "c", ack_wait=1)
        await stream.delete()
        with pytest.raises(StreamNotFound, match=name):
            await stream.delete()


async def test_buckets_and_stores_have_the_same_calls(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        for _ in range(2):
            await js.create_or_update_key_value(name, history=3)
            await js.create_or_update_object_store(name, max_bytes=1_000_000)
        found = {each.bucket: each.config.history async for each in js.key_values()}
        assert found[name] == 3
        stores = {each.bucket: each.config.max_bytes async for each in js.object_stores()}
        assert stores[name] == 1_000_000
