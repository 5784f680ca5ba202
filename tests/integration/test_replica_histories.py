"""Read-after-write and monotonic reads over a leader and a replica that stalls (ADR-53, issue 9).

Workers read and write at either server, chosen by dice, and every read asks for the highest
revision that any of them knew before (`min_last_revision`). Then the history must be as if there
were one server: the judge of tests/client/test_kv_linearizable.py says whether it is. The copy is
stalled at random: inside the process, and as a process that SIGSTOP stops.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.client.cluster import Cluster
from tests.client.servers import ServerProcess
from tests.client.test_kv_linearizable import Done, act, judge
from tests.integration.replicas import Stall, copied, replica_of

import jetspark
from jetspark.client import Client, KeyValue, KeyValueConfig
from jetspark.client.jetstream.kv.entry import Entry
from jetspark.errors import KeyExists, KeyNotFound, WrongLastSequence

WORKERS = 8
T = TypeVar("T")


class Marked:
    """A bucket at several servers, with one mark for all who use it."""

    def __init__(self, handles: list[KeyValue], dice: random.Random) -> None:
        self._handles = handles
        self._dice = dice
        self.mark = 0

    async def get(self, key: str) -> Entry:
        entry = await self._noting(self._any().get(key, min_last_revision=self.mark))
        self.mark = max(self.mark, entry.revision)
        return entry

    async def put(self, key: str, value: bytes) -> int:
        return await self._write(self._any().put(key, value))

    async def update(self, key: str, value: bytes, last: int) -> int:
        return await self._write(self._any().update(key, value, last))

    async def create(self, key: str, value: bytes) -> int:
        return await self._write(self._any().create(key, value))

    async def delete(self, key: str) -> None:
        await self._any().delete(key)

    async def _write(self, writing: Awaitable[int]) -> int:
        revision = await self._noting(writing)
        self.mark = max(self.mark, revision)
        return revision

    async def _noting(self, doing: Awaitable[T]) -> T:
        """What a refusal tells is known as well."""
        try:
            return await doing
        except (KeyNotFound, KeyExists) as error:
            self.mark = max(self.mark, error.revision)
            raise
        except WrongLastSequence as error:
            self.mark = max(self.mark, error.actual or 0)
            raise

    def _any(self) -> KeyValue:
        return self._dice.choice(self._handles)


async def history(clients: list[Client], seed: int, operations: int, replicas: int = 1) -> None:
    """Let workers loose and judge what they saw."""
    dice = random.Random(seed)
    js = clients[0].jetstream()
    await js.create_key_value(KeyValueConfig(bucket="h", history=64, replicas=replicas))
    handles = [await client.jetstream().key_value("h") for client in clients]
    watched: dict[int, tuple[str, bytes | None]] = {}
    watcher = await handles[0].watch(updates_only=True)

    async def watch() -> None:
        async for entry in watcher:
            if entry is not None:
                watched[entry.revision] = (entry.key, entry.value if entry.is_put else None)

    watching = asyncio.ensure_future(watch())
    marked: Any = Marked(handles, dice)
    done: list[Done] = []

    async def work(number: int) -> None:
        known: dict[str, int] = {}
        for n in range(operations // WORKERS):
            what = await act(marked, dice, known, b"%d.%d" % (number, n))
            done.append(what)

    await asyncio.gather(*map(work, range(WORKERS)))
    stream = await js.stream("KV_h")
    last = (await stream.info()).state.last_seq
    async with asyncio.timeout(20):
        while max(watched, default=0) < last:
            await asyncio.sleep(0.01)
    await watcher.stop()
    await watching

    assert list(watched) == list(range(1, last + 1))
    # A cluster refuses without the sequence that is there (10164): that says nothing.
    judge([each for each in done if each.kind != "refused" or each.revision], watched)


@asynccontextmanager
async def stalling(stall: Any, seed: int) -> AsyncIterator[None]:
    """Stall and go on, at random, until the end."""
    dice = random.Random(seed)

    async def shake() -> None:
        while True:
            stall.begin()
            await asyncio.sleep(dice.uniform(0, 0.06))
            stall.end()
            await asyncio.sleep(dice.uniform(0, 0.06))

    task = asyncio.ensure_future(shake())
    try:
        yield
    finally:
        task.cancel()
        stall.end()


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_copy_that_stalls_inside_breaks_no_promise(seed: int) -> None:
    async with (
        jetspark.Server() as leader,
        replica_of(leader.client_url) as replica,
        await jetspark.connect(leader.client_url) as at_leader,
        await jetspark.connect(replica.client_url) as at_replica,
        await jetspark.connect(replica.client_url) as another,
    ):
        async with stalling(Stall(replica), seed):
            await history([at_leader, at_replica, another], seed, 800)

        assert replica.reads_answered > 20
        assert replica.reads_passed > 20
        await copied(replica, "KV_h", 1)


class Stopped:
    """A process that is stopped and goes on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def begin(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def end(self) -> None:
        os.kill(self._pid, signal.SIGCONT)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Ends what a test started."""
    with ExitStack() as started:
        yield started


@pytest.mark.parametrize("leader", ["jetspark", "nats-server", "cluster"])
async def test_a_replica_that_is_stopped_and_goes_on_breaks_no_promise(
    leader: str, tmp_path: Path, stack: ExitStack
) -> None:
    if leader == "cluster":
        cluster = Cluster(tmp_path)
        stack.callback(cluster.close)
        await cluster.wait_ready()
        urls = cluster.urls
    else:
        running = ServerProcess(leader, tmp_path / "leader", "-js")
        stack.callback(running.kill)
        urls = [running.url]
    flags = ("--replica-of", ",".join(urls), "--streams", "KV_*")
    replica = ServerProcess("jetspark", tmp_path / "replica", *flags)
    stack.callback(replica.kill)
    async with (
        await jetspark.connect(urls) as at_leader,
        await jetspark.connect(replica.url) as at_replica,
        await jetspark.connect(replica.url) as another,
        stalling(Stopped(replica.process.pid), 3),
    ):
        copies = 3 if leader == "cluster" else 1
        await history([at_leader, at_replica, another], 3, 400, copies)
