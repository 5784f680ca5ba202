"""What is of a wrong type or size is refused by name in every call, before anything is sent."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import Connect

import jetspark
from jetspark import Client, Consumer, JetStream, KeyValue, ObjectStore, Stream


class Handles:
    """One of every kind."""

    nc: Client
    js: JetStream
    stream: Stream
    consumer: Consumer
    kv: KeyValue
    store: ObjectStore
    folder: Path


@contextlib.asynccontextmanager
async def handles_of(client: Connect, name: str, tmp_path: Path) -> AsyncIterator[Handles]:
    made = Handles()
    async with client() as nc:
        made.nc, made.js, made.folder = nc, nc.jetstream(), tmp_path
        made.stream = await made.js.create_stream(name, subjects=[name], allow_direct=True)
        made.consumer = await made.stream.create_consumer(durable="d")
        made.kv = await made.js.create_key_value(name)
        made.store = await made.js.create_object_store(name)
        yield made


NAMED: Any = {}
Call = Callable[[Handles, Any], Any]
NUMBERS: dict[str, tuple[str, Call]] = {
    "request_many": ("limit", lambda h, bad: h.nc.request_many("a", limit=bad)),
    "jetstream, retries": ("publish_retries", lambda h, bad: h.nc.jetstream(publish_retries=bad)),
    "jetstream, max": ("publish_async_max", lambda h, bad: h.nc.jetstream(publish_async_max=bad)),
    "atomic_batch": ("max_messages", lambda h, bad: h.js.atomic_batch(max_messages=bad)),
    "fast_publisher, flow": ("flow", lambda h, bad: h.js.fast_publisher(flow=bad)),
    "fast_publisher, bytes": ("flow_bytes", lambda h, bad: h.js.fast_publisher(flow_bytes=bad)),
    "fast_publisher, acks": (
        "max_outstanding_acks",
        lambda h, bad: h.js.fast_publisher(max_outstanding_acks=bad),
    ),
    "js.replica": ("max_bytes", lambda h, bad: h.js.replica("S", max_bytes=bad)),
    "purge, seq": ("seq", lambda h, bad: h.stream.purge(seq=bad)),
    "purge, keep": ("keep", lambda h, bad: h.stream.purge(keep=bad)),
    "delete_msg": ("seq", lambda h, bad: h.stream.delete_msg(bad)),
    "get_msg": ("seq", lambda h, bad: h.stream.get_msg(seq=bad)),
    "get_msg, min": ("min_last_seq", lambda h, bad: h.stream.get_msg(seq=1, min_last_seq=bad)),
    "get_batch": ("limit", lambda h, bad: h.stream.get_batch(seq=1, limit=bad)),
    "get_batch, page": ("batch", lambda h, bad: h.stream.get_batch(seq=1, batch=bad)),
    "get_last_many": ("up_to_seq", lambda h, bad: h.stream.get_last_many(["a"], up_to_seq=bad)),
    "scan": ("first", lambda h, bad: anext(h.stream.scan(bad))),
    "fetch": ("batch", lambda h, bad: h.consumer.fetch(bad)),
    "fetch, bytes": ("max_bytes", lambda h, bad: h.consumer.fetch(1, max_bytes=bad)),
    "messages": ("prefetch", lambda h, bad: h.consumer.messages(prefetch=bad)),
    "consume": ("prefetch", lambda h, bad: h.consumer.consume(print, prefetch=bad)),
    "ordered": ("batch", lambda h, bad: h.stream.ordered_consumer().fetch(bad)),
    "reset": ("seq", lambda h, bad: h.consumer.reset(bad)),
    "explain": ("seq", lambda h, bad: h.consumer.explain(bad)),
    "kv.get": ("revision", lambda h, bad: h.kv.get("a", revision=bad)),
    "kv.get_many": ("at_revision", lambda h, bad: h.kv.get_many(["a"], at_revision=bad)),
    "kv.snapshot": ("at_revision", lambda h, bad: h.kv.snapshot(at_revision=bad)),
    "kv.update": ("last", lambda h, bad: h.kv.update("a", b"", bad)),
    "kv.delete": ("last", lambda h, bad: h.kv.delete("a", last=bad)),
    "kv.watch": ("resume_from", lambda h, bad: h.kv.watch(resume_from=bad)),
    "kv.replica": ("max_bytes", lambda h, bad: h.kv.replica(max_bytes=bad)),
    "transaction": ("last", lambda h, bad: h.kv.transaction().update("a", b"", bad)),
    "store.open": ("start", lambda h, bad: h.store.open("a", start=bad)),
    "store.put": ("chunk_size", lambda h, bad: h.store.put("a", b"", chunk_size=bad)),
    "store.get": ("min_last_seq", lambda h, bad: h.store.get("a", min_last_seq=bad)),
}
# Where None says that nothing was asked for.
MAY_BE_NONE = {"consume", "kv.delete", "kv.update", "transaction"}

OTHERS: list[tuple[str, Any, Call]] = [
    ("a subject", [], lambda h, bad: h.nc.publish(bad)),
    ("a subject", {}, lambda h, bad: h.js.publish(bad)),
    ("expect", 5, lambda h, bad: h.js.publish("a", expect=bad)),
    ("expect", "5", lambda h, bad: h.js.atomic_batch().add("a", b"", expect=bad)),
    ("on_gap", 5, lambda h, bad: h.js.fast_publisher(on_gap=bad)),
    ("stream", b"S", lambda h, bad: h.js.stream(bad)),
    ("stream", "S\ud800", lambda h, bad: h.js.delete_stream(bad)),
    ("consumer", b"c", lambda h, bad: h.stream.consumer(bad)),
    ("bucket", b"b", lambda h, bad: h.js.key_value(bad)),
    ("subject", 5, lambda h, bad: h.js.stream_names(subject=bad)),
    ("subject", 5, lambda h, bad: h.js.subscribe(bad)),
    ("queue", b"q", lambda h, bad: h.js.subscribe("a", queue=bad)),
    ("queue", "q\ud800", lambda h, bad: h.nc.subscribe("a", queue=bad)),
    ("domain", 5, lambda h, bad: h.nc.jetstream(domain=bad)),
    ("callback", 5, lambda h, bad: h.js.subscribe("a", callback=bad)),
    ("callback", None, lambda h, bad: h.consumer.consume(bad)),
    ("callback", "f", lambda h, bad: h.stream.ordered_consumer().consume(bad)),
    ("callback", 5, lambda h, bad: h.kv.watch(callback=bad)),
    ("callback", 5, lambda h, bad: h.store.watch(callback=bad)),
    ("progress", 5, lambda h, bad: h.store.get_file("a", h.folder / "f", progress=bad)),
    ("progress", 5, lambda h, bad: h.store.put("a", b"", progress=bad)),
    ("group", "g", lambda h, bad: h.consumer.fetch(1, group=bad)),
    ("group", 5, lambda h, bad: h.consumer.unpin(bad)),
    ("threshold", "x", lambda h, bad: h.consumer.messages(threshold=bad)),
    ("subjects", "a", lambda h, bad: h.js.replica("S", subjects=bad)),
    ("subjects", 5, lambda h, bad: h.stream.get_last_many(bad)),
    ("columns", 5, lambda h, bad: anext(h.stream.scan(columns=bad))),
    ("filters", 5, lambda h, bad: anext(h.stream.scan(filters=bad))),
    ("subjects_filter", {}, lambda h, bad: h.stream.info(subjects_filter=bad)),
    ("keys", "a", lambda h, bad: h.kv.get_many(bad)),
    ("values", ["a"], lambda h, bad: h.kv.put_many(bad)),
    ("a key", [], lambda h, bad: h.kv.transaction().put(bad, b"")),
    ("key", "a b", lambda h, bad: h.kv.lock(bad)),
    ("owner", 5, lambda h, bad: h.kv.lock("a", owner=bad)),
    ("candidate", 5, lambda h, bad: h.kv.elect("a", bad)),
    ("group", b"g", lambda h, bad: h.kv.members(bad)),
    ("key_codec", 5, lambda h, bad: KeyValue(h.kv._backend, key_codec=bad)),
    ("value", "x", lambda h, bad: h.kv.typed(int).put("a", bad)),
    ("target", 5, lambda h, bad: h.store.link("a", bad)),
    ("headers", 5, lambda h, bad: h.store.put("a", io.BytesIO(), headers=bad)),
    ("description", 5, lambda h, bad: h.store.put("a", b"", description=bad)),
    ("config", 5, lambda h, bad: h.js.restore_stream(h.folder, config=bad)),
    ("max_age", "1h", lambda h, bad: h.stream.update(max_age=bad)),
    ("cannot be renamed", "x", lambda h, bad: h.stream.update(**NAMED | {"name": bad})),
    ("ack_wait", None, lambda h, bad: h.consumer.update(ack_wait=bad)),
    ("cannot be renamed", "x", lambda h, bad: h.consumer.update(durable=bad)),
    ("ack_policy", "some", lambda h, bad: h.js.subscribe("a", ack_policy=bad)),
]


async def refused(handles: Handles, call: Call, wrong: object) -> str:
    """What a call says against an argument; nothing may be sent or left."""
    before = handles.nc.stats

    async def called() -> None:
        made = call(handles, wrong)
        await asyncio.wait_for(made if isawaitable(made) else anext(aiter(made)), 30)

    with pytest.raises((TypeError, ValueError)) as caught:
        await called()
    after = handles.nc.stats
    assert (after.out_msgs, after.subscriptions) == (before.out_msgs, before.subscriptions)
    return str(caught.value)


async def test_numbers_that_are_none_are_refused_by_name(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with handles_of(client, name, tmp_path) as handles:
        for what, (argument, call) in NUMBERS.items():
            for wrong in (None, "3", 1.5, True, -1, 10**20):
                if wrong is None and what in MAY_BE_NONE:
                    continue
                said = await refused(handles, call, wrong)
                assert said.startswith(f"{argument}={wrong!r}: expected"), (what, wrong)


async def test_what_is_of_another_type_is_refused_by_name(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with handles_of(client, name, tmp_path) as handles:
        for expected, wrong, call in OTHERS:
            said = await refused(handles, call, wrong)
            assert expected in said, (expected, said)


async def test_flags_that_are_no_bool_are_taken_for_one(
    client: Connect, name: str, tmp_path: Path
) -> None:
    async with handles_of(client, name, tmp_path) as handles:
        flag: Any = "yes"
        assert await handles.consumer.fetch(1, no_wait=flag, timeout=30) == []
        assert (await handles.stream.info(deleted_details=flag)).state.messages == 0


async def test_a_wait_may_be_endless(client: Connect, name: str, tmp_path: Path) -> None:
    async with handles_of(client, name, tmp_path) as handles:
        fetching = asyncio.create_task(handles.consumer.fetch(1, timeout=float("inf")))
        await handles.js.publish(handles.stream.name, b"at last")
        (message,) = await asyncio.wait_for(fetching, 30)
        assert message.data == b"at last"


def test_the_errors_are_those_of_python() -> None:
    """No one has to catch two kinds: a wrong type is a TypeError, as everywhere."""
    with pytest.raises(TypeError, match="max_age='1h': expected seconds"):
        jetspark.StreamConfig("S", max_age="1h")  # type: ignore[arg-type]
