"""Object stores leave no garbage, follow links, and live on mirrors."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.buckets import new_store
from tests.support.chaos_proxy import ChaosProxy
from tests.support.servers import ServerProcess

from jetspark import Client, JetStream, StreamSource, connect
from jetspark.client.jetstream.objects.info import encode_name
from jetspark.client.jetstream.objects.meta import MetaMessages
from jetspark.errors import NotSupported, RequestTimeout

Connect = Callable[..., AbstractAsyncContextManager[Client]]
LARGE = bytes(range(256)) * 4001


async def chunk_ids(js: JetStream, name: str) -> list[str]:
    info = await (await js.stream(f"OBJ_{name}")).info(subjects_filter=f"$O.{name}.C.>")
    return [subject.rpartition(".")[2] for subject in info.state.subjects or {}]


async def test_of_puts_at_once_one_wins_and_the_others_leave_nothing(
    client: Connect, name: str
) -> None:
    async with client() as nc, client() as other:
        store = await new_store(nc.jetstream(), name)
        theirs = await other.jetstream().object_store(name)
        puts = [
            handle.put("a", b"%d" % n * 1000)
            for n, handle in enumerate([store, theirs] * 4)
        ]  # fmt: skip
        done = await asyncio.gather(*puts)
        info = await store.info("a")

        assert info.nuid in {each.nuid for each in done}
        assert info.seq == max(each.seq for each in done)
        assert await chunk_ids(nc.jetstream(), name) == [info.nuid]
        assert len(await store.get("a")) == 1000


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "window"])
async def test_a_put_whose_connection_is_cut_leaves_nothing(
    server: ServerProcess, client: Connect, name: str, fast: bool
) -> None:
    async with client() as nc, ChaosProxy(server.address) as proxy:
        js = nc.jetstream()
        await new_store(js, name)
        async with await connect(proxy.url, reconnect_wait=0.01) as cut:
            store = await cut.jetstream(timeout=0.7).object_store(name)
            if not fast:
                store._source.info = await without_batches(js, name)

            async def data() -> AsyncIterator[bytes]:
                yield LARGE
                proxy.cut()
                yield LARGE
                raise LookupError

            with pytest.raises(LookupError):
                await store.put("a", data())

            assert await chunk_ids(js, name) == []


async def without_batches(js: JetStream, name: str) -> Any:
    return (await js.update_stream(f"OBJ_{name}", allow_batched=False)).cached_info


async def test_a_put_whose_last_answer_is_lost_is_not_torn(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is stored is unknown then; what must not be is an object without its data."""
    async with client() as nc:
        store = await new_store(nc.jetstream(), name)
        write = MetaMessages.write

        async def unheard(self: MetaMessages, *args: Any, **options: Any) -> Any:
            await write(self, *args, **options)
            raise RequestTimeout("no ack")

        monkeypatch.setattr(MetaMessages, "write", unheard)
        with pytest.raises(RequestTimeout):
            await store.put("a", LARGE)

        assert await store.get("a") == LARGE


async def test_links_in_a_cycle_are_reported(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        store = await new_store(js, name)
        for here, there in (("a", "b"), ("b", "a")):
            meta = {
                "name": here,
                "bucket": name,
                "nuid": here,
                "options": {"link": {"bucket": name, "name": there}},
            }
            await js.publish(f"$O.{name}.M.{encode_name(here)}", json.dumps(meta).encode())

        with pytest.raises(NotSupported, match="cycle"):
            await store.get("a")


async def test_a_mirror_reads_its_own_and_writes_to_its_origin(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        origin = await new_store(js, name)
        first = await origin.put("a", LARGE)
        mirror = await new_store(js, f"{name}-m", mirror=StreamSource(name=name))
        assert await mirror.get("a", min_last_seq=first.seq) == LARGE
        second = await mirror.put("a", b"new")
        await mirror.put("b", b"other")
        deleted = await js.object_store(f"{name}-m", read_after_write=True)
        await deleted.info("a", min_last_seq=second.seq)
        await deleted.delete("a")

        assert [each.name async for each in origin.list()] == ["b"]
        assert [each.name async for each in deleted.list()] == ["b"]
        assert await deleted.get("b") == b"other"
        assert await chunk_ids(js, name) == [(await origin.info("b")).nuid]
        assert (await mirror.status()).config.mirror is not None
