"""A bucket over another backend (ADR-8, "Storage Backends"), and what ``create`` asks (ADR-53)."""

import pytest
from tests.unit.client.jetstream.kv.memory_backend import MemoryBackend

from jetspark import Backend, Base64Keys, Entry, KeyValue, Operation
from jetspark.client.jetstream.kv.entry import read_operation
from jetspark.errors import KeyExists, KeyNotFound, WrongLastSequence


async def test_every_call_works_on_another_backend() -> None:
    backend: Backend = MemoryBackend()
    kv = KeyValue(backend)
    first = await kv.put("a", b"1")
    await kv.update("a", b"2", first)
    await kv.put_many({"b.x": b"3", "b.y": b"4"})
    await kv.delete("b.x")
    async with kv.transaction() as tx:
        entry = await tx.get("a")
        tx.put("a", entry.value + b"!")
        tx.create("c", b"5")

    assert (await kv.get("a")).value == b"2!"
    assert (await kv.get("a", revision=first)).value == b"1"
    assert [each.value for each in await kv.history("a")] == [b"1", b"2", b"2!"]
    assert sorted([key async for key in kv.keys(">")]) == ["a", "b.y", "c"]
    assert sorted(await kv.get_many(["a", "b.x", "b.y"])) == ["a", "b.y"]
    assert [each.key async for each in kv.snapshot(at_revision=2)] == ["a"]
    with pytest.raises(KeyNotFound):
        await kv.get("b.x")
    with pytest.raises(WrongLastSequence):
        await kv.update("a", b"", first)
    await kv.purge("a")
    assert [each.operation for each in await kv.history("a")] == [Operation.PURGE]
    assert await kv.purge_deletes(older_than=0) == 2
    assert (await kv.status()).values == 2


async def test_watches_locks_and_codecs_work_on_another_backend() -> None:
    kv = KeyValue(MemoryBackend(), key_codec=Base64Keys())
    await kv.put("größe", b"1")
    seen: list[Entry | None] = []
    async with await kv.watch() as watcher:
        marked = watcher.marked()
        seen += [await anext(marked), await anext(marked)]
        await kv.delete("größe")
        seen.append(await anext(marked))
    async with kv.lock("l", ttl=9) as lock:
        assert lock.token == 3
    async with await kv.members("m").join("one", b"here"):
        assert await kv.members("m").list() == {"one": b"here"}

    assert [each and (each.key, each.operation) for each in seen] == [
        ("größe", Operation.PUT),
        None,
        ("größe", Operation.DEL),
    ]


async def test_create_reads_at_least_as_far_as_the_server_that_refused() -> None:
    """ADR-53: the sequence of ``wrong last sequence: {seq}`` is passed in the get."""
    backend = MemoryBackend()
    kv = KeyValue(backend)
    await kv.put("a", b"1")
    await kv.delete("a")
    revision = await kv.create("a", b"2")

    assert backend.gets == [("a", 2)]
    with pytest.raises(KeyExists) as raised:
        await kv.create("a", b"3")
    assert raised.value.revision == revision == 3


async def test_create_handles_the_error_without_a_sequence() -> None:
    """ADR-53: the client should handle this optional sequence."""
    backend = MemoryBackend(silent=True)
    kv = KeyValue(backend)
    await kv.put("a", b"1")
    await kv.purge("a")
    revision = await kv.create("a", b"2")

    assert (revision, backend.gets) == (3, [("a", 0)])
    with pytest.raises(KeyExists):
        await kv.create("a", b"3")


@pytest.mark.parametrize(
    ("lines", "operation", "reason"),
    [
        (b"", Operation.PUT, ""),
        (b"other: x\r\n", Operation.PUT, ""),
        (b"KV-Operation: DEL\r\n", Operation.DEL, ""),
        (b"KV-Operation: PURGE\r\n", Operation.PURGE, ""),
        (b"KV-Operation: SOMETHING\r\n", Operation.DEL, ""),
        (b"Nats-Marker-Reason: MaxAge\r\n", Operation.PURGE, "MaxAge"),
        (b"Nats-Marker-Reason: Purge\r\n", Operation.PURGE, "Purge"),
        (b"Nats-Marker-Reason: Remove\r\n", Operation.DEL, "Remove"),
    ],
)
def test_headers_tell_the_operation(lines: bytes, operation: Operation, reason: str) -> None:
    """ADR-8: "really any value other than unset" is a deletion."""
    block = b"NATS/1.0\r\n%b\r\n" % lines if lines else b""

    assert read_operation(block) == (operation, reason)
