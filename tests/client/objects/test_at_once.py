"""Object stores that several clients change at once, cancelled calls, damaged objects, odd names.

A failed or cut put leaves no garbage. ADR-53: markers, not purges.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.buckets import new_store
from tests.support.servers import ServerProcess

from jetspark import Client, JetStream, ObjectInfo, Timeout, sync
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.objects import putting
from jetspark.client.jetstream.objects.info import encode_name
from jetspark.client.jetstream.objects.meta import MetaMessages
from jetspark.errors import (
    AlreadyEnded,
    BadName,
    Error,
    ObjectExists,
    ObjectIncomplete,
    ObjectNotFound,
    ProtocolViolation,
    RequestTimeout,
    WrongLastSequence,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]
LARGE = bytes(range(256)) * 4001


async def chunk_ids(js: JetStream, name: str) -> set[str]:
    info = await (await js.stream(f"OBJ_{name}")).info(subjects_filter=f"$O.{name}.C.>")
    return {subject.rpartition(".")[2] for subject in info.state.subjects or {}}


def before_the_next_write(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[object]], skipped: int = 0
) -> None:
    """Have someone else act between the look of a call and its (``skipped`` + 1)th write."""
    write = MetaMessages.write
    left = skipped

    async def late(self: MetaMessages, *args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1:
            await act()
        return await write(self, *args, **options)

    monkeypatch.setattr(MetaMessages, "write", late)


async def test_an_edit_does_not_bring_back_data_that_was_replaced(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc, client() as other:
        store = await new_store(nc.jetstream(), name)
        theirs = await other.jetstream().object_store(name)
        await store.put("a", LARGE)
        before_the_next_write(monkeypatch, lambda: theirs.put("a", b"new"))
        await store.update_meta("a", description="edited")

        assert await store.get("a") == b"new"
        assert (await store.info("a")).description == "edited"


async def test_a_delete_removes_what_was_put_meanwhile(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc, client() as other:
        store = await new_store(nc.jetstream(), name)
        theirs = await other.jetstream().object_store(name)
        await store.put("a", LARGE)
        before_the_next_write(monkeypatch, lambda: theirs.put("a", b"new"))
        await store.delete("a")

        with pytest.raises(ObjectNotFound):
            await store.info("a")
        assert await chunk_ids(nc.jetstream(), name) == set()


async def test_a_link_does_not_hide_an_object_that_was_put_meanwhile(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc, client() as other:
        store = await new_store(nc.jetstream(), name)
        theirs = await other.jetstream().object_store(name)
        target = await store.put("a", LARGE)
        before_the_next_write(monkeypatch, lambda: theirs.put("l", b"new"))

        with pytest.raises(ObjectExists, match="'l' exists"):
            await store.link("l", target)
        assert await store.get("l") == b"new"


@pytest.mark.parametrize("when", [0, 1])
async def test_a_rename_takes_what_was_put_meanwhile(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    """Before the new name is written, and between that and the marker of the old one."""
    async with client() as nc, client() as other:
        store = await new_store(nc.jetstream(), name)
        theirs = await other.jetstream().object_store(name)
        await store.put("a", LARGE)
        before_the_next_write(monkeypatch, lambda: theirs.put("a", b"new"), when)
        renamed = await store.update_meta("a", new_name="b")

        assert await store.get("b") == b"new"
        assert [info.name async for info in store.list()] == ["b"]
        assert await chunk_ids(nc.jetstream(), name) == {renamed.nuid}


async def test_a_rename_of_what_was_deleted_meanwhile_is_withdrawn(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc, client() as other:
        store = await new_store(nc.jetstream(), name)
        theirs = await other.jetstream().object_store(name)
        await store.put("a", LARGE)
        before_the_next_write(monkeypatch, lambda: theirs.delete("a"), 1)

        with pytest.raises(ObjectNotFound):
            await store.update_meta("a", new_name="b")
        assert [info.name async for info in store.list()] == []


async def test_watchers_see_both_sides_of_a_rename(client: Connect, name: str) -> None:
    """And so do those who ask for the sequence: a purge would not have one (ADR-53)."""
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        await store.put("a", LARGE)
        async with await store.watch(updates_only=True) as watcher:
            assert [each async for each in watcher.initial()] == []
            await store.update_meta("a", new_name="b")
            seen = [await anext(watcher), await anext(watcher)]
        again = await store.put("a", b"another")

        assert [(info.name, info.deleted) for info in seen] == [("b", False), ("a", True)]
        assert await store.get("b") == LARGE
        assert await store.get("a", min_last_seq=again.seq) == b"another"


async def test_an_object_that_is_replaced_while_it_is_read_is_read_again(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        data = LARGE * 4
        await store.put("a", data)
        puts: list[asyncio.Task[Any]] = []

        def replace_it(_given: int, _total: int) -> None:
            if not puts:
                puts.append(asyncio.create_task(store.put("a", LARGE[::-1])))

        got = await store.get("a", progress=replace_it)
        await asyncio.gather(*puts)
        reader = await store.open("a")
        first = await reader.read(10)
        await store.put("a", b"new")
        (rest,) = await asyncio.gather(reader.read(), return_exceptions=True)

        # What was in flight already may still come; then it is the old object, whole.
        if isinstance(rest, BaseException):
            assert "open it again" in rest.__notes__[0]
        else:
            assert first + rest == LARGE[::-1]
        # The old object if all of it was in flight, else the new one: no mixture.
        assert got in {data, LARGE[::-1]}
        assert await store.get("a") == b"new"


async def test_a_reader_that_has_failed_or_was_closed_is_not_at_its_end(
    client: Connect, name: str
) -> None:
    """No one may take for the end of the object what is not."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", LARGE)
        closed = await store.open("a")
        async with closed:
            await closed.read(5)
        done = await store.open("a")
        async with done:
            await done.read()
        await (await js.stream(f"OBJ_{name}")).delete_msg(1)
        failed = await store.open("a")

        with pytest.raises(AlreadyEnded, match="the reader of object 'a' is closed"):
            await closed.read()
        assert await done.read() == b""
        for _ in range(2):
            with pytest.raises(ObjectIncomplete):
                await failed.read()
        assert nc.stats.subscriptions == 0


@pytest.mark.parametrize("left", [0, 3])
async def test_missing_chunks_are_reported_at_once(client: Connect, name: str, left: int) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        info = await store.put("a", LARGE)
        await (await js.stream(f"OBJ_{name}")).purge(subject=f"$O.{name}.C.{info.nuid}", keep=left)
        async with asyncio.timeout(2):
            with pytest.raises(ObjectIncomplete, match=r"\d+ of its 1024256 bytes exist"):
                await store.get("a")
        await store.delete("a")

        assert await chunk_ids(js, name) == set()


async def test_a_meta_message_that_cannot_be_read_hides_no_others(
    client: Connect, name: str
) -> None:
    told: list[Exception] = []
    async with client(error_callback=told.append) as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", b"1")
        for bad in ("b", "c"):
            await js.publish(f"$O.{name}.M.{encode_name(bad)}", b'{"headers":{"a":"b"}}')

        assert [info.name async for info in store.list()] == ["a"]
        assert len(told) == 2
        async with await store.watch() as watcher:
            assert [info.name async for info in watcher.initial()] == ["a"]
        with pytest.raises(ProtocolViolation, match="cannot be decoded") as raised:
            await store.get("b")
        assert raised.value.__notes__ == ["object 'b': put it again, or delete it"]
        await store.put("b", b"2")
        await store.delete("c")
        assert [info.name async for info in store.list()] == ["a", "b"]


async def test_what_cannot_be_stored_is_refused_before_anything_is_sent(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        wrong: Any = 5
        refused: list[tuple[type[Exception], str, Any]] = [
            (BadName, "5000 bytes, expected at most 2048", ("x" * 5000, b"")),
            (BadName, "it cannot be encoded as UTF-8", ("\udcff", b"")),
            (TypeError, "an object's name must be str, not int", (wrong, b"")),
            (TypeError, 'open the file with "rb"', ("a", io.StringIO("text"))),
        ]
        for kind, text, arguments in refused:
            with pytest.raises(kind, match=text):
                await store.put(*arguments)
        with pytest.raises(ValueError, match="chunk_size=2000000: expected at most 1048576"):
            await store.put("a", b"", chunk_size=2_000_000)
        with pytest.raises(TypeError, match=r"headers\['h'\]='1': expected a list of str"):
            await store.put("a", b"", headers={"h": "1"})  # type: ignore[dict-item]
        with pytest.raises(TypeError, match=r"metadata\['m'\]=5: expected a str"):
            await store.update_meta("a", metadata={"m": wrong})
        with pytest.raises(BadName):
            await store.link_bucket("a", "no bucket")
        longest = "ü" * 1024
        await store.put(longest, b"1")

        assert await store.get(longest) == b"1"
        assert [info.name async for info in store.list()] == [longest]
        assert nc.stats.reconnects == 0


async def test_a_put_that_is_cancelled_at_any_time_leaves_nothing(
    client: Connect, name: str
) -> None:
    """Also when it is cancelled again while it cleans up."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", b"old")
        for turns in range(0, 40, 2):
            put = asyncio.create_task(store.put("a", LARGE[: 300_000 + turns]))
            for _ in range(turns):
                await asyncio.sleep(0)
            put.cancel()
            for _ in range(turns % 3):
                await asyncio.sleep(0)
            put.cancel()
            await asyncio.wait([put])
        async with asyncio.timeout(10):
            while True:
                info = await store.info("a")
                clean = await chunk_ids(js, name) == {info.nuid}
                if clean and not nc.stats.requests_pending:
                    break
                await asyncio.sleep(0.02)

        assert len(await store.get("a")) in {3, *range(300_000, 300_040)}
        assert nc.stats.subscriptions == 0


async def test_chunks_that_could_not_be_removed_are_reported_but_no_failure(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception] = []
    async with client(error_callback=told.append) as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", b"old")

        async def fails(*_args: Any, **_options: Any) -> int:
            raise RequestTimeout("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(MetaMessages, "purge_chunks", fails)
            await store.put("a", b"new")
            await store.delete("a")

        assert len(told) == 2
        assert "purge_orphans removes them" in told[0].__notes__[0]
        assert (await store.purge_orphans(older_than=0)).objects == 2


@pytest.mark.parametrize("before", [b"", b"before"], ids=["new", "replacing"])
async def test_a_meta_message_that_comes_late_is_refused(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    """The put has failed when the server gets its message after all; what existed stays."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        kept = {(await store.put("a", before)).nuid} if before else set()
        held: list[Callable[[], Awaitable[Any]]] = []
        write = MetaMessages.write

        async def keep(self: MetaMessages, *args: Any, **options: Any) -> Any:
            if held:
                return await write(self, *args, **options)
            held.append(lambda: write(self, *args, **options))
            raise RequestTimeout("no ack")

        monkeypatch.setattr(MetaMessages, "write", keep)
        with pytest.raises(RequestTimeout):
            await store.put("a", LARGE)
        with pytest.raises(WrongLastSequence):
            await held[0]()

        assert await chunk_ids(js, name) == kept
        if before:
            assert await store.get("a") == before
        else:
            with pytest.raises(ObjectNotFound):
                await store.get("a")


async def test_a_put_whose_chunks_were_removed_meanwhile_leaves_the_old_object(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``purge_orphans`` does to a put that paused for longer than it allows."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        before = await store.put("a", b"before")

        async def removed(self: MetaMessages, nuid: str, *, timeout: Timeout | None) -> int:
            return 1 - await self.purge_chunks(nuid, timeout=timeout)

        with monkeypatch.context() as patched:
            patched.setattr(putting, "LONG_PUT", -1.0)
            patched.setattr(MetaMessages, "count_chunks", removed)
            with pytest.raises(ObjectIncomplete):
                await store.put("a", b"after")

        assert await store.get("a") == b"before"
        assert await chunk_ids(js, name) == {before.nuid}


async def test_a_store_whose_batches_were_switched_off_is_still_written(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await js.update_stream(f"OBJ_{name}", allow_batched=False)
        await store.put("a", LARGE)

        assert await store.get("a") == LARGE


async def test_a_silent_server_ends_a_put_in_time(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client() as nc:
        js = nc.jetstream(timeout=0.1)
        await new_store(nc.jetstream(), name)
        store = await js.object_store(name)

        async def silence(*_args: Any, **_options: Any) -> Any:
            await asyncio.sleep(60)

        async def data() -> AsyncIterator[bytes]:
            yield LARGE
            monkeypatch.setattr(nc._core, "send_message", lambda *_args: None)
            monkeypatch.setattr(ApiClient, "call", silence)
            yield LARGE * 10

        async with asyncio.timeout(5):
            with pytest.raises(Error):
                await store.put("a", data())


async def test_a_link_that_leads_nowhere_names_itself(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        await store.link("l", await store.put("a", b"1"))
        await store.delete("a")

        with pytest.raises(ObjectNotFound, match="'a' not found") as raised:
            await store.get("l")
        assert raised.value.__notes__ == [f"'l' in bucket {name!r} is a link to it"]


async def test_a_put_tells_its_time_and_progress(client: Connect, name: str) -> None:
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        told: list[tuple[int, int]] = []
        put = await store.put("a", LARGE, progress=lambda *at: told.append(at))
        await store.put("b", [LARGE], progress=lambda *at: told.append(at))
        stored = await store.info("a")

        assert told[7] == (len(LARGE), len(LARGE))
        assert told[-1] == (len(LARGE), -1)
        assert abs(put.time.timestamp() - stored.time.timestamp()) < 60


def test_a_generator_may_block_and_use_the_blocking_client(
    server: ServerProcess, name: str
) -> None:
    with sync.connect(server.url) as nc:
        store = nc.jetstream().create_object_store(name)
        store.put("a", LARGE)

        def copied() -> Iterator[bytes]:
            with store.open("a") as reader:
                yield from reader
            yield store.get("a")

        store.put("b", copied(), timeout=10)
        with store.open("a") as reader:
            store.put("c", reader)

        assert store.get("b") == LARGE * 2
        assert store.get("c") == LARGE


async def test_changes_whose_answers_are_lost_are_whole(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion removes the chunks, and a rename does not end with two names for them."""
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        await store.put("a", LARGE)
        kept = await store.put("b", LARGE)
        write = MetaMessages.write

        async def unheard(self: MetaMessages, info: ObjectInfo, **options: Any) -> ObjectInfo:
            stored = await write(self, info, **options)
            if info.deleted:
                raise RequestTimeout("no ack")
            return stored

        monkeypatch.setattr(MetaMessages, "write", unheard)
        await store.delete("a")
        await store.update_meta("b", new_name="c")

        assert [info.name async for info in store.list()] == ["c"]
        assert await chunk_ids(js, name) == {kept.nuid}
        assert await store.get("c") == LARGE
