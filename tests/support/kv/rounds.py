"""One round of a linearizability sweep: clients that fight over the keys of one bucket.

``tests/client/kv/test_linearizable.py`` has the rounds of the test command,
``tools/torture.py`` any number.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.kv.actor import Actor
from tests.support.kv.history import WRITES, Done, History, Written

from jetspark import Client, Entry, KeyValue, KeyValueConfig, Watcher
from jetspark.api.enums import Storage

KINDS = (
    *["get"] * 12,
    *["put"] * 4,
    *["update"] * 4,
    *["create"] * 3,
    *["delete", "delete", "purge", "cut"],
)


class Round(NamedTuple):
    """What is fought over, and how the bucket keeps it."""

    seed: int
    workers: int  # per connection
    keys: int
    history: int
    storage: Storage
    read_after_write: bool


async def played(
    clients: Sequence[Client], bucket: str, plan: Round, goal: int, *, together: bool
) -> History:
    """Let the workers loose until so many operations were started; what they saw and wrote.

    ``together``: transactions too.
    """
    history = History()
    keys = [f"k{n}" for n in range(plan.keys)]
    kinds = (*KINDS, "together") if together else KINDS
    actor = Actor(history, keys, random.Random(plan.seed), kinds)
    js = clients[0].jetstream()
    await js.create_key_value(
        KeyValueConfig(bucket=bucket, history=plan.history, storage=plan.storage)
    )
    handles = [
        await nc.jetstream().key_value(bucket, read_after_write=plan.read_after_write)
        for nc in clients
    ]
    watching = asyncio.ensure_future(watched(await handles[0].watch(updates_only=True)))
    await asyncio.gather(*(actor.act(kv, goal) for kv in handles for _ in range(plan.workers)))
    began = time.monotonic_ns()
    end = await handles[-1].put("end", b"")
    history.done.append(Done("put", "end", began, time.monotonic_ns(), end, b""))
    seen = await asyncio.wait_for(watching, 20)
    await complete_log(history, handles[-1], seen)
    await js.delete_key_value(bucket)
    return history


async def watched(watcher: Watcher[Entry]) -> dict[int, Written]:
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
    """Every revision by what its writer was answered; what a reader sees there counts more."""
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
