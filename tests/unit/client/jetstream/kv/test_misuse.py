"""Wrong arguments, values that do not decode, and failures of the store (ADR-8)."""

import asyncio
from typing import Any

import pytest
from tests.support.waiting import until
from tests.unit.client.jetstream.kv.memory_backend import MemoryBackend, MemoryWatch

from jetspark import (
    AesGcmValues,
    Base64Keys,
    Entry,
    KeyValue,
    KeyValueConfig,
    PathKeys,
    Stored,
    StreamSource,
    Timeout,
    WatchPlan,
)
from jetspark.client.jetstream.kv.config import to_stream_config
from jetspark.errors import BadName, CodecFailed, KeyExists
from jetspark.units import seconds

RING = AesGcmValues({"k": bytes(32)})


class Reversed:
    """A codec that fails in its own way."""

    def encode(self, bucket: str, key: str, value: bytes) -> bytes:
        del bucket, key
        return value[::-1]

    def decode(self, bucket: str, key: str, stored: bytes) -> bytes:
        del bucket, key
        if not stored.isascii():
            raise ZeroDivisionError
        return stored[::-1]


async def spoiled() -> tuple[KeyValue, KeyValue]:
    """A bucket with a value between two others that was written without the codec."""
    backend = MemoryBackend()
    plain, secret = KeyValue(backend), KeyValue(backend, value_codec=RING)
    await secret.put("a", b"1")
    await plain.put("b", b"not encrypted")
    await secret.put("c", b"3")
    return plain, secret


async def test_a_watch_continues_after_a_value_that_does_not_decode() -> None:
    _, secret = await spoiled()
    async with await secret.watch() as watcher:
        first = await anext(watcher)
        with pytest.raises(CodecFailed, match="'b'"):
            await anext(watcher)
        rest = await anext(watcher)

    assert [first.value, rest.value] == [b"1", b"3"]


async def test_a_chunk_ends_before_a_value_that_does_not_decode() -> None:
    _, secret = await spoiled()
    async with await secret.watch() as watcher:
        first = await watcher._next_chunk(10)
        with pytest.raises(CodecFailed, match="'b'"):
            await watcher._next_chunk(10)
        second = await watcher._next_chunk(10)

    assert [each.value for each in first + second] == [b"1", b"3"]


async def test_a_callback_continues_after_a_value_that_does_not_decode() -> None:
    backend = MemoryBackend()
    plain, secret = KeyValue(backend), KeyValue(backend, value_codec=RING)
    await plain.put("a", b"not encrypted")
    await secret.put("b", b"2")
    seen: list[Entry] = []

    watcher = await secret.watch(callback=seen.append)
    await watcher.ready()
    await until(lambda: bool(seen))

    assert [each.value for each in seen] == [b"2"]
    assert [type(each) for each in backend.reported] == [CodecFailed]


async def test_a_codec_that_raises_anything_has_failed() -> None:
    backend = MemoryBackend()
    kv = KeyValue(backend, value_codec=Reversed())
    await KeyValue(backend).put("a", b"\xff")
    await kv.put("b", b"12")

    with pytest.raises(CodecFailed, match=r"key 'a' .* revision 1: ZeroDivisionError"):
        await kv.get("a")
    assert (await kv.get("b")).value == b"12"


async def test_create_does_not_read_the_existing_value() -> None:
    plain, secret = await spoiled()

    with pytest.raises(KeyExists, match="revision 2"):
        await secret.create("b", b"")
    await plain.delete("b")
    assert await secret.create("b", b"x") == 5


@pytest.mark.parametrize("call", ["delete", "purge"])
async def test_wildcards_are_those_of_the_key_codec(call: str) -> None:
    kv = KeyValue(MemoryBackend(), key_codec=PathKeys())
    await kv.put_many({"/etc/a": b"1", "/etc/b": b"2", "/var/c": b"3"})
    await getattr(kv, call)("/etc/*")

    assert [key async for key in kv.keys(">")] == ["/var/c"]
    assert len(await kv.history("/*/a")) >= 1


async def test_update_wants_a_revision() -> None:
    kv = KeyValue(MemoryBackend())
    await kv.put("a", b"1")
    nothing: Any = None

    with pytest.raises(TypeError, match="last=None"):
        await kv.update("a", b"2", nothing)
    assert (await kv.get("a")).value == b"1"


@pytest.mark.parametrize("key", [None, 5, b"k"])
async def test_a_key_is_text(key: Any) -> None:
    kv = KeyValue(MemoryBackend())

    for call in (kv.get(key), kv.put(key, b""), kv.delete(key), kv.history(key)):
        with pytest.raises(TypeError, match="a key must be str"):
            await call
    with pytest.raises(TypeError, match="a filter must be str"):
        await kv.watch(key)


async def test_collections_are_given_as_collections() -> None:
    kv = KeyValue(MemoryBackend())
    filters: Any = ["a", "b"]

    with pytest.raises(TypeError, match=r"such as \['abc'\]"):
        await kv.get_many("abc")
    with pytest.raises(TypeError, match="separate arguments"):
        await kv.watch(filters)
    with pytest.raises(BadName, match="empty"):
        await kv.history("")
    with pytest.raises(ValueError, match="min_last_revision=-1"):
        await kv.get("a", min_last_revision=-1)


async def test_filters_that_mean_the_same_are_one() -> None:
    backend = MemoryBackend()
    kv = KeyValue(backend)

    assert kv._coding.filters(("", ">")) == (">",)
    assert kv._coding.filters(("a", "a", "b.*", "b.c")) == ("a", "b.*")


@pytest.mark.parametrize("stored", ["mail.host", "a=", "YQ=", "YQ-", "YR", "a/b", ""])
def test_only_what_base64_keys_wrote_decodes(stored: str) -> None:
    """Python's decoder passes over characters it does not know."""
    with pytest.raises(CodecFailed, match="without this codec"):
        Base64Keys().decode(stored)


def test_what_would_come_back_as_another_key_is_refused() -> None:
    with pytest.raises(BadName, match="_root"):
        PathKeys().encode("_root_/a")
    with pytest.raises(BadName, match="surrogate"):
        Base64Keys().encode("\ud800")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"history": "5"}, "history='5': expected an int"),
        ({"mirror": 5}, "mirror=5: expected a StreamSource or a name"),
        ({"compression": "s2"}, "compression='s2': expected True or False"),
        ({"ttl": "1"}, "ttl='1': expected seconds"),
        ({"metadata": {"a": 1}}, "metadata={'a': 1}: expected a dict of str to str"),
    ],
)
def test_a_configuration_of_wrong_types_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError) as raised:
        to_stream_config(KeyValueConfig(bucket="b", **options), 5)

    assert text in str(raised.value)


@pytest.mark.parametrize(("option", "least"), [("ttl", "0.1 s"), ("limit_marker_ttl", "1 s")])
def test_times_that_are_too_short_are_refused(option: str, least: str) -> None:
    options: dict[str, Any] = {option: 0.01}

    with pytest.raises(ValueError, match=f"{option}=0.01 s: expected at least {least}"):
        to_stream_config(KeyValueConfig(bucket="b", **options), 5)


def test_a_configuration_of_right_types_is_taken() -> None:
    config = KeyValueConfig(bucket="b", sources=(StreamSource(name="a"),), ttl=1)

    assert to_stream_config(config, 5).max_age == seconds(1)


async def test_a_failed_clean_up_leaves_nothing_running() -> None:
    class Failing(MemoryBackend):
        async def erase(self, key: str, *, below: int, timeout: Timeout | None) -> None:
            del below, timeout
            await asyncio.sleep(0)
            if key == "k5":
                raise OSError("of this store")
            await asyncio.sleep(60)

    kv = KeyValue(Failing())
    await kv.put_many({f"k{n}": b"" for n in range(20)})
    await kv.delete("*")

    with pytest.raises(OSError, match="of this store"):
        await kv.purge_deletes(older_than=0)
    await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("hostile", [b'"\xff"', b"[" * 100_000, b"9" * 5000, b"", b"{"])
async def test_no_stored_bytes_break_a_typed_bucket(hostile: bytes) -> None:
    kv = KeyValue(MemoryBackend())
    await kv.put("a", hostile)
    kind: Any = list[Any] | str

    with pytest.raises(CodecFailed, match=r"does not hold a list"):
        await kv.typed(kind).get("a")


async def test_a_key_that_would_cost_the_connection_is_refused() -> None:
    kv = KeyValue(MemoryBackend())
    await kv.put("k" * 3000, b"")

    with pytest.raises(BadName, match="3000 are allowed"):
        await kv.get("k" * 3001)
    with pytest.raises(BadName, match="3000 are allowed"):
        await kv.watch("k" * 3001)


async def test_a_replica_does_not_lag_silently() -> None:
    class Failing(MemoryWatch):
        async def next_chunk(self, count: int) -> list[Stored]:
            found = await super().next_chunk(count)
            if found[0].key == "bad":
                raise OSError("of this store")
            return found

    class Store(MemoryBackend):
        def watch(self, plan: WatchPlan) -> MemoryWatch:
            return Failing(self, plan)

    kv = KeyValue(Store())
    await kv.put("a", b"1")
    replica = await kv.replica()
    assert not await replica.wait_for(9, timeout=0.01)
    waiting = asyncio.ensure_future(replica.wait_for(9))
    await asyncio.sleep(0.01)
    await kv.put("bad", b"")

    with pytest.raises(OSError, match="of this store"):
        await waiting
    with pytest.raises(OSError, match="of this store"):
        replica.get("a")
    assert not replica._copy._waiters


async def test_a_replica_survives_a_time_to_live_that_is_none() -> None:
    """Servers before 2.11 store any header of this name."""
    backend = MemoryBackend()
    block = b"NATS/1.0\r\nNats-TTL: soon\r\n\r\n"
    backend.entries.append(Stored("a", b"1", 1, 1, block=block))
    async with await KeyValue(backend).replica() as replica:
        assert replica.get("a").value == b"1"
