"""ADR-8: buckets are compatible with other implementations; here, nats-py's next to ours."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import nats
import nats.js.api
import nats.js.errors
import pytest
from tests.support.servers import ServerProcess

from jetspark import Client, KeyValueConfig, Operation
from jetspark.errors import KeyExists, KeyNotFound

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.mark.parametrize("made_by", ["ours", "theirs"])
async def test_buckets_travel_between_clients(
    server: ServerProcess, client: Connect, name: str, made_by: str
) -> None:
    released = await nats.connect(server.url)
    try:
        async with client() as nc:
            js, their_js = nc.jetstream(), released.jetstream()
            if made_by == "ours":
                await js.create_key_value(KeyValueConfig(bucket=name, history=5))
            else:
                await their_js.create_key_value(nats.js.api.KeyValueConfig(bucket=name, history=5))
            ours, theirs = await js.key_value(name), await their_js.key_value(name)
            revision = await ours.put("a.b", b"1")
            await theirs.update("a.b", b"2", revision)
            await theirs.put("gone", b"x")
            await ours.delete("gone")
            await ours.put("purged", b"x")
            await theirs.purge("purged")

            assert (await ours.get("a.b")).value == b"2"
            assert (await theirs.get("a.b")).revision == revision + 1
            assert sorted([key async for key in ours.keys(">")]) == ["a.b"]
            assert await theirs.keys() == ["a.b"]
            with pytest.raises(nats.js.errors.KeyNotFoundError):
                await theirs.get("gone")
            with pytest.raises(KeyNotFound):
                await ours.get("purged")
            with pytest.raises(KeyExists):
                await ours.create("a.b", b"")
            assert [each.operation for each in await ours.history(">")] == [
                Operation.PUT,
                Operation.PUT,
                Operation.PUT,
                Operation.DEL,
                Operation.PURGE,
            ]
    finally:
        await released.close()


ODD_KEYS = ("-", "=", "1", "A.b.C", "a/b=c_d-e", "x.y/z", "a.b.c.d.e.f")


async def test_every_key_that_one_client_takes_the_other_takes(
    server: ServerProcess, client: Connect, name: str
) -> None:
    released = await nats.connect(server.url)
    try:
        async with client() as nc:
            ours = await nc.jetstream().create_key_value(KeyValueConfig(bucket=name))
            theirs = await released.jetstream().key_value(name)
            for key in ODD_KEYS:
                await ours.put(key, b"1")
                entry = await theirs.get(key)
                await theirs.update(key, b"2", entry.revision)

            found = await ours.get_many(ODD_KEYS)
            assert {key: entry.value for key, entry in found.items()} == dict.fromkeys(
                ODD_KEYS, b"2"
            )
            assert sorted(await theirs.keys()) == sorted(ODD_KEYS)
    finally:
        await released.close()


async def test_a_watch_sees_what_the_other_client_does(
    server: ServerProcess, client: Connect, name: str
) -> None:
    released = await nats.connect(server.url)
    try:
        async with client() as nc:
            ours = await nc.jetstream().create_key_value(KeyValueConfig(bucket=name))
            theirs = await released.jetstream().key_value(name)
            watcher: Any = await theirs.watchall()
            async with await ours.watch() as watching, asyncio.timeout(10):
                assert [each async for each in watching.initial()] == []
                await theirs.put("a", b"1")
                await theirs.delete("a")
                seen = [await anext(watching), await anext(watching)]
                assert await watcher.updates(timeout=5) is None
                await ours.purge("a")
                told = [await watcher.updates(timeout=5) for _ in range(3)]

            assert [each.operation for each in seen] == [Operation.PUT, Operation.DEL]
            assert [each and each.operation for each in told] == [None, "DEL", "PURGE"]
    finally:
        await released.close()
