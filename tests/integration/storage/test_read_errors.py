"""A disk that refuses to read, under a running server: nothing is skipped, and it is said."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import ConsumerConfig
from tests.support.monitored import get, text
from tests.support.waiting import until

import jetspark
import jetspark.server.jetstream.runtime
from jetspark.store.files import OsFiles

COUNT = 20
BAD = 8
# Larger than what is read ahead for its neighbours by chance.
FILL = b"." * 6000


class RefusingFiles(OsFiles):
    """The real file system, with places that cannot be read while the test says so."""

    # File (device, inode) and offset of one byte each.
    refused: list[tuple[tuple[int, int], int]]

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Fail like a disk with a bad sector."""
        if RefusingFiles.refused:
            status = os.fstat(handle)
            file = (status.st_dev, status.st_ino)
            for bad, place in RefusingFiles.refused:
                if bad == file and offset <= place < offset + length:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(handle, offset, length)


def places(store: Path, word: bytes) -> list[tuple[tuple[int, int], int]]:
    """Where a word is on the disk."""
    found = []
    for path in store.rglob("*.seg"):
        at = path.read_bytes().find(word)
        if at >= 0:
            status = path.stat()
            found.append(((status.st_dev, status.st_ino), at))
    return found


async def ask(client: Client, subject: str, body: object = None) -> dict[str, Any]:
    data = json.dumps(body).encode() if body is not None else b""
    answer = await client.request(f"$JS.API.{subject}", data, timeout=20)
    found: dict[str, Any] = json.loads(answer.data)
    assert "error" not in found, found
    return found


async def fill(store: Path) -> None:
    async with jetspark.Server(store_dir=store) as server:
        client = await nats.connect(server.client_url)
        js = client.jetstream()
        await ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        bucket = await js.create_key_value(bucket="B")
        for number in range(1, COUNT + 1):
            await js.publish("s.a", b"payload-%02d" % number + FILL)
            await bucket.put(f"key-{number:02}", b"value-%02d" % number + FILL)
        await client.close()


async def test_consumers_mirrors_and_watchers_wait_for_a_disk_that_refuses_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path)
    RefusingFiles.refused = []
    monkeypatch.setattr(jetspark.server.jetstream.runtime, "OsFiles", RefusingFiles)
    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        RefusingFiles.refused = places(tmp_path, b"payload-08") + places(tmp_path, b"value-08")
        assert len(RefusingFiles.refused) == 2
        client = await nats.connect(server.client_url)
        js = client.jetstream()
        got: list[bytes] = []
        watched: list[bytes] = []
        consumer = await js.pull_subscribe("s.>", "c", "S", config=ConsumerConfig(ack_wait=600))
        await ask(client, "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
        watcher = await (await js.key_value("B")).watchall()

        async def take() -> None:
            while len(got) < COUNT:
                try:
                    for message in await consumer.fetch(COUNT - len(got), timeout=2):
                        got.append(message.data[:10])
                        await message.ack()
                except nats.errors.TimeoutError:
                    continue

        async def watch() -> None:
            while len(watched) < COUNT:
                try:
                    entry = await watcher.updates(timeout=1)  # type: ignore[no-untyped-call]
                except nats.errors.TimeoutError:
                    continue
                if entry is not None and entry.value is not None:
                    watched.append(entry.value[:8])

        tasks = [asyncio.create_task(take()), asyncio.create_task(watch())]

        async def all_wait() -> bool:
            mirror = await ask(client, "STREAM.INFO.M")
            return (len(got), len(watched), mirror["state"]["messages"]) == (BAD - 1,) * 3

        await until(all_wait)
        await asyncio.sleep(2.5)  # they try again meanwhile, and nothing is passed

        assert await all_wait()
        info = await ask(client, "CONSUMER.INFO.S.c")
        mirror = (await ask(client, "STREAM.INFO.M"))["mirror"]
        stream = await ask(client, "STREAM.INFO.S")
        status, health = await text(server, "/healthz")
        assert info["stopped"] == f"message {BAD} cannot be read now: Input/output error"
        assert info["num_pending"] == COUNT - BAD + 1
        assert mirror["lag"] == COUNT - BAD + 1
        assert "cannot be read now" in mirror["error"]["description"]
        assert "lost" not in stream["state"]
        assert status == 503
        assert "read error: message 8 cannot be read now" in health
        # Publishing, and other streams, do not suffer from it.
        await js.publish("s.a", b"payload-new")
        await ask(client, "STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
        assert (await js.publish("o", b"x")).seq == 1

        RefusingFiles.refused = []
        await asyncio.wait_for(asyncio.gather(*tasks), 30)

        async def mirror_has_all() -> bool:
            found = await ask(client, "STREAM.INFO.M")
            return bool(found["state"]["messages"] == COUNT + 1)

        await until(mirror_has_all)

        async def healthy() -> bool:
            return (await text(server, "/healthz"))[0] == 200

        await until(healthy)
        info = await ask(client, "CONSUMER.INFO.S.c")
        health = await get(server, "/healthz")
        await client.close()

    assert got == [b"payload-%02d" % number for number in range(1, COUNT + 1)]
    assert watched == [b"value-%02d" % number for number in range(1, COUNT + 1)]
    assert "stopped" not in info
    assert "warnings" not in health.get("jetspark", {})
