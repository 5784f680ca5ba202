"""Errors say what they are about: the stream, the consumer, the field that differs."""

import pickle
from typing import Any

import pytest
from tests.client.conftest import Connect

from jetspark import StreamConfig, StreamOptions
from jetspark.errors import (
    BucketExists,
    ConsumerExists,
    ConsumerNotFound,
    StoreFailed,
    StreamExists,
    StreamFull,
    StreamNotFound,
    SubjectsOverlap,
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


async def test_a_name_in_the_place_of_settings_is_told_where_it_goes(
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
