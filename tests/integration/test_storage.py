"""Storage over real sockets: a file system that is full, levels, memory (reliability.md 2)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

import jetspark

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def create(client: Client, name: str, **settings: object) -> dict[str, object]:
    config = {"name": name, "subjects": [f"{name}.>"]} | settings
    answer = await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
    found: dict[str, object] = json.loads(answer.data)
    assert "error" not in found, found
    return found


async def publish(client: Client, subject: str, payload: bytes) -> dict[str, object]:
    answer = await client.request(subject, payload, timeout=10)
    found: dict[str, object] = json.loads(answer.data)
    return found


async def test_a_full_disk_refuses_serves_and_resumes(small_disk: Path) -> None:
    async with jetspark.Server(store_dir=small_disk / "store") as server:
        client = await nats.connect(server.client_url)
        await create(client, "S", allow_direct=True)
        answers = []
        while not answers or "error" not in answers[-1]:
            answers.append(await publish(client, "S.a", os.urandom(512 * 1024)))
        begun = time.monotonic()
        refused = await publish(client, "S.a", b"small")
        took = time.monotonic() - begun

        assert len(answers) > 20
        assert answers[-1]["error"]["err_code"] == refused["error"]["err_code"] == 10023  # type: ignore[index]
        # Generous for a busy machine: nothing is waited for.
        assert took < 1
        found = await client.request("$JS.API.DIRECT.GET.S", b'{"seq":3}', timeout=5)
        assert len(found.data) == 512 * 1024
        purged = await client.request("$JS.API.STREAM.PURGE.S", b"", timeout=5)
        assert json.loads(purged.data)["success"]
        for _ in range(100):
            answer = await publish(client, "S.a", b"again")
            if "error" not in answer:
                break
            await asyncio.sleep(0.1)
        assert "error" not in answer
        assert (small_disk / "store" / "reserve").stat().st_size == MIB
        await client.close()


async def test_streams_in_memory_and_with_async_persistence_are_served(tmp_path: Path) -> None:
    for second in (False, True):
        async with jetspark.Server(store_dir=tmp_path / "store") as server:
            client = await nats.connect(server.client_url)
            if not second:
                await create(client, "M", storage="memory")
                await create(client, "A", persist_mode="async")
                assert await publish(client, "M.x", b"1") == {"stream": "M", "seq": 1}
                assert await publish(client, "A.x", b"1") == {"stream": "A", "seq": 1}
            info = json.loads((await client.request("$JS.API.STREAM.INFO.A")).data)
            assert info["state"]["messages"] == 1
            gone = json.loads((await client.request("$JS.API.STREAM.INFO.M")).data)
            assert ("error" in gone) == second
            await client.close()


async def test_a_level_with_a_period_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path}/store", sync_interval: 50ms }}\n')
    async with jetspark.Server(config=config) as server:
        client = await nats.connect(server.client_url)
        await create(client, "S")
        for n in range(50):
            assert (await publish(client, "S.a", b"%d" % n))["seq"] == n + 1
            await asyncio.sleep(0.003)
        await client.close()
    async with jetspark.Server(config=config) as server:
        client = await nats.connect(server.client_url)
        assert (await publish(client, "S.a", b"more"))["seq"] == 51
        await client.close()
