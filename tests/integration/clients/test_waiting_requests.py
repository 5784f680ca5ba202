"""Very many requests that wait for a stream to be made or removed hold up no one."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

import jetspark
from jetspark.engine.operations import Operations

CREATE = json.dumps({"name": "S", "subjects": ["s.>"], "storage": "file"}).encode()
WAIT = 60


async def _ask_in_one_go(server: jetspark.Server, times: int) -> Counter[str]:
    """Create, publish to, purge and delete one stream again and again, without waiting."""
    client = await nats.connect(server.client_url)
    answers: Counter[str] = Counter()
    done = asyncio.Event()

    async def count(message: Msg) -> None:
        answers[json.loads(message.data).get("type", "").rpartition(".")[2]] += 1
        if answers["stream_delete_response"] == times:
            done.set()

    await client.subscribe("answers", cb=count)
    for _ in range(times):
        await client.publish("$JS.API.STREAM.CREATE.S", CREATE, reply="answers")
        await client.publish("$JS.API.STREAM.PURGE.S", b"", reply="answers")
        await client.publish("$JS.API.STREAM.DELETE.S", b"", reply="answers")
    await asyncio.wait_for(done.wait(), WAIT)
    await client.close()
    return answers


async def test_a_stream_removed_after_a_purge_is_not_written_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with jetspark.Server(store_dir=tmp_path) as server:
        with caplog.at_level(logging.ERROR):
            answers = await _ask_in_one_go(server, 10)
    assert answers["stream_create_response"] == answers["stream_purge_response"] == 10
    assert [record.getMessage() for record in caplog.records] == []


async def test_requests_that_wait_are_looked_at_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again with every operation that ends before it is their turn."""
    looks = 0
    check = Operations.check

    def counted(self: Operations, name: str) -> None:
        nonlocal looks
        looks += 1
        check(self, name)

    monkeypatch.setattr(Operations, "check", counted)  # not a compiled class
    async with jetspark.Server(store_dir=tmp_path) as server:
        await _ask_in_one_go(server, 60)
    # When it comes, and when it is its turn; a few that wait for a removal as well.
    assert looks <= 3 * 180


async def test_a_stop_does_not_wait_for_requests_that_have_not_started(tmp_path: Path) -> None:
    server = jetspark.Server(store_dir=tmp_path)
    await server.start()
    client = await nats.connect(server.client_url, allow_reconnect=False)
    for _ in range(1500):
        await client.publish("$JS.API.STREAM.CREATE.S", CREATE, reply="answers")
        await client.publish("$JS.API.STREAM.DELETE.S", b"", reply="answers")
    await client.flush()
    began = time.process_time()
    await asyncio.wait_for(server.close(), WAIT)
    assert time.process_time() - began < 5
    await client.close()
