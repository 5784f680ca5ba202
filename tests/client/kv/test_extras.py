"""Transactions, batches, locks, elections, presence, codecs and typed values over a server."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from tests.support.buckets import new_bucket
from tests.support.waiting import until

from jetspark import (
    AesGcmValues,
    Base64Keys,
    Client,
    Expect,
    JetStream,
    KeyValue,
    StreamConfig,
)
from jetspark.errors import (
    BatchNotEnabled,
    BatchTooLarge,
    CodecFailed,
    InvalidState,
    KeyNotFound,
    NotSupported,
    RequestTimeout,
    WrongLastSequence,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


# Atomic batches (ADR-50).


async def atomic(js: JetStream, name: str, **changes: Any) -> None:
    given: dict[str, Any] = {"allow_atomic": True, "allow_direct": True}
    await js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",), **(given | changes)))


@pytest.mark.parametrize("eob", [False, True])
@pytest.mark.parametrize("count", [1, 2, 1000])
async def test_a_batch_is_stored_as_a_whole(
    client: Connect, name: str, count: int, eob: bool
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await atomic(js, name)
        async with js.atomic_batch(eob=eob) as batch:
            for n in range(count):
                batch.add(f"{name}.a", b"%d" % n, headers={"n": str(n)})
            assert len(batch) == count
        stream = await js.stream(name)
        messages = [each async for each in stream.get_batch()]

        assert (batch.ack.seq, batch.ack.count) == (count, count)
        assert [int(each.data) for each in messages] == list(range(count))
        assert messages[-1].headers["n"] == str(count - 1)


async def test_an_exception_leaves_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await atomic(js, name)

        async def fail() -> None:
            async with js.atomic_batch() as batch:
                batch.add(f"{name}.a", b"1")
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert (await js.stream(name)).cached_info.state.messages == 0


async def test_a_failed_expectation_leaves_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await atomic(js, name)
        await js.publish(f"{name}.b", b"0")
        batch = js.atomic_batch()
        batch.add(f"{name}.a", b"1", expect=Expect(last_seq=1))
        batch.add(f"{name}.b", b"2", expect=Expect(last_subject_seq=9))

        with pytest.raises(WrongLastSequence):
            await batch.commit()
        with pytest.raises(InvalidState, match="create a new one"):
            batch.add(f"{name}.a", b"")
        with pytest.raises(InvalidState, match="not committed"):
            _ = batch.ack
        assert (await (await js.stream(name)).info()).state.messages == 1


async def test_limits_are_known_before_sending(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await atomic(js, name)
        batch = js.atomic_batch()
        for _ in range(1000):
            batch.add(f"{name}.a", b"")
        with pytest.raises(BatchTooLarge, match="at most 1000"):
            batch.add(f"{name}.a", b"")
        batch.abort()
        other = js.atomic_batch()
        other.add(f"{name}.a", b"", msg_id="1")
        with pytest.raises(ValueError, match="already"):
            other.add(f"{name}.a", b"", msg_id="1")
        with pytest.raises(ValueError, match="first message"):
            other.add(f"{name}.a", b"", expect=Expect(last_seq=1))
        with pytest.raises(ValueError, match="last_msg_id"):
            other.add(f"{name}.a", b"", expect=Expect(last_msg_id="x"))
        with pytest.raises(InvalidState, match="empty batch"):
            await js.atomic_batch().commit()


async def test_a_stream_without_atomic_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await atomic(js, name, allow_atomic=False)
        batch = js.atomic_batch()
        batch.add(f"{name}.a", b"1")
        batch.add(f"{name}.a", b"2")

        with pytest.raises(BatchNotEnabled):
            await batch.commit()


# Transactions.


async def test_a_transaction_writes_all_keys_together(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        first = await kv.put("a", b"1")
        await kv.put("gone", b"x")
        async with kv.transaction() as tx:
            tx.update("a", b"2", first)
            tx.create("b", b"3")
            tx.put("c", b"4", ttl=60)
            tx.delete("gone")
        found = await kv.get_many(["a", "b", "c", "gone"])

        assert {key: entry.value for key, entry in found.items()} == {
            "a": b"2",
            "b": b"3",
            "c": b"4",
        }
        assert tx.revisions == {"a": 3, "b": 4, "c": 5, "gone": 6}
        assert found["b"].revision == tx.revisions["b"]


async def test_a_transaction_that_does_not_hold_writes_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")

        async def conflict() -> None:
            async with kv.transaction() as tx:
                entry = await tx.get("a")
                await kv.put("a", b"by somebody else")
                tx.put("a", entry.value + b"2")
                tx.put("b", b"3")

        with pytest.raises(WrongLastSequence):
            await conflict()
        assert (await kv.get("a")).value == b"by somebody else"
        with pytest.raises(KeyNotFound):
            await kv.get("b")


async def test_a_transaction_reads_before_it_writes(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        await kv.delete("deleted")
        async with kv.transaction() as tx:
            entry = await tx.get("a")
            with pytest.raises(KeyNotFound):
                await tx.get("deleted")
            tx.put("a", entry.value + b"2")
            tx.create("deleted", b"again")
            with pytest.raises(ValueError, match="twice"):
                tx.put("a", b"")

        assert (await kv.get("a")).value == b"12"
        assert (await kv.get("deleted")).value == b"again"


# Locks and elections.


async def test_a_lock_excludes_others_and_has_a_growing_token(client: Connect, name: str) -> None:
    async with client() as nc, client() as other:
        kv = await new_bucket(nc.jetstream(), name)
        theirs = await other.jetstream().key_value(name)
        inside = 0
        tokens = []

        async def work(handle: KeyValue) -> None:
            nonlocal inside
            for _ in range(5):
                async with handle.lock("l") as lock:
                    inside += 1
                    assert inside == 1
                    tokens.append(lock.token)
                    assert lock.is_held
                    await nc.flush()
                    inside -= 1

        await asyncio.gather(work(kv), work(theirs), work(kv))

        assert len(tokens) == 15
        assert tokens == sorted(set(tokens))


async def test_a_lock_that_is_held_is_waited_for_and_given_up(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        held = kv.lock("l", owner="me")
        token = await held.acquire()
        second = kv.lock("l")
        with pytest.raises(RequestTimeout, match="was not released"):
            await second.acquire(timeout=0.2)
        assert not await second.try_acquire()
        waiting = asyncio.create_task(second.acquire())
        await until(lambda: bool(kv._watches._running))
        await held.release()

        assert await waiting > token
        assert not held.is_held
        with pytest.raises(InvalidState, match="not held"):
            _ = held.token
        await second.release()


async def test_a_lock_is_renewed_and_its_loss_is_noticed(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        async with kv.lock("l", ttl=1) as lock:
            async with await kv.watch("l", updates_only=True) as watcher:
                # Four renewals: more than the time to live.
                renewals = [await anext(watcher) for _ in range(4)]
            renewed = lock.is_held
            assert [each.revision for each in renewals] == [lock.token + n for n in (1, 2, 3, 4)]
            await kv.put("l", b"taken over")
            await asyncio.wait_for(lock.lost.wait(), 5)

        assert renewed
        assert not lock.is_held
        assert (await kv.get("l")).value == b"taken over"


async def test_a_lock_of_a_dead_holder_expires(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        dead = kv.lock("l", ttl=1)
        await dead.acquire()
        assert dead._renewing is not None
        dead._renewing.cancel()

        assert await kv.lock("l", ttl=1).acquire(timeout=5) > 1


async def test_a_bucket_without_key_ttl_has_no_locks(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, allow_key_ttl=False)

        with pytest.raises(NotSupported, match="allow_key_ttl"):
            await kv.lock("l").acquire()
        with pytest.raises(ValueError, match="1 second"):
            kv.lock("l", ttl=0.1)


async def test_one_candidate_leads(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        one, two = kv.elect("leader", "one"), kv.elect("leader", "two")
        leaders: list[str | None] = []

        async def observe() -> None:
            async for leader in two.observe():
                leaders.append(leader)
                if len(leaders) == 4:
                    return

        watching = asyncio.create_task(observe())
        await until(lambda: bool(leaders))
        first = await one.campaign()
        assert (one.is_leader, two.is_leader) == (True, False)
        assert await two.leader() == "one"
        waiting = asyncio.create_task(two.campaign())
        await until(lambda: len(kv._watches._running) == 2)
        await one.resign()

        assert await waiting > first
        await asyncio.wait_for(watching, 5)
        assert leaders == [None, "one", None, "two"]
        await two.resign()
        assert await two.leader() is None


async def test_members_come_and_go(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        # Members that stay have a time to live that a busy machine does not exceed.
        group, lasting = kv.members("workers", ttl=1), kv.members("workers", ttl=60)
        changes: list[tuple[str, bool, bytes]] = []

        async def watch() -> None:
            nonlocal changes
            async for change in group.watch():
                changes += [(change.member, change.present, change.data)]

        watching = asyncio.create_task(watch())
        async with await lasting.join("a", b"host-a") as member:
            members = [await lasting.join("b")]
            assert await group.list() == {"a": b"host-a", "b": b""}
            await until(lambda: ("b", True, b"") in changes)
            await member.announce(b"host-a2")
            await until(lambda: ("a", True, b"host-a2") in changes)
            members.append(await group.join("b"))
            for dying in members:
                assert dying._task is not None
                dying._task.cancel()
            await until(lambda: ("b", False, b"") in changes)
            assert await group.list() == {"a": b"host-a2"}
        await until(lambda: ("a", False, b"") in changes)
        watching.cancel()

        assert changes == [
            ("a", True, b"host-a"),
            ("b", True, b""),
            ("a", True, b"host-a2"),
            ("b", False, b""),
            ("a", False, b""),
        ]


# Codecs and types.


async def test_codecs_change_what_is_stored(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        plain = await new_bucket(js, name, history=3)
        secret = await js.key_value(
            name, key_codec=Base64Keys(), value_codec=AesGcmValues({"k1": bytes(32)})
        )
        await secret.put("größe.x", b"secret")
        async with await secret.watch("größe.*") as watcher:
            (entry,) = [each async for each in watcher.initial()]
        raw = [each async for each in plain.snapshot()]

        assert (entry.key, entry.value) == ("größe.x", b"secret")
        assert (await secret.get("größe.x")).value == b"secret"
        assert [key async for key in secret.keys("größe.*")] == ["größe.x"]
        assert b"secret" not in raw[0].value
        assert raw[0].key.isascii()
        await secret.delete("größe.x")
        assert [each.value for each in await secret.history("größe.x")] == [b"secret", b""]


class Settings(msgspec.Struct):
    host: str
    port: int = 1


async def test_typed_values(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=3)
        settings = kv.typed(Settings)
        revision = await settings.put("a", Settings("x", 2))
        await settings.update("a", Settings("y"), revision)
        await settings.create("b", Settings("z"))
        await kv.put("bad", b"no json")
        entry = await settings.get("a")

        assert entry.value == Settings("y", 1)
        assert (entry.key, entry.revision) == ("a", 2)
        assert (await settings.get_many(["a", "b"]))["b"].value == Settings("z")
        assert [each.value for each in await settings.history("a")] == [
            Settings("x", 2),
            Settings("y"),
        ]
        with pytest.raises(CodecFailed, match="does not hold a Settings"):
            await settings.get("bad")


async def test_typed_values_are_watched_listed_and_deleted(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=3)
        settings = kv.typed(Settings)
        await settings.put_many({"a": Settings("x"), "b": Settings("y")})
        async with await settings.watch() as watcher:
            first = [each async for each in watcher.initial()]
            await kv.put("bad", b"no json")
            await settings.delete("b")
            with pytest.raises(CodecFailed, match="'bad'"):
                await anext(watcher)
            gone = await anext(watcher)
        await settings.purge("bad")

        assert [each.value for each in first] == [Settings("x"), Settings("y")]
        assert (gone.key, gone.value, gone.operation) == ("b", None, "DEL")
        assert [key async for key in settings.keys("*")] == ["a"]
        assert [each.value async for each in settings.snapshot()] == [Settings("x")]
        assert sorted([each.key async for each in settings.snapshot(at_revision=2)]) == ["a", "b"]
