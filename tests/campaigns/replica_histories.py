"""Histories of reads and writes at a leader and at a replica that stalls (ADR-53).

Workers read and write at either server, chosen by dice, and every read asks for the highest
revision that any of them knew before (``min_last_revision``). Then the history must be as if there
were one server: the judge of tests/support/kv/history.py says whether it is.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from tests.support.kv.history import Done, History, Written
from tests.support.servers import ServerProcess

import jetspark
from jetspark import Client, Entry, KeyValue, KeyValueConfig
from jetspark.errors import KeyExists, KeyNotFound, WrongLastSequence

WORKERS = 8
KEYS = ("a", "b", "c")
KINDS = ("get", "get", "get", "put", "update", "create", "delete")
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

    async def delete(self, key: str) -> int:
        return await self._write(self._any().delete(key))

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

    async def act(self, known: dict[str, int], text: bytes) -> Done:
        """Do something at random and say what came of it."""
        kind, key = self._dice.choice(KINDS), self._dice.choice(KEYS)
        expected: int | None = None
        value: bytes | None = text
        began = time.monotonic_ns()
        try:
            if kind == "get":
                entry = await self.get(key)
                revision, value = entry.revision, entry.value
            elif kind == "put":
                revision = await self.put(key, text)
            elif kind == "update":
                expected = known.get(key, 0)
                revision = await self.update(key, text, expected)
            elif kind == "create":
                revision = await self.create(key, text)
            else:
                revision, value = await self.delete(key), None
        except KeyNotFound as error:
            kind, revision, value = "get", error.revision, None
        except KeyExists as error:
            kind, revision, value = "refused", error.revision, None
        except WrongLastSequence as error:
            kind, revision, value = "refused", error.actual or 0, None
        known[key] = max(known.get(key, 0), revision)
        return Done(kind, key, began, time.monotonic_ns(), revision, value, expected)


async def history(clients: list[Client], seed: int, operations: int, replicas: int = 1) -> None:
    """Let workers loose and judge what they saw."""
    js = clients[0].jetstream()
    await js.create_key_value(KeyValueConfig(bucket="h", history=64, replicas=replicas))
    handles = [await client.jetstream().key_value("h") for client in clients]
    marked = Marked(handles, random.Random(seed))
    seen = History()
    watcher = await handles[0].watch(updates_only=True)

    async def watch() -> None:
        async for entry in watcher:
            if entry is not None:
                value = entry.value if entry.is_put else None
                seen.log[entry.revision] = Written(entry.key, value)

    async def work(number: int) -> None:
        known: dict[str, int] = {}
        for n in range(operations // WORKERS):
            done = await marked.act(known, b"%d.%d" % (number, n))
            seen.done.append(done)

    watching = asyncio.ensure_future(watch())
    await asyncio.gather(*map(work, range(WORKERS)))
    last = (await (await js.stream("KV_h")).info()).state.last_seq
    async with asyncio.timeout(20):
        while max(seen.log, default=0) < last:
            await asyncio.sleep(0.01)
    await watcher.close()
    await watching
    seen.judge()


class Stalls(Protocol):
    """Something that can be held up."""

    def begin(self) -> None:
        """Hold it up."""

    def end(self) -> None:
        """Let it continue."""


@asynccontextmanager
async def stalling(stall: Stalls, seed: int) -> AsyncIterator[None]:
    """Stall and continue, at random, until the end."""
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


class Stopped:
    """A process that is stopped and continues."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def begin(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def end(self) -> None:
        os.kill(self._pid, signal.SIGCONT)


async def replica_history(leader: str, folder: Path, seed: int, operations: int) -> int:
    """One history with a leader of this kind; both servers are stopped now and then."""
    with ExitStack() as stack:
        leading = ServerProcess(leader, folder / "leader", "-js")
        stack.callback(leading.kill)
        flags = ("--replica-of", leading.url, "--streams", "KV_*")
        replica = ServerProcess("jetspark", folder / "replica", *flags)
        stack.callback(replica.kill)
        async with (
            await jetspark.connect(leading.url) as at_leader,
            await jetspark.connect(replica.url) as at_replica,
            await jetspark.connect(replica.url) as another,
            stalling(Stopped(replica.process.pid), seed),
            stalling(Stopped(leading.process.pid), seed + 1),
        ):
            await history([at_leader, at_replica, another], seed, operations)
    return operations


def replica_histories(seed: int, operations: int = 4000) -> int:
    """A history with each kind of leader; how many operations there were."""
    count = 0
    for leader in ("jetspark", "nats-server"):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            count += asyncio.run(replica_history(leader, Path(folder), seed, operations))
    return count
