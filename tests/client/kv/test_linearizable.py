"""Histories of concurrent operations on keys are linearizable.

200,000 operations on our server, fewer on the released one, in rounds that differ in how many
keys are fought over, how much is kept and where. Every call goes through the public handle; what
came of it is judged by ``tests/support/kv/history.py``.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.kv.history import WRITES
from tests.support.kv.rounds import Round, played

from jetspark import Client, Storage

Connect = Callable[..., AbstractAsyncContextManager[Client]]

OPERATIONS = {"jetspark": 25_000, "nats-server": 5_000}  # per round

pytestmark = pytest.mark.timeout(600)


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


@pytest.mark.parametrize("plan", ROUNDS, ids=lambda plan: str(plan.seed))
async def test_concurrent_histories_are_linearizable(
    server: Any, client: Connect, name: str, plan: Round
) -> None:
    if server.kind not in OPERATIONS:
        pytest.skip("a read replica may be behind: tests/integration/replica/test_histories.py")
    goal = OPERATIONS[server.kind]
    # The released server syncs a file of its own for every atomic batch: a few rounds suffice.
    together = server.kind == "jetspark" or plan.storage is Storage.MEMORY
    async with client() as one, client() as two, client() as three:
        history = await played([one, two, three], name, plan, goal, together=together)

    history.judge()
    done = Counter(each.kind for each in history.done)
    assert len(history.done) + len(history.cuts) > goal
    # Of few keys that many fight over, hardly any is as an update or a creation expects it.
    rare = {"update", "create"} if plan.keys < 20 else set()
    assert min(done[kind] for kind in {"get", "refused", *WRITES} - rare) > goal // 1000, done
    assert len(history.cuts) > goal // 100
