"""Errors say what they are about: the stream, the consumer, the field that differs."""

import pickle
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any

import pytest
from tests.client.conftest import Connect

from jetspark import Base64Keys, StreamConfig, StreamOptions
from jetspark.errors import (
    BatchNotEnabled,
    BucketExists,
    BucketNotFound,
    ConsumerExists,
    ConsumerNotFound,
    MessageNotFound,
    MessageTooLarge,
    StoreFailed,
    StreamExists,
    StreamFull,
    StreamNotFound,
    SubjectsOverlap,
    WrongLastSequence,
)


async def test_what_was_not_found_is_named(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        with pytest.raises(StreamNotFound, match=f"stream '{name}': stream not found"):
            await js.stream(name)
        stream = await js.create_stream(name, subjects=[f"{name}.>"])
        with pytest.raises(ConsumerNotFound) as caught:
            await stream.consumer("c")
        assert str(caught.value).startswith(f"consumer 'c' of stream '{name}': consumer not found")
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


async def test_what_differs_from_a_stream_that_exists_is_named(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(name, subjects=[f"{name}.>"], max_age=60)
        with pytest.raises(StreamExists, match=r"max_age is 60\.0, requested 3600\.0"):
            await js.create_stream(name, subjects=[f"{name}.>"], max_age=3600)


async def test_what_differs_from_a_bucket_that_exists_is_named(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_key_value(name, history=2)
        with pytest.raises(BucketExists, match=r"configuration: history is 2, requested 5$"):
            await js.create_key_value(name, history=5)


async def test_what_differs_from_a_consumer_that_exists_is_named(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await nc.jetstream().create_stream(name, subjects=[f"{name}.>"])
        await stream.create_consumer(durable="c", ack_wait=10)
        with pytest.raises(ConsumerExists, match=r"'c' of .*: ack_wait is 10\.0, requested 20\.0"):
            await stream.create_consumer(durable="c", ack_wait=20)


async def test_what_a_server_filled_in_is_no_difference(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await nc.jetstream().create_stream(name, subjects=[f"{name}.>"])
        await stream.create_consumer(durable="c", filter_subject=f"{name}.a")
        with pytest.raises(ConsumerExists) as caught:
            await stream.create_consumer(name="c")
        assert "durable is 'c', requested ''" in str(caught.value)
        assert f"filter_subject is '{name}.a', requested ''" in str(caught.value)
        assert "ack_wait" not in str(caught.value)
        assert "max_waiting" not in str(caught.value)


async def test_a_name_in_place_of_settings_is_refused_with_where_it_belongs(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await nc.jetstream().create_stream(name, subjects=[name])
        wrong: Any = "c"
        with pytest.raises(TypeError, match=r"'c': expected .* a name is an option: durable="):
            await stream.create_consumer(wrong)


async def test_the_stream_that_overlaps_is_named(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(f"{name}A", subjects=[f"{name}.*.a"])
        expected = rf"'{name}\.>' overlaps '{name}\.\*\.a' of stream '{name}A'"
        with pytest.raises(SubjectsOverlap, match=expected):
            await js.create_stream(name, subjects=[f"{name}.>"])


async def test_a_full_stream_is_full_and_no_fault_of_the_disk(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        limits: list[StreamOptions] = [
            {"max_msgs": 1},
            {"max_bytes": 200},
            {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
        ]
        for number, limit in enumerate(limits):
            subject = f"{name}.{number}"
            settings = StreamConfig(name=f"{name}{number}", subjects=[subject], discard="new")
            await js.create_stream(settings.replace(**limit))
            await js.publish(subject, b"first")
            with pytest.raises(StreamFull, match=f"by stream '{name}{number}': maximum ") as full:
                await js.publish(subject, bytes(300))
            assert not isinstance(full.value, StoreFailed)


async def test_a_message_that_was_not_found_is_named_with_its_stream(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await nc.jetstream().create_stream(name, subjects=[name])
        with pytest.raises(MessageNotFound, match=f"stream '{name}': sequence 9 not found"):
            await stream.delete_msg(9)


async def test_a_fast_batch_that_is_refused_names_stream_and_subject(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(name, subjects=[f"{name}.a"])
        with pytest.raises(BatchNotEnabled, match=f"'{name}.a' was refused by stream '{name}'"):
            async with js.fast_publisher() as publisher:
                await publisher.publish(f"{name}.a", b"x")


async def test_errors_of_a_bucket_name_the_key_as_it_was_written(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_key_value(name, max_value_size=200)
        kv = await js.key_value(name, key_codec=Base64Keys())
        about = f"key 'a b' of bucket '{name}': "
        with pytest.raises(WrongLastSequence, match=about):
            await kv.update("a b", b"1", 7)
        with pytest.raises(MessageTooLarge, match=about):
            await kv.put("a b", bytes(500))
        with pytest.raises(MessageTooLarge, match=about):
            await kv.create("a b", bytes(500))
        wrong: Any = "text"
        with pytest.raises(TypeError, match="value must be bytes, not str"):
            await kv.put("a b", wrong)
        await kv.put("a b", b"1")
        with pytest.raises(LookupError) as missing:
            await kv.get("a b", revision=99)
        assert missing.value.__notes__ == ["99 is not a revision of this key"]


async def test_every_call_on_a_deleted_bucket_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream(publish_retries=0)
        kv = await js.create_key_value(name)
        store = await js.create_object_store(name)
        info = await store.put("a", b"1")
        await js.delete_key_value(name)
        await js.delete_object_store(name)

        async def transaction() -> None:
            async with kv.transaction() as tx:
                tx.put("a", b"1")
                tx.put("b", b"1")

        async def listed(items: AsyncIterable[object]) -> None:
            async for _ in items:
                pass

        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "put": lambda: kv.put("a", b"1"),
            "create": lambda: kv.create("a", b"1"),
            "delete": lambda: kv.delete("a"),
            "put_many": lambda: kv.put_many({"a": b"1", "b": b"2"}),
            "transaction": transaction,
            "get of a store": lambda: store.get("a"),
            "put into a store": lambda: store.put("a", b"1"),
            "delete in a store": lambda: store.delete("a"),
            "watch of a store": store.watch,
            "list of a store": lambda: listed(store.list()),
            "rename": lambda: store.update_meta("a", new_name="b"),
            "link": lambda: store.link("b", info),
            "purge_orphans": store.purge_orphans,
            "seal": store.seal,
        }
        heard = {}
        for call, function in calls.items():
            try:
                await function()
                heard[call] = "nothing"
            except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
                heard[call] = str(error) if isinstance(error, BucketNotFound) else repr(error)
        assert heard == dict.fromkeys(calls, f"bucket '{name}' not found")
