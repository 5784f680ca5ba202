"""ADR-8, watchers: what comes first, the end of the initial data, options, limit markers."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.buckets import keys_of, new_bucket
from tests.support.waiting import until

from jetspark import Client, Entry, Operation, Watcher
from jetspark.api.consumer import ConsumerConfig
from jetspark.client.jetstream.consumer.ordered import OrderedReader
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.errors import (
    AlreadyClaimed,
    AlreadyEnded,
    BadName,
    HeartbeatMissed,
    KeyNotFound,
    RequestTimeout,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


def seen(entries: list[Entry | None]) -> list[tuple[str, bytes] | None]:
    return [None if each is None else (each.key, each.value) for each in entries]


async def take(watcher: Watcher[Entry], count: int) -> list[Entry | None]:
    """The next entries, and None where the initial data ends."""
    marked = watcher.marked()
    async with asyncio.timeout(10):
        return [await anext(marked) for _ in range(count)]


async def test_a_watch_gives_the_latest_values_then_none_then_changes(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        await kv.put("a", b"1")
        await kv.put("a", b"2")
        await kv.put("b", b"3")
        async with await kv.watch() as watcher:
            first = await take(watcher, 3)
            await kv.put("a", b"4")
            await kv.delete("b")
            later = await take(watcher, 2)

        assert seen(first) == [("a", b"2"), ("b", b"3"), None]
        assert [(each.key, each.operation) for each in later if each is not None] == [
            ("a", Operation.PUT),
            ("b", Operation.DEL),
        ]


@pytest.mark.parametrize("filters", [(), (">",), ("",)], ids=["none", "all", "empty"])
async def test_the_whole_bucket_is_watched(
    client: Connect, name: str, filters: tuple[str, ...]
) -> None:
    """ADR-8: the entire bucket can be watched using an empty key or a key with wildcard `>`."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put_many({"a": b"1", "b.c": b"2"})
        async with await kv.watch(*filters) as watcher:
            entries = [entry async for entry in watcher.initial()]

        assert sorted(entry.key for entry in entries) == ["a", "b.c"]


async def test_the_end_comes_when_there_is_nothing(client: Connect, name: str) -> None:
    """ADR-8: this signal must also be sent if no data is present."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        async with await kv.watch() as empty, await kv.watch("none.*") as filtered:
            assert empty._feed._source.initial_done  # known at once, not after a pause
            assert await take(empty, 1) == [None]
            await kv.put("a", b"1")
            assert await take(filtered, 1) == [None]
            assert seen(await take(empty, 1)) == [("a", b"1")]
            assert empty.initial_done


async def test_the_end_is_reached_although_counted_messages_were_deleted(
    client: Connect, name: str
) -> None:
    """ADR-8: the signal must always be sent."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        for n in range(400):
            await kv.put(f"k.{n}", bytes(20_000))
        stream = await js.stream(f"KV_{name}")
        async with await kv.watch() as watcher:
            await stream.purge()
            async with asyncio.timeout(20):
                entries = [entry async for entry in watcher.initial()]

        assert len(entries) < 400


async def test_keys_and_patterns_are_watched(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put_many({"auth.username": b"1", "auth.x.y": b"2", "other": b"3"})

        async def keys(*filters: str) -> list[str]:
            async with await kv.watch(*filters) as watcher:
                return sorted([entry.key async for entry in watcher.initial()])

        assert await keys("auth.username") == ["auth.username"]
        assert await keys("auth.>") == ["auth.username", "auth.x.y"]
        assert await keys("auth.*", "other") == ["auth.username", "other"]
        # A consumer takes no filters that overlap; those within another one are left out.
        assert await keys("auth.>", "auth.*", "other", "other") == [
            "auth.username",
            "auth.x.y",
            "other",
        ]
        with pytest.raises(BadName):
            await kv.watch("a b")


async def test_include_history_sends_all_values(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        for n in range(3):
            await kv.put("a", b"%d" % n)
        async with await kv.watch(include_history=True) as watcher:
            assert seen(await take(watcher, 4)) == [("a", b"0"), ("a", b"1"), ("a", b"2"), None]


async def test_ignore_deletes_sends_only_puts(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        await kv.put("b", b"2")
        await kv.delete("a")
        async with await kv.watch(ignore_deletes=True) as watcher:
            first = await take(watcher, 2)
            await kv.purge("b")
            await kv.put("c", b"3")
            later = await take(watcher, 1)

        assert seen(first) == [("b", b"2"), None]
        assert seen(later) == [("c", b"3")]


async def test_the_end_comes_when_all_is_deleted_and_ignored(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.delete("a")
        async with await kv.watch(ignore_deletes=True) as watcher:
            assert await take(watcher, 1) == [None]


async def test_meta_only_sends_no_values(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"12345")
        await kv.delete("b")
        async with await kv.watch(meta_only=True) as watcher:
            put, deleted, _ = await take(watcher, 3)

        assert put is not None
        assert (put.value, put.size, put.operation) == (b"", 5, Operation.PUT)
        assert deleted is not None
        assert deleted.operation is Operation.DEL


async def test_updates_only_starts_with_the_end(client: Connect, name: str) -> None:
    """ADR-8: the End Of Initial Data marker is sent as soon as the watch starts."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        async with await kv.watch(updates_only=True) as watcher:
            assert await take(watcher, 1) == [None]
            await kv.put("a", b"2")
            assert seen(await take(watcher, 1)) == [("a", b"2")]
        with pytest.raises(ValueError, match="updates_only"):
            await kv.watch(updates_only=True, include_history=True)


async def test_a_watch_resumes_from_a_revision(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=9)
        revisions = [await kv.put("a", b"%d" % n) for n in range(5)]
        async with await kv.watch(resume_from=revisions[3]) as watcher:
            assert seen(await take(watcher, 3)) == [("a", b"3"), ("a", b"4"), None]


async def test_a_limit_marker_is_seen_as_a_purge(client: Connect, name: str) -> None:
    """decisions.md, Buckets that our client creates; ADR-8 1.1."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, limit_marker_ttl=60)
        async with await kv.watch(updates_only=True) as watcher:
            await take(watcher, 1)
            await kv.put("a", b"1", ttl=1)
            put, marker = await take(watcher, 2)
        assert put is not None
        assert marker is not None

        assert (marker.operation, marker.marker_reason) == (Operation.PURGE, "MaxAge")
        assert await keys_of(kv) == []
        await kv.create("a", b"2")


async def test_a_watch_survives_the_loss_of_its_consumer(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(follow: Follow, config: ConsumerConfig) -> OrderedReader:
        reader = follow._stream
        return OrderedReader(
            reader.api, reader.stream, config, push=True, prefetch=1, heartbeat=0.1
        )

    monkeypatch.setattr(Follow, "_ordered", impatient)
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name)
        await kv.put("a", b"1")
        stream = await js.stream(f"KV_{name}")
        async with await kv.watch() as watcher:
            await take(watcher, 2)
            reader: Any = watcher._feed._source._follow._reader  # type: ignore[attr-defined]
            await stream.delete_consumer(reader.info.name)
            await kv.put("b", b"2")
            async with asyncio.timeout(20):
                assert seen([await anext(watcher)]) == [("b", b"2")]


async def test_a_gap_in_the_initial_data_shows_no_old_values(client: Connect, name: str) -> None:
    """ADR-8: the latest values first; a consumer created again must not begin with older ones."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=5)
        for key in ("a", "b", "c", "b", "c"):
            await kv.put(key, key.encode())
        async with await kv.watch() as watcher:
            source: Any = watcher._feed._source._follow  # type: ignore[attr-defined]
            queue = source._reader._source._subscription.sink.messages
            await until(lambda: len(queue) >= 3)
            del queue[1]
            first = await take(watcher, 4)
            await kv.put("a", b"1")
            await kv.put("a", b"2")
            later = await take(watcher, 2)

        assert source._reader.restarts == 1
        assert [each and (each.key, each.revision) for each in first] == [
            ("a", 1),
            ("b", 4),
            ("c", 5),
            None,
        ]
        assert seen(later) == [("a", b"1"), ("a", b"2")]


async def test_no_change_is_missed_although_the_bucket_was_empty_at_first(
    client: Connect, name: str
) -> None:
    """A watch of keys without values, whose consumer is lost: every change counts anyway."""
    async with client() as nc:
        js = nc.jetstream()
        kv = await new_bucket(js, name, history=5)
        await kv.put("other", b"")
        async with await kv.watch("a") as watcher:
            assert await take(watcher, 1) == [None]
            reader: Any = watcher._feed._source._follow._reader  # type: ignore[attr-defined]
            await (await js.stream(f"KV_{name}")).delete_consumer(reader.info.name)
            await kv.put("a", b"1")
            await kv.put("a", b"2")
            reader._on_alarm(HeartbeatMissed("the test says so"))

            assert seen(await take(watcher, 2)) == [("a", b"1"), ("a", b"2")]


async def test_a_callback_gets_what_iteration_would_give(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        got: list[Entry | None] = []
        enough = asyncio.Event()

        async def on_entry(entry: Entry) -> None:
            got.append(entry)
            if len(got) == 1:
                raise LookupError("told")
            enough.set()

        watcher = await kv.watch(callback=on_entry)
        with pytest.raises(AlreadyClaimed, match="callback"):
            await anext(watcher)
        await watcher.ready(timeout=10)
        await kv.put("b", b"2")
        await asyncio.wait_for(enough.wait(), 10)
        await watcher.close()
        await kv.put("c", b"3")
        await nc.flush()

        assert seen(got) == [("a", b"1"), ("b", b"2")]
        assert [str(error) for error in errors] == ["told"]


async def test_a_callback_may_end_its_watch(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        ended = asyncio.Event()

        async def on_entry(_: Entry) -> None:
            await watcher.close()
            ended.set()

        watcher = await kv.watch(callback=on_entry)

        await asyncio.wait_for(ended.wait(), 10)
        await watcher.close()


async def test_stop_and_close_end_watches(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream_name = f"KV_{name}"
        async with await new_bucket(js, name) as kv:
            watcher = await kv.watch()
            other = await kv.watch()
            await take(watcher, 1)
            waiting = asyncio.ensure_future(anext(watcher))
            await asyncio.sleep(0)
            await watcher.close()
            with pytest.raises(StopAsyncIteration):
                await waiting
        with pytest.raises(StopAsyncIteration):
            await anext(other)
        await nc.flush()

        stream = await js.stream(stream_name)

        async def are_deleted() -> bool:
            return [each async for each in stream.consumer_names()] == []

        await until(are_deleted)  # nats-server handles the request on a thread of its own


async def test_keys_come_as_an_iterator(client: Connect, name: str) -> None:
    """ADR-8, "List of known keys": headers only, last per subject, no deleted ones."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=3)
        assert await keys_of(kv) == []
        await kv.put_many({f"a.{n}": b"x" for n in range(1000)} | {"b.1": b"y"})
        await kv.delete("a.5")
        await kv.purge("a.6")

        assert len(await keys_of(kv)) == 999
        assert await keys_of(kv, "b.*") == ["b.1"]
        assert len(await keys_of(kv, "a.*", "b.*")) == 999


async def test_keys_are_asked_for_without_their_values(client: Connect, name: str) -> None:
    """ADR-8, "List of known keys": seen by another client, in what is asked and what comes."""
    async with client() as nc, client() as other:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put_many({f"a.{n}": bytes(10_000) for n in range(20)})
        asked = await other.subscribe("$JS.API.CONSUMER.CREATE.>")
        await other.flush()
        before = nc.stats.in_bytes
        assert len(await keys_of(kv)) == 20
        received = nc.stats.in_bytes - before

        request = json.loads((await asked.next(timeout=30)).data)
        assert request["config"]["headers_only"] is True
        assert request["config"]["deliver_policy"] == "last_per_subject"
        assert received < 20 * 10_000 / 2


async def test_a_deleted_key_is_part_of_the_initial_data(client: Connect, name: str) -> None:
    """ADR-8, "Watch": without ignore_deletes the initial data shows markers too."""
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name, history=3)
        await kv.put_many({"a": b"1", "b": b"2", "c": b"3"})
        await kv.delete("b")
        await kv.purge("c")
        async with kv.watch() as watcher:
            initial = [(entry.key, entry.operation) async for entry in watcher.initial()]

        assert initial == [("a", Operation.PUT), ("b", Operation.DEL), ("c", Operation.PURGE)]


async def test_a_watcher_is_read_in_every_way(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put_many({"a": b"1", "b": b"2", "c": b"3"})
        async with kv.watch() as watcher:
            await watcher.ready()
            async for entry in watcher.initial():
                assert entry.key == "a"
                break
            # Breaking off loses nothing.
            assert (await watcher.next()).key == "b"
            before = watcher.initial_done
            assert [entry.key async for entry in watcher.initial()] == ["c"]
            assert (before, watcher.initial_done) == (False, True)
            assert [entry async for entry in watcher.initial()] == []
            with pytest.raises(
                RequestTimeout, match=f"bucket '{name}': nothing arrived within 0.05 s"
            ):
                await watcher.next(timeout=0.05)
            await kv.delete("a")
            assert (await watcher.next()).operation is Operation.DEL
        with pytest.raises(AlreadyEnded):
            await watcher.next()

        async with kv.watch("none") as empty:
            await empty.ready()
            assert [entry async for entry in empty.initial()] == []
        async with kv.watch() as plain:
            # A delete is the last word about a key: it is part of the initial data.
            found = {entry.key: entry.operation async for entry in plain.initial()}
            assert found == {"a": Operation.DEL, "b": Operation.PUT, "c": Operation.PUT}
            assert repr(plain) == f"Watcher(bucket {name!r})"


async def test_a_value_is_asked_for_with_a_default(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await new_bucket(nc.jetstream(), name)
        await kv.put("a", b"1")
        await kv.put("gone", b"1")
        await kv.delete("gone")

        found = await kv.get("a", default=None)
        assert found is not None
        assert found.value == b"1"
        assert await kv.get("b", default=None) is None
        assert await kv.get("gone", default=5) == 5
        assert [await kv.exists(key) for key in ("a", "b", "gone")] == [True, False, False]
        with pytest.raises(KeyNotFound):
            await kv.get("gone")
        numbers = kv.typed(int)
        assert (await numbers.get("a", default=None) is not None, await numbers.exists("b")) == (
            True,
            False,
        )
        assert await numbers.get("b", default="none") == "none"
