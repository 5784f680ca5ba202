"""Read-after-write and monotonic reads over a leader and a replica that stalls (ADR-53).

The copy is stalled at random: inside the process, and as a process that SIGSTOP stops. What the
workers do and how they are judged is in tests/campaigns/replica_histories.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.campaigns.replica_histories import Stopped, history, stalling
from tests.support.replicas import Stall, copied, leading, replica_of
from tests.support.servers import ServerProcess

import jetspark


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

        assert replica.reads_answered > 0
        assert replica.reads_passed > 0
        await copied(replica, "KV_h", 1)


@pytest.mark.parametrize("leader", ["jetspark", "nats-server", "cluster"])
async def test_a_replica_that_is_stopped_and_continues_breaks_no_promise(
    leader: str, tmp_path: Path
) -> None:
    async with leading(leader, tmp_path) as urls:
        flags = ("--replica-of", ",".join(urls), "--streams", "KV_*")
        replica = await asyncio.to_thread(ServerProcess, "jetspark", tmp_path / "replica", *flags)
        try:
            async with (
                await jetspark.connect(urls) as at_leader,
                await jetspark.connect(replica.url) as at_replica,
                await jetspark.connect(replica.url) as another,
                stalling(Stopped(replica.process.pid), 3),
            ):
                copies = 3 if leader == "cluster" else 1
                await history([at_leader, at_replica, another], 3, 320, copies)
        finally:
            replica.kill()
