"""Many batches at once over real sockets: each appears completely or not at all (ADR-50)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import jetspark
from jetspark import Client

ATOMIC = 50
ROUNDS = 3
MEMBERS = 20
FAST = 20
FAST_MESSAGES = 400
FLOW = 25
PATIENCE_S = 30


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    async with jetspark.Server() as server:
        client = await jetspark.connect(server.client_url, timeout=PATIENCE_S)
        yield client
        await client.close()


async def ask(client: Client, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await client.request(subject, json.dumps(body).encode())
    answer: dict[str, Any] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


def member(batch: str, number: int, commit: str = "") -> dict[str, str]:
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    return headers | ({"Nats-Batch-Commit": commit} if commit else {})


async def publish_atomic(client: Client, name: str, open_now: asyncio.Barrier) -> None:
    """Open a batch, wait until all others have one too, send the rest and commit it."""
    for turn in range(ROUNDS):
        batch = f"{name}-{turn}"
        first = await client.request(f"s.atomic.{name}", b"1", headers=member(batch, 1))
        assert first.data == b""
        await open_now.wait()
        await open_now.wait()  # the one that is too many was refused meanwhile
        for number in range(2, MEMBERS):
            client.publish(f"s.atomic.{name}", b"x", headers=member(batch, number))
        last = member(batch, MEMBERS, "1")
        ack = json.loads((await client.request(f"s.atomic.{name}", b"x", headers=last)).data)
        assert (ack["batch"], ack["count"]) == (batch, MEMBERS)


async def one_too_many(client: Client, open_now: asyncio.Barrier) -> None:
    """While all places are taken, another batch is refused."""
    for _ in range(ROUNDS):
        await open_now.wait()
        refused = await client.request("s.atomic.late", b"x", headers=member("late", 1))
        assert json.loads(refused.data)["error"]["err_code"] == 10210
        await open_now.wait()


async def publish_fast(client: Client, name: str) -> None:
    """Publish with the flow that the server announces, at most two acks outstanding."""
    acks = await client.subscribe(f"_F.{name}.>")
    await client.flush()
    acked = flow = 0
    for seq in range(1, FAST_MESSAGES + 1):
        reply = f"_F.{name}.{FLOW}.fail.{seq}.{0 if seq == 1 else 1}.$FI"
        client.publish(f"s.fast.{name}", b"x" * 64, reply=reply)
        while flow == 0 or seq - acked >= 2 * flow:
            told = json.loads((await acks.next(timeout=PATIENCE_S)).data)
            assert told["type"] == "ack", told
            assert 1 <= told["msgs"] <= FLOW
            assert acked <= told["seq"] <= seq
            acked, flow = told["seq"], told["msgs"]
    client.publish(f"s.fast.{name}", b"", reply=f"_F.{name}.{FLOW}.fail.{FAST_MESSAGES + 1}.3.$FI")
    while "batch" not in (told := json.loads((await acks.next(timeout=PATIENCE_S)).data)):
        assert told["type"] == "ack"
    assert told["count"] == FAST_MESSAGES
    await acks.unsubscribe()


async def watch(client: Client, seen: set[int]) -> None:
    """Read as long as it lasts: what exists of a batch is always all of it."""
    while True:
        info = await ask(client, "$JS.API.STREAM.INFO.S", {"subjects_filter": "s.atomic.>"})
        counts = set((info["state"].get("subjects") or {}).values())
        assert all(count % MEMBERS == 0 for count in counts), counts
        seen |= counts


@pytest.mark.timeout(600)
async def test_fifty_atomic_and_twenty_fast_batches_at_once() -> None:
    config = {"name": "S", "subjects": ["s.>"], "allow_atomic": True, "allow_batched": True}
    open_now = asyncio.Barrier(ATOMIC + 1)
    seen: set[int] = set()

    async with connected() as client:
        await ask(client, "$JS.API.STREAM.CREATE.S", config)
        reader = asyncio.create_task(watch(client, seen))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one_too_many(client, open_now))
            for number in range(ATOMIC):
                tasks.create_task(publish_atomic(client, str(number), open_now))
            for number in range(FAST):
                tasks.create_task(publish_fast(client, str(number)))
        stopped = reader.done()
        reader.cancel()
        info = await ask(client, "$JS.API.STREAM.INFO.S", {})

    assert not stopped, reader.exception()
    assert info["state"]["messages"] == ATOMIC * ROUNDS * MEMBERS + FAST * FAST_MESSAGES
    assert seen >= {MEMBERS}


async def test_a_committed_batch_lies_in_one_run_of_sequences() -> None:
    config = {"name": "S", "subjects": ["s.>"], "allow_atomic": True}

    async def batch(client: Client, name: str) -> int:
        for number in range(1, 5):
            client.publish(f"s.{name}", b"x", headers=member(name, number))
            await asyncio.sleep(0)
        reply = await client.request(f"s.{name}", b"x", headers=member(name, 5, "1"))
        return int(json.loads(reply.data)["seq"])

    async with connected() as client:
        await ask(client, "$JS.API.STREAM.CREATE.S", config)
        ends = await asyncio.gather(*(batch(client, f"b{number}") for number in range(10)))

    assert sorted(ends) == list(range(5, 55, 5))
