"""Streams and consumers that come and go leave nothing in a server's memory."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from pathlib import Path

import nats
import pytest

import jetspark

KINDS = ("Stream", "StreamLog", "StreamIndex", "Consumer", "Delivery")
WAIT = 10


def living() -> Counter[str]:
    return Counter(
        type(each).__name__ for each in gc.get_objects() if type(each).__name__ in KINDS
    )


async def test_streams_that_were_removed_leave_memory_without_a_collection(tmp_path: Path) -> None:
    """Neither a cycle nor a route that someone published to keeps them."""
    async with jetspark.Server(store_dir=tmp_path / "store") as server:
        client = await nats.connect(server.client_url)

        async def live(name: str) -> None:
            stream = {"name": name, "subjects": [name], "max_age": 3600 * 10**9}
            consumer = {"stream_name": name, "config": {"durable_name": "C"}}
            for subject, body in (
                (f"$JS.API.STREAM.CREATE.{name}", stream),
                (name, {}),
                (f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.C", consumer),
                (f"$JS.API.STREAM.DELETE.{name}", {}),
            ):
                data = json.dumps(body).encode() if body else b""
                answer = json.loads((await client.request(subject, data, WAIT)).data)
                assert "error" not in answer, answer

        await live("FIRST")
        gc.collect()
        before = living()
        gc.disable()
        try:
            for n in range(5):
                await live(f"S{n}")
            # A thread may still return from the removal of the last one, and what an earlier
            # test left may go meanwhile.
            async with asyncio.timeout(WAIT):
                while not living() <= before:
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()
        await client.close()


async def test_a_stream_removed_right_after_an_update_leaves_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its manifests are renewed in the background, in a folder that is deleted by then."""
    async with jetspark.Server(store_dir=tmp_path / "store") as server:
        client = await nats.connect(server.client_url)
        for n in range(10):
            for verb, subjects in (("CREATE", ["s"]), ("UPDATE", ["s", f"t{n}"]), ("DELETE", [])):
                data = (
                    json.dumps({"name": "S", "subjects": subjects}).encode() if subjects else b""
                )
                answer = await client.request(f"$JS.API.STREAM.{verb}.S", data, WAIT)
                assert "error" not in json.loads(answer.data)
        await client.close()
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
