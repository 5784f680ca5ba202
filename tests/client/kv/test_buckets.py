"""ADR-8 over a real server: buckets, keys, reading, writing, deleting."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.buckets import keys_of, new_bucket

from jetspark import (
    Client,
    Compression,
    Discard,
    KeyValueConfig,
    Operation,
    Republish,
    Storage,
    StreamConfig,
    StreamSource,
)
from jetspark.api.base import Timestamp
from jetspark.client.jetstream.kv.jetstream_backend import JetStreamBackend
from jetspark.errors import (
    ApiError,
    BadName,
    BucketExists,
    BucketNotFound,
    KeyExists,
    KeyNotFound,
    MinLastSequence,
    NotSupported,
    ReadOnly,
    WrongLastSequence,
)
from jetspark.units import kib, mib

Connect = Callable[..., AbstractAsyncContextManager[Client]]


# Buckets.


async def test_a_bucket_is_a_stream_with_these_properties(client: Connect, name: str) -> None:
    """ADR-8, "Buckets"; decisions.md, Buckets that our client creates; wire.md."""
    async with client() as nc:
        js = nc.jetstream()
        await new_bucket(js, name, history=5)
        config = (await js.stream(f"KV_{name}")).config

        assert config.subjects == (f"$KV.{name}.>",)
        assert config.max_msgs_per_subject == 5
        assert config.allow_rollup_hdrs
        assert config.deny_delete
        assert config.allow_direct
        assert config.allow_atomic
        assert config.discard is Discard.NEW
        assert config.storage is Storage.FILE
        assert config.duplicate_window == 120
        assert (config.max_msgs, config.max_bytes, config.max_age) == (-1, -1, 0)


async def test_every_option_reaches_the_stream(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(
            js,
            name,
            description="settings",
            history=3,
            ttl=60,
            max_value_size=1000,
            max_bytes=mib(1),
            storage=Storage.MEMORY,
            compression=True,
            republish=Republish(src=">", dest=f"copy.{name}.>"),
            metadata={"team": "a"},
            limit_marker_ttl=5,
        )
        config = (await js.stream(f"KV_{name}")).config
        status = await kv.status()

        assert config.max_age == 60
        # ADR-8: the duplicate window must be max_age when max_age is less than 2 minutes.
        assert config.duplicate_window == 60
        assert config.max_msg_size == 1000
        assert config.max_bytes == mib(1)
        assert config.compression is Compression.S2
        assert config.republish is not None
        assert config.allow_msg_ttl
        assert config.subject_delete_marker_ttl == 5
        assert status.config.metadata == {"team": "a"}
        assert (status.history, status.ttl, status.config.description) == (
            3,
            60,
            "settings",
        )


async def test_status_tells_about_the_bucket(client: Connect, name: str) -> None:
    """ADR-8, "Status"."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=2)
        for value in (b"1", b"2", b"3"):
            await kv.put("a", value)
        await kv.put("b", b"x")
        status = await kv.status()

        assert status.bucket == kv.bucket == name
        assert status.values == 3
        assert status.backing_store == "JetStream"
        assert status.stream_info.config.name == f"KV_{name}"
        assert status.bytes > 0
        assert not status.is_read_only


async def test_a_bucket_is_opened_updated_listed_and_deleted(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        with pytest.raises(BucketNotFound):
            await js.key_value(name)
        with pytest.raises(BucketNotFound):
            await js.update_key_value(KeyValueConfig(bucket=name))
        await js.create_or_update_key_value(KeyValueConfig(bucket=name))
        await new_bucket(js, name)
        with pytest.raises(BucketExists):
            await new_bucket(js, name, history=9)
        changed = await js.update_key_value(KeyValueConfig(bucket=name, history=9))
        assert (await changed.status()).history == 9
        assert name in [each async for each in js.key_value_names()]

        await js.delete_key_value(name)
        with pytest.raises(BucketNotFound):
            await js.delete_key_value(name)
        with pytest.raises(BucketNotFound):
            await changed.status()


async def test_destroy_removes_the_bucket(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        await kv.destroy()

        with pytest.raises(BucketNotFound):
            await js.key_value(name)


async def test_a_stream_that_is_no_bucket_is_refused(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(StreamConfig(name=f"KV_{name}", subjects=(f"$KV.{name}.>",)))

        with pytest.raises(NotSupported, match="not a key-value bucket"):
            await js.key_value(name)


@pytest.mark.parametrize("history", [0, 65, -1])
async def test_history_is_capped_at_64(client: Connect, name: str, history: int) -> None:
    async with client() as nc:
        with pytest.raises(ValueError, match="1 to 64"):
            await new_bucket(nc.jetstream(), name, history=history)


@pytest.mark.parametrize("bad", ["", "a.b", "a b", "a*", "ä", "a/b"])
async def test_a_bad_bucket_name_is_refused(client: Connect, bad: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        with pytest.raises(BadName):
            await new_bucket(js, bad)
        with pytest.raises(BadName):
            await js.key_value(bad)


@pytest.mark.parametrize("bad", ["", ".a", "a.", "a..b", "a b", "a*", "a.>", "ä", "_kv", "_kv.a"])
async def test_a_bad_key_is_refused(client: Connect, name: str, bad: str) -> None:
    """ADR-8: valid keys, no dot at either end, keys starting with `_kv` are reserved."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        for call in (kv.get(bad), kv.put(bad, b""), kv.create(bad, b""), kv.update(bad, b"", 1)):
            with pytest.raises(BadName):
                await call


@pytest.mark.parametrize("good", ["a", "A-1/b_c=d.e", "auth.username", "0"])
async def test_a_good_key_is_taken(client: Connect, name: str, good: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put(good, b"x")

        assert (await kv.get(good)).value == b"x"


# Reading and writing.


async def test_an_entry_says_everything(client: Connect, name: str) -> None:
    """ADR-8, "Entry"."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("other", b"")
        revision = await kv.put("auth.username", b"bob")
        entry = await kv.get("auth.username")

        assert revision == 2
        assert (entry.bucket, entry.key, entry.value) == (name, "auth.username", b"bob")
        assert (entry.revision, entry.delta, entry.operation) == (2, 0, Operation.PUT)
        assert entry.time.timestamp() == pytest.approx(entry.time_ns / 1e9, abs=1e-5)
        assert entry.is_put
        assert entry.size == 3


async def test_a_key_without_value_is_not_found(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)

        with pytest.raises(KeyNotFound) as raised:
            await kv.get("a")
        assert (raised.value.bucket, raised.value.key, raised.value.revision) == (name, "a", 0)


async def test_a_revision_can_be_read_and_belongs_to_its_key(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        first = await kv.put("a", b"1")
        await kv.put("a", b"2")
        other = await kv.put("b", b"3")

        assert (await kv.get("a", revision=first)).value == b"1"
        with pytest.raises(KeyNotFound):
            await kv.get("a", revision=other)
        with pytest.raises(KeyNotFound):
            await kv.get("a", revision=99)


async def test_update_expects_the_revision(client: Connect, name: str) -> None:
    """ADR-8: put only if the revision of the last value for a key matches."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        first = await kv.put("a", b"1")
        second = await kv.update("a", b"2", first)

        with pytest.raises(WrongLastSequence) as raised:
            await kv.update("a", b"3", first)
        assert raised.value.actual == second
        assert (await kv.get("a")).value == b"2"


async def test_create_wants_no_value(client: Connect, name: str) -> None:
    """ADR-8: only if the key does not exist, or the latest operation is a delete."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        first = await kv.create("a", b"1")
        with pytest.raises(KeyExists) as raised:
            await kv.create("a", b"2")
        assert raised.value.revision == first

        await kv.delete("a")
        await kv.create("a", b"3")
        await kv.purge("a")
        await kv.create("a", b"4")
        assert (await kv.get("a")).value == b"4"


async def test_create_works_after_the_subject_was_purged(client: Connect, name: str) -> None:
    """ADR-8: this is purge aware."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        await kv.create("a", b"1")
        await (await js.stream(f"KV_{name}")).purge()

        assert await kv.create("a", b"2") == 2


async def test_a_deleted_key_is_not_found_and_keeps_its_history(
    client: Connect, name: str
) -> None:
    """ADR-8, "Deleting Values": a nil body and the header `KV-Operation: DEL`."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name, history=5)
        await kv.put("a", b"1")
        await kv.delete("a")

        with pytest.raises(KeyNotFound) as raised:
            await kv.get("a")
        assert raised.value.revision == 2
        history = await kv.history("a")
        assert [(each.operation, each.value) for each in history] == [
            (Operation.PUT, b"1"),
            (Operation.DEL, b""),
        ]
        stored = await (await js.stream(f"KV_{name}")).get_msg(seq=2)
        assert stored.data == b""
        assert stored.headers["KV-Operation"] == "DEL"


async def test_a_purged_key_leaves_only_the_marker(client: Connect, name: str) -> None:
    """ADR-8, "Purging a key"."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name, history=5)
        await kv.put("a", b"1")
        await kv.put("a", b"2")
        await kv.put("b", b"3")
        await kv.purge("a")

        assert [each.operation for each in await kv.history("a")] == [Operation.PURGE]
        assert len(await kv.history("b")) == 1
        stored = await (await js.stream(f"KV_{name}")).get_msg(seq=4)
        assert stored.headers["KV-Operation"] == "PURGE"
        assert stored.headers["Nats-Rollup"] == "sub"


async def test_delete_and_purge_expect_a_revision(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        first = await kv.put("a", b"1")
        second = await kv.put("a", b"2")
        with pytest.raises(WrongLastSequence):
            await kv.delete("a", last=first)
        with pytest.raises(WrongLastSequence):
            await kv.purge("a", last=first)
        await kv.delete("a", last=second)
        await kv.purge("a", last=second + 1)

        with pytest.raises(KeyNotFound):
            await kv.get("a")


async def test_delete_and_purge_by_wildcard(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=3)
        await kv.put_many({f"a.{n}": b"x" for n in range(20)} | {"b": b"y"})
        await kv.delete("a.*")
        assert await keys_of(kv) == ["b"]
        assert len(await kv.history("a.1")) == 2
        await kv.put("a.1", b"z")
        await kv.purge("a.>")

        assert len(await kv.history("a.1")) == 1
        assert await keys_of(kv) == ["b"]
        with pytest.raises(ValueError, match="is a pattern: omit it, or name a key"):
            await kv.delete("a.*", last=1)


async def test_history_is_kept_per_key(client: Connect, name: str) -> None:
    """ADR-8, "History": delta 0 is the latest."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=3)
        for n in range(5):
            await kv.put("a", b"%d" % n)
        history = await kv.history("a")

        assert [each.value for each in history] == [b"2", b"3", b"4"]
        assert [each.delta for each in history] == [2, 1, 0]
        assert await kv.history("none") == []


async def test_a_value_has_its_own_time_to_live(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        await kv.put("a", b"1", ttl=60)
        await kv.create("b", b"1", ttl="never")
        stream = await js.stream(f"KV_{name}")

        assert (await stream.get_msg(seq=1)).headers["Nats-TTL"] == "1m0s"
        assert (await stream.get_msg(seq=2)).headers["Nats-TTL"] == "never"
        with pytest.raises(ValueError, match="at least 1 second"):
            await kv.put("a", b"1", ttl=0.5)


async def test_many_keys_are_written_and_read(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        values = {f"k.{n}": b"%d" % n for n in range(3000)}
        revisions = await kv.put_many(values)
        await kv.delete("k.7")
        found = await kv.get_many([*values, "none"])

        assert sorted(revisions.values()) == list(range(1, 3001))
        assert len(found) == 2999
        assert all(entry.value == values[key] for key, entry in found.items())
        assert await kv.get_many([]) == {}


async def test_a_refusal_among_many_is_raised(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, max_value_size=100)

        with pytest.raises(ApiError, match="message size exceeds maximum") as raised:
            await kv.put_many({"a": b"1", "b": bytes(kib(1)), "c": b"3"})
        assert "1 of 3 keys were not written; first: 'b'" in raised.value.__notes__
        assert sorted(await keys_of(kv)) == ["a", "c"]


async def test_a_snapshot_shows_one_point_in_time(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        await kv.put("a", b"1")
        await kv.put("b", b"2")
        await kv.put("a", b"3")
        await kv.delete("b")
        third = await kv.get("a")

        async def at(**options: Any) -> dict[str, bytes]:
            return {each.key: each.value async for each in kv.snapshot(**options)}

        assert await at() == {"a": b"3"}
        assert await at(at_revision=2) == {"a": b"1", "b": b"2"}
        assert await at(at_revision=3) == {"a": b"3", "b": b"2"}
        assert await at(at_time=Timestamp(third.time_ns - 1)) == {"a": b"1", "b": b"2"}
        assert [each.key async for each in kv.snapshot("b", at_revision=3)] == ["b"]
        with pytest.raises(ValueError, match="mutually exclusive"):
            kv.snapshot(at_revision=1, at_time=Timestamp(1))


async def test_a_read_only_handle_refuses_to_write(client: Connect, name: str) -> None:
    """ADR-8, "RoKV"."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        await kv.put("a", b"1")
        for handle in (kv.read_only(), await js.key_value(name, read_only=True)):
            assert (await handle.get("a")).value == b"1"
            assert await keys_of(handle) == ["a"]
            calls = [
                handle.put("a", b""),
                handle.create("a", b""),
                handle.update("a", b"", 1),
                handle.delete("a"),
                handle.delete("*"),
                handle.purge("a"),
                handle.put_many({"a": b""}),
                handle.purge_deletes(),
                handle.destroy(),
            ]
            for call in calls:
                with pytest.raises(ReadOnly):
                    await call
            with pytest.raises(ReadOnly):
                handle.transaction()
            with pytest.raises(ReadOnly):
                handle.lock("a")


async def test_a_read_only_handle_reads_in_every_way(client: Connect, name: str) -> None:
    """ADR-8, "RoKV": get, history, watch, keys, status, close."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name, history=3)
        await kv.put("a", b"1")
        await kv.put("a", b"2")
        for handle in (kv.read_only(), await js.key_value(name, read_only=True)):
            assert (await handle.get("a")).value == b"2"
            assert [entry.value for entry in await handle.history("a")] == [b"1", b"2"]
            watcher = await handle.watch()
            assert [entry.value async for entry in watcher.initial()] == [b"2"]
            assert await keys_of(handle) == ["a"]
            assert (await handle.status()).values == 2
            await handle.close()
            with pytest.raises(StopAsyncIteration):
                await anext(watcher)


async def test_purge_deletes_removes_markers(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        for key in ("a", "b", "c"):
            await kv.put(key, b"1")
        await kv.delete("a")
        await kv.purge("b")
        kept = await kv.purge_deletes(older_than=3600)
        young = await kv.history(">")
        removed = await kv.purge_deletes(older_than=0)
        old = await kv.history(">")

        # Young markers stay: nothing was removed the first time.
        assert (kept, removed) == (0, 2)
        assert [(each.key, each.operation) for each in young] == [
            ("c", Operation.PUT),
            ("a", Operation.DEL),
            ("b", Operation.PURGE),
        ]
        assert [each.key for each in old] == ["c"]


async def test_purge_deletes_spares_what_is_written_meanwhile(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that gets a value between the listing and the removal keeps it."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        await kv.delete("first")
        for key in ("a", "b"):
            await kv.put(key, b"old")
            await kv.delete(key)
        erase = JetStreamBackend.erase

        async def late(self: JetStreamBackend, key: str, **options: Any) -> None:
            await kv.put(key, b"new")
            await erase(self, key, **options)

        assert await kv.purge_deletes(older_than=3600) == 0
        kept = await kv.history(">")
        monkeypatch.setattr(JetStreamBackend, "erase", late)
        await kv.purge_deletes(older_than=0)

        assert [(each.key, each.operation) for each in kept] == [
            ("first", Operation.DEL),
            ("a", Operation.DEL),
            ("b", Operation.DEL),
        ]
        assert [each.value for each in await kv.history(">")] == [b"new"] * 3


# Read after write.


async def test_a_revision_that_must_be_there_is_waited_for(client: Connect, name: str) -> None:
    """ADR-53, test recipes: too high a sequence is refused, and served once it was written."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        with pytest.raises(MinLastSequence):
            await kv.get("a", min_last_revision=2, timeout=0.7)
        revision = await kv.put("b", b"2")

        assert (await kv.get("a", min_last_revision=revision)).value == b"1"
        assert (await kv.get("a", revision=1, min_last_revision=revision)).value == b"1"
        assert sorted(await keys_of(kv, min_last_revision=revision)) == ["a", "b"]
        assert len(await kv.history("a", min_last_revision=revision)) == 1


async def test_a_handle_remembers_what_it_wrote(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await new_bucket(js, name)
        kv = await js.key_value(name, read_after_write=True)
        for n in range(20):
            await kv.put(f"k.{n}", b"%d" % n)
            assert (await kv.get(f"k.{n}")).value == b"%d" % n
        found = set(await keys_of(kv))

        assert len(found) == 20
        assert len(await kv.get_many([f"k.{n}" for n in range(20)])) == 20


async def test_a_bucket_without_direct_get_is_read_from_its_leader(
    client: Connect, name: str
) -> None:
    """Buckets of nats-py have no allow_direct (wire.md, Requests of Python clients)."""
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(
            StreamConfig(
                name=f"KV_{name}",
                subjects=(f"$KV.{name}.>",),
                max_msgs_per_subject=1,
                allow_rollup_hdrs=True,
            )
        )
        kv = await js.key_value(name)
        revision = await kv.put("a", b"1")

        assert (await kv.get("a", min_last_revision=revision)).value == b"1"
        assert set(await kv.get_many(["a", "b"])) == {"a"}
        assert await keys_of(kv) == ["a"]
        with pytest.raises(NotSupported, match="allow_atomic"):
            async with kv.transaction() as tx:
                tx.put("a", b"2")


# Copies.


async def test_a_mirror_reads_its_own_and_writes_to_its_origin(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        origin = await new_bucket(js, name)
        await origin.put("a", b"1")
        mirror = await new_bucket(js, f"{name}-m", mirror=StreamSource(name=name))
        opened = await js.key_value(f"{name}-m")
        revision = await opened.put("b", b"2")
        await opened.get("b", min_last_revision=revision)

        assert (await origin.get("b")).value == b"2"
        assert (await mirror.get("a")).value == b"1"
        assert (await opened.get("b")).value == b"2"
        assert sorted(await keys_of(opened)) == ["a", "b"]
        assert (await opened.status()).is_read_only


async def test_sources_appear_under_the_buckets_own_keys(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        for n in (1, 2):
            kv = await new_bucket(js, f"{name}-{n}")
            await kv.put(f"k{n}", b"%d" % n)
        both = await new_bucket(
            js,
            name,
            sources=(StreamSource(name=f"{name}-1"), StreamSource(name=f"KV_{name}-2")),
        )
        await both.get("k1", min_last_revision=2)

        assert sorted(await keys_of(both)) == ["k1", "k2"]
        assert (await both.get("k2")).value == b"2"
