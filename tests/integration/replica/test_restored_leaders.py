"""Copies of a stream that was restored from an older copy of its store, and so went back.

What it stores from then on has sequences that were copied before, for other messages.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.support.remotes import HUB, caught_up, copying, fill, info, make, rows
from tests.support.replicas import PATIENT, ask, copied, replica_of

import jetspark
from jetspark import Client, KeyValueConfig, connect

SECONDS = 60.0


class Leader:
    """A server whose store can be put back to what it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved = folder.with_name("saved")
        self.port = 0

    def server(self) -> jetspark.Server:
        """The server, always at the same address."""
        return jetspark.Server(store_dir=self._folder, port=self.port or -1)

    def save(self) -> None:
        """Copy the store while no server uses it."""
        shutil.copytree(self._folder, self._saved)

    def restore(self) -> None:
        """Put the older copy in its place."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._saved, self._folder)


async def read_at(replica: Client, seq: int) -> bytes:
    return (await ask(replica, "$JS.API.DIRECT.GET.KV_b", b'{"seq":%d}' % seq)).data


@pytest.mark.parametrize(
    ("written", "away"), [(1, False), (4, False), (4, True)], ids=["behind", "past", "away"]
)
async def test_a_replica_copies_again_what_went_back(
    written: int, away: bool, tmp_path: Path
) -> None:
    leader = Leader(tmp_path / "leader")
    async with leader.server() as server, await connect(server.client_url) as client:
        leader.port, url = server.port, server.client_url
        kv = await client.jetstream().create_key_value(KeyValueConfig(bucket="b", history=10))
        await kv.put("a", b"kept")
    leader.save()
    async with AsyncExitStack() as stack:
        replica = replica_of(url, store_dir=tmp_path / "replica", times=PATIENT)
        await stack.enter_async_context(replica)
        async with leader.server(), await connect(url) as client:
            kv = await client.jetstream().key_value("b")
            for _ in range(3):
                await kv.put("a", b"lost")
            await copied(replica, "KV_b", 4)
        if away:
            await replica.close()
        leader.restore()
        async with leader.server(), await connect(url) as client:
            kv = await client.jetstream().key_value("b")
            for _ in range(written):
                await kv.put("c", b"new")
            if away:
                replica = replica_of(url, store_dir=tmp_path / "replica", times=PATIENT)
                await stack.enter_async_context(replica)
            async with await connect(replica.client_url) as reader, asyncio.timeout(SECONDS):
                while await read_at(reader, 2) != b"new":
                    await asyncio.sleep(0.05)
                await copied(replica, "KV_b", 1 + written)

                assert await read_at(reader, 2) == b"new"
                last = await ask(reader, "$JS.API.DIRECT.GET.KV_b.$KV.b.a")
                assert last.data == b"kept"


@pytest.mark.parametrize("written", [1, 8], ids=["behind", "past"])
async def test_a_mirror_says_that_its_origin_went_back(written: int, tmp_path: Path) -> None:
    leader = Leader(tmp_path / "leader")
    async with leader.server() as server, await connect(server.client_url) as there:
        leader.port, url = server.port, server.client_url
        await make(there, "A", subjects=["a.>"])
        await fill(there, 5)
    leader.save()
    async with copying(url) as server, await connect(server.client_url) as here:
        async with leader.server(), await connect(url) as there:
            await make(here, "M", mirror={"name": "A", "external": HUB})
            await fill(there, 5, first=5)
            await caught_up(here, "M", 10)
            before = await rows(here, "M")
        leader.restore()
        async with leader.server(), await connect(url) as there:
            await fill(there, written, first=100)
            async with asyncio.timeout(SECONDS):
                while "lost messages" not in str((await info(here, "M"))["mirror"].get("error")):
                    await asyncio.sleep(0.05)

            assert (await rows(here, "M"))[:10] == before


@pytest.mark.parametrize("away", [False, True], ids=["connected", "away"])
async def test_a_replica_copies_a_bucket_of_one_value_per_key_again_that_went_back(
    away: bool, tmp_path: Path
) -> None:
    """The leader has no message any more under the sequences that it gave twice."""
    leader = Leader(tmp_path / "leader")
    async with leader.server() as server, await connect(server.client_url) as client:
        leader.port, url = server.port, server.client_url
        kv = await client.jetstream().create_key_value(KeyValueConfig(bucket="b", history=1))
        await kv.put("a", b"kept")
    leader.save()
    async with AsyncExitStack() as stack:
        replica = replica_of(url, store_dir=tmp_path / "replica", times=PATIENT)
        await stack.enter_async_context(replica)
        async with leader.server(), await connect(url) as client:
            kv = await client.jetstream().key_value("b")
            for _ in range(3):
                await kv.put("a", b"lost")
            await copied(replica, "KV_b", 4)
        if away:
            await replica.close()
        leader.restore()
        async with leader.server(), await connect(url) as client:
            kv = await client.jetstream().key_value("b")
            for _ in range(8):
                await kv.put("c", b"new")
            if away:
                replica = replica_of(url, store_dir=tmp_path / "replica", times=PATIENT)
                await stack.enter_async_context(replica)
            async with await connect(replica.client_url) as reader, asyncio.timeout(SECONDS):
                while await last_of(reader, "a") != b"kept":
                    await asyncio.sleep(0.05)
                await copied(replica, "KV_b", 9)

                assert await last_of(reader, "a") == b"kept"
                assert await last_of(reader, "c") == b"new"


async def last_of(replica: Client, key: str) -> bytes:
    return (await ask(replica, f"$JS.API.DIRECT.GET.KV_b.$KV.b.{key}")).data


async def test_a_mirror_of_one_value_per_key_says_that_its_origin_went_back(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path / "leader")
    async with leader.server() as server, await connect(server.client_url) as there:
        leader.port, url = server.port, server.client_url
        await make(there, "A", subjects=["a.>"], max_msgs_per_subject=1)
        await fill(there, 5)
    leader.save()
    async with copying(url) as server, await connect(server.client_url) as here:
        async with leader.server(), await connect(url) as there:
            await make(here, "M", mirror={"name": "A", "external": HUB})
            await fill(there, 5, first=5)
            await caught_up(here, "M", 10)
        leader.restore()
        async with leader.server(), await connect(url) as there:
            await fill(there, 20, first=100)
            async with asyncio.timeout(SECONDS):
                while "lost messages" not in str((await info(here, "M"))["mirror"].get("error")):
                    await asyncio.sleep(0.05)


async def test_a_leader_that_was_only_restarted_is_not_copied_again(tmp_path: Path) -> None:
    leader = Leader(tmp_path / "leader")
    async with leader.server() as server, await connect(server.client_url) as there:
        leader.port, url = server.port, server.client_url
        await make(there, "A", subjects=["a.>"], max_msgs_per_subject=1)
        await fill(there, 5)
        store = tmp_path / "copy"
        async with copying(url, store) as copy, await connect(copy.client_url) as here:
            await make(here, "M", mirror={"name": "A", "external": HUB})
            await caught_up(here, "M", 5)
    for first in (5, 10, 15):
        async with (
            leader.server(),
            await connect(url) as there,
            copying(url, store) as copy,
            await connect(copy.client_url) as here,
        ):
            await fill(there, 5, first=first)
            await caught_up(here, "M", first + 5)
            assert "error" not in (await info(here, "M"))["mirror"]
