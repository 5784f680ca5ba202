"""Histories of concurrent operations on keys are linearizable (issue 7, Proof).

200,000 operations on our server, fewer on the released one, in rounds that differ in how many
keys are fought over, how much is kept and where. Every call goes through the public handle; what
came of it is judged by ``kv_history.py``.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

import pytest
from tests.client.kv_actor import Actor
from tests.client.kv_history import WRITES, Done, History, Written

from jetspark.api.enums import Storage
from jetspark.client import Client, KeyValue, KeyValueConfig, KeyWatcher

Connect = Callable[..., AbstractAsyncContextManager[Client]]

OPERATIONS = {"jetspark": 25_000, "nats-server": 5_000}  # per round
KINDS = (
    *["get"] * 12,
    *["put"] * 4,
    *["update"] * 4,
    *["create"] * 3,
    *["delete", "delete", "purge", "cut"],
)

pytestmark = pytest.mark.timeout(90)


class Round(NamedTuple):
    """What is fought over, and how the bucket keeps it."""

    seed: int
    workers: int  # per connection
    keys: int
    history: int
    storage: Storage
    read_after_write: bool


ROUNDS = [
    Round(1, 8, 1, 64, Storage.FILE, False),
    Round(2, 16, 3, 64, Storage.FILE, False),
    Round(3, 16, 3, 1, Storage.FILE, True),
    Round(4, 32, 20, 1, Storage.FILE, False),
    Round(5, 64, 200, 5, Storage.FILE, True),
    Round(6, 16, 2, 1, Storage.MEMORY, False),
    Round(7, 32, 20, 64, Storage.MEMORY, True),
    Round(8, 64, 200, 1, Storage.MEMORY, False),
]
assert len(ROUNDS) * OPERATIONS["jetspark"] >= 200_000


async def watched(watcher: KeyWatcher) -> dict[int, Written]:
    """What a watch saw; it may miss what was replaced before it came by, but not go back."""
    seen: dict[int, Written] = {}
    last = 0
    async for entry in watcher:
        if entry is not None:
            assert entry.revision > last
            last = entry.revision
            seen[last] = Written(entry.key, entry.value if entry.is_put else None)
            if entry.key == "end":
                break
    return seen


async def complete_log(history: History, kv: KeyValue, seen: dict[int, Written]) -> None:
    """Every revision by what its writer was told; what a reader sees there counts more."""
    acked = {
        done.revision: Written(done.key, done.value)
        for done in history.done
        if done.kind in WRITES
    }
    kept = {
        entry.revision: Written(entry.key, entry.value if entry.is_put else None)
        for entry in await kv.history(">", timeout=20)
    }
    together = acked | seen | kept
    history.log = {revision: together[revision] for revision in sorted(together)}


@pytest.mark.parametrize("plan", ROUNDS, ids=lambda plan: str(plan.seed))
async def test_concurrent_histories_are_linearizable(
    server: Any, client: Connect, name: str, plan: Round
) -> None:
    if server.kind not in OPERATIONS:
        pytest.skip("a read replica may be behind: tests/integration/test_replica_histories.py")
    history = History()
    goal = OPERATIONS[server.kind]
    # The released server syncs a file of its own for every atomic batch: a few rounds suffice.
    together = server.kind == "jetspark" or plan.storage is Storage.MEMORY
    kinds = (*KINDS, "together") if together else KINDS
    keys = [f"k{n}" for n in range(plan.keys)]
    actor = Actor(history, keys, random.Random(plan.seed), kinds)
    async with client() as one, client() as two, client() as three:
        config = KeyValueConfig(bucket=name, history=plan.history, storage=plan.storage)
        await one.jetstream().create_key_value(config)
        handles = [
            await nc.jetstream().key_value(name, read_after_write=plan.read_after_write)
            for nc in (one, two, three)
        ]
        watching = asyncio.ensure_future(watched(await handles[0].watch(updates_only=True)))
        await asyncio.gather(*(actor.act(kv, goal) for kv in handles for _ in range(plan.workers)))
        began = time.monotonic_ns()
        end = await handles[1].put("end", b"")
        history.done.append(Done("put", "end", began, time.monotonic_ns(), end, b""))
        seen = await asyncio.wait_for(watching, 20)
        await complete_log(history, handles[2], seen)
        await one.jetstream().delete_key_value(name)

    history.judge()
    done = Counter(each.kind for each in history.done)
    assert len(history.done) + len(history.cuts) > goal
    # Of few keys that many fight over, hardly any is as an update or a creation expects it.
    rare = {"update", "create"} if plan.keys < 20 else set()
    assert min(done[kind] for kind in {"get", "refused", *WRITES} - rare) > goal // 1000, done
    assert len(history.cuts) > goal // 100
