"""What killed puts leave is found and removed, and nothing else is (objects/orphans.py).

A failed or cut put leaves no garbage. A killed one does, until someone
calls ``purge_orphans``.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.buckets import new_store
from tests.support.servers import ServerProcess

from jetspark import Client, JetStream, OrphansPurged, sync
from jetspark.client.jetstream.objects import putting
from jetspark.client.jetstream.objects.info import encode_name
from jetspark.client.jetstream.objects.meta import MetaMessages
from jetspark.client.jetstream.objects.orphans import OrphanPurge
from jetspark.errors import (
    NotSupported,
    ObjectIncomplete,
    ObjectNotFound,
    ProtocolViolation,
    StreamSealed,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]
LARGE = bytes(range(256)) * 4001

# Puts for ever, and says so once chunks are in flight.
ENDLESS = """
import sys
from jetspark import sync

def pieces():
    for n in range(1 << 40):
        yield bytes(128 * 1024)
        if n == 40:
            print("going", flush=True)

with sync.connect(sys.argv[1]) as nc:
    nc.jetstream().object_store(sys.argv[2]).put("never", pieces())
"""


async def chunk_ids(js: JetStream, name: str) -> set[str]:
    info = await (await js.stream(f"OBJ_{name}")).info(subjects_filter=f"$O.{name}.C.>")
    return {subject.rpartition(".")[2] for subject in info.state.subjects or {}}


async def leave(js: JetStream, name: str, nuid: str, chunks: int = 3) -> None:
    """What a put that was killed leaves."""
    for _ in range(chunks):
        await js.publish(f"$O.{name}.C.{nuid}", bytes(100))


async def test_what_a_killed_process_leaves_is_removed(
    server: ServerProcess, client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        kept = await store.put("kept", LARGE)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ENDLESS, server.url, name, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        await process.stdout.readline()
        process.kill()
        await process.wait()
        left = await chunk_ids(js, name) - {kept.nuid}
        young = await store.purge_orphans()
        told: list[tuple[int, int]] = []
        gone = await store.purge_orphans(older_than=0, progress=lambda *at: told.append(at))

        assert len(left) == 1
        assert (young.objects, young.chunks, young.young) == (0, 0, 1)
        assert (gone.objects, gone.young, told) == (1, 0, [(1, 1)])
        assert gone.chunks > 1
        assert await chunk_ids(js, name) == {kept.nuid}
        assert await store.get("kept") == LARGE
        assert (await store.purge_orphans(older_than=0)).objects == 0


async def test_objects_links_and_puts_in_progress_keep_their_chunks(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        target = await store.put("a", LARGE)
        await store.link("l", target)
        await store.put("empty", b"")
        await leave(js, name, "gone")
        await store.put("b", b"b")
        await store.delete("b")
        going, on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield LARGE
            going.set()
            await on.wait()
            yield LARGE

        put = asyncio.create_task(store.put("slow", slow()))
        await going.wait()
        purged = await store.purge_orphans(older_than=30)
        on.set()
        slowly = await put

        assert (purged.objects, purged.young) == (0, 2)  # what was left is young as well
        assert await chunk_ids(js, name) == {target.nuid, slowly.nuid, "gone"}
        assert await store.get("slow") == LARGE * 2
        assert await store.purge_orphans(older_than=0) == type(purged)(
            objects=1, chunks=3, young=0
        )
        with pytest.raises(ValueError, match="older_than=-1"):
            await store.purge_orphans(older_than=-1)


async def test_many_orphans_are_removed_in_groups(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        for n in range(70):
            await leave(js, name, f"n{n}", 1)
        told: list[tuple[int, int]] = []
        purged = await store.purge_orphans(older_than=0, progress=lambda *at: told.append(at))

        assert (purged.objects, purged.chunks) == (70, 70)
        assert told == [(32, 70), (64, 70), (70, 70)]
        assert nc.stats.subscriptions == 0


async def test_a_rename_while_they_are_looked_for_loses_nothing(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the looks the object changes its name again and again."""
    async with client() as nc, client() as other:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a0", LARGE)
        await leave(js, name, "gone")
        theirs = await other.jetstream().object_store(name)
        names = iter(range(1000))
        listed = OrphanPurge._list_chunks
        newest = OrphanPurge._newest

        async def renamed() -> None:
            n = next(names)
            await theirs.update_meta(f"a{n}", new_name=f"a{n + 1}")

        async def list_then_rename(self: OrphanPurge, last_seq: int) -> None:
            await listed(self, last_seq)
            await renamed()

        async def rename_then_look(self: OrphanPurge) -> int:
            found = await newest(self)
            if self._named and len(self._chunks) and next(looks) < 5:
                await renamed()
            return found

        looks = iter(range(1000))
        monkeypatch.setattr(OrphanPurge, "_list_chunks", list_then_rename)
        monkeypatch.setattr(OrphanPurge, "_newest", rename_then_look)
        purged = await store.purge_orphans(older_than=0)

        assert purged.objects == 1
        assert await store.get(f"a{next(names)}") == LARGE


async def test_an_object_that_appears_between_look_and_purge_keeps_its_chunks(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A put that paused for long ends just then: the next look sees its name."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        paused, on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield LARGE
            paused.set()
            await on.wait()

        put = asyncio.create_task(store.put("late", slow()))
        await paused.wait()
        settle = OrphanPurge._settle

        async def end_then_settle(self: OrphanPurge, *args: Any) -> None:
            if await store._meta.find("late", timeout=None) is None and self._named is not None:
                await settle(self, *args)
                on.set()
                await put
            else:
                await settle(self, *args)

        monkeypatch.setattr(OrphanPurge, "_settle", end_then_settle)
        purged = await store.purge_orphans(older_than=0)

        assert purged.objects == 0
        assert await store.get("late") == LARGE


async def test_a_long_put_whose_chunks_were_removed_takes_its_object_back(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        monkeypatch.setattr(putting, "LONG_PUT", 0.0)
        await store.put("whole", LARGE)
        change = MetaMessages.change

        async def purged_before(self: MetaMessages, *args: Any, **options: Any) -> Any:
            assert (await store.purge_orphans(older_than=0)).objects == 1
            return await change(self, *args, **options)

        monkeypatch.setattr(MetaMessages, "change", purged_before)
        with pytest.raises(ObjectIncomplete, match="0 of its 1024256 bytes") as raised:
            await store.put("paused", LARGE)
        monkeypatch.setattr(MetaMessages, "change", change)

        assert "purge_orphans" in raised.value.__notes__[0]
        with pytest.raises(ObjectNotFound):
            await store.get("paused")
        assert await store.get("whole") == LARGE


async def test_where_nothing_can_be_removed_it_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", b"1")
        await leave(js, name, "gone")
        mirror = await new_store(js, f"{name}-m", mirror=name)
        with pytest.raises(NotSupported, match=f"of its origin, '{name}'"):
            await mirror.purge_orphans()
        await js.publish(f"$O.{name}.M.{encode_name('odd')}", b"no json")
        with pytest.raises(ProtocolViolation, match="cannot be decoded") as raised:
            await store.purge_orphans(older_than=0)
        await store.delete("odd")
        await store.seal()
        with pytest.raises(StreamSealed, match="is sealed: nothing can be removed"):
            await store.purge_orphans(older_than=0)

        assert "nothing was removed" in raised.value.__notes__[0]
        assert "gone" in await chunk_ids(js, name)
        assert nc.stats.subscriptions == 0


def test_blocking(server: ServerProcess, name: str) -> None:
    with sync.connect(server.url) as nc:
        js = nc.jetstream()
        store = js.create_object_store(name)
        js.publish(f"$O.{name}.C.gone", b"1")
        store.put("a", b"1")

        assert store.purge_orphans(older_than=0) == OrphansPurged(objects=1, chunks=1, young=0)
        assert store.get("a") == b"1"


async def test_a_cancelled_search_leaves_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", b"1")
        await leave(js, name, "gone")
        stream = await js.stream(f"OBJ_{name}")
        before = [each.name async for each in stream.consumers()]
        for turns in range(0, 40, 3):
            search = asyncio.create_task(store.purge_orphans(older_than=60))
            for _ in range(turns):
                await asyncio.sleep(0)
            search.cancel()
            async with asyncio.timeout(5):
                await asyncio.wait([search])

        assert nc.stats.subscriptions == 0
        async with asyncio.timeout(5):
            # No one waits for a consumer to be gone.
            while [each.name async for each in stream.consumers()] != before:
                await asyncio.sleep(0.01)
