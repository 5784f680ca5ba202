"""A limit of processes or of memory that lets no thread start for a while: no one notices."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import nats
import pytest

import jetspark

WAIT = 10
# More than what is written inline.
LARGE = bytes(100_000)


def no_room(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def own_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("jetspark-")]


async def test_no_thread_has_to_be_started_while_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams, large groups, housekeeping, and the end of the server."""
    async with jetspark.Server(store_dir=tmp_path / "store") as server:
        client = await nats.connect(server.client_url)

        async def ask(subject: str, body: bytes) -> dict[str, Any]:
            answer: dict[str, Any] = json.loads((await client.request(subject, body, WAIT)).data)
            assert "error" not in answer, answer
            return answer

        monkeypatch.setattr(threading.Thread, "start", no_room)
        names = [f"S{n}" for n in range(6)]
        for name in names:
            config = {"name": name, "subjects": [name], "max_bytes": 1 << 20}
            await ask(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
        for _ in range(3):
            await asyncio.gather(*(ask(name, LARGE) for name in names))
        await ask("$JS.API.STREAM.DELETE.S0", b"")
        await client.close()
    assert own_threads() == []


async def test_a_server_without_room_for_its_threads_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Thread.start
    left = 3

    def some_room(thread: threading.Thread) -> None:
        nonlocal left
        if thread.name.startswith("jetspark-"):
            left -= 1
            if left < 0:
                no_room(thread)
        started(thread)

    monkeypatch.setattr(threading.Thread, "start", some_room)
    with pytest.raises(OSError, match=r"raise the limit of processes \(ulimit -u, pids.max\)"):
        async with jetspark.Server(store_dir=tmp_path / "store"):
            pass
    assert own_threads() == []


class Broken:
    """A committer that takes nothing of one stream."""

    def __init__(self, committer: Any, name: str) -> None:
        self._committer = committer
        self._name = name

    def submit(self, owner: Any, work: Any) -> None:
        if owner[1].config.name == self._name:
            raise RuntimeError("can't start new thread")
        self._committer.submit(owner, work)

    def share(self, turn: list[tuple[object, Any]]) -> list[tuple[object, Any]]:
        return turn

    def close(self) -> None:
        self._committer.close()


async def test_a_group_that_cannot_be_handed_over_is_refused_and_no_other_one(
    tmp_path: Path,
) -> None:
    async with jetspark.Server(store_dir=tmp_path / "store") as server:
        client = await nats.connect(server.client_url)
        names = ["A", "B", "C"]
        for name in names:
            config = json.dumps({"name": name, "subjects": [name]}).encode()
            await client.request(f"$JS.API.STREAM.CREATE.{name}", config, WAIT)
        assert server._inner.runtime is not None
        driver = server._inner.runtime._drivers["$G"]
        driver._committer = Broken(driver._committer, "B")
        asked = [client.request(name, LARGE, WAIT) for name in names]
        a, b, c = (json.loads(answer.data) for answer in await asyncio.gather(*asked))
        assert (a["seq"], c["seq"]) == (1, 1)
        assert b["error"]["code"] == 503
        await client.close()
