"""Copies of a remote stream while everything that can break does.

A mirror and a source of one stream, in a process that is killed now and then, of a server that is
killed too, over a way that is cut, swallows and is slow; messages are deleted and purged
meanwhile. What must hold whenever nothing is in progress:

- the mirror holds every message that its origin holds, under its sequence and time, and nothing
  that was never published there;
- the source has each message at most once, in order, and every one that the origin holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.support.chaos_proxy import ChaosProxy
from tests.support.remotes import (
    HUB,
    api,
    as_copied,
    caught_up,
    fill,
    info,
    info_until,
    make,
    rows,
)
from tests.support.servers import ServerProcess
from tests.support.waiting import PATIENCE_S

from jetspark import Client, connect

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = re.compile(rb"Nats-Stream-Source: A:\S+ (\d+) ")


def is_level(found: dict[str, Any]) -> bool:
    """Say whether the source of a stream has all that its origin has."""
    source = found["sources"][0]
    return source["lag"] == 0 and source["active"] >= 0 and "error" not in source


class RemoteCopies:
    """One hub of a kind, one copier, any number of rounds."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.rounds = self.published = self.broken = 0
        self._folder = folder
        self._kind = kind
        self._random = random.Random(seed)
        self._hub = ServerProcess(kind, folder / "hub", "-js")
        self._copier: subprocess.Popen[str] | None = None
        self._url = ""

    async def run(self, deadline: float) -> None:
        """Rounds of trouble and peace; at least one."""
        async with ChaosProxy(self._hub.address) as proxy:
            self._start(proxy.url)
            await self._set_up()
            while time.monotonic() < deadline or self.rounds == 0:
                await self._trouble(proxy)
                proxy.calm()
                await self._peace()
                self.rounds += 1

    def close(self) -> None:
        """End all processes."""
        self._hub.kill()
        self._kill()

    async def _set_up(self) -> None:
        async with await connect(self._hub.url) as there, await connect(self._url) as here:
            await make(there, "A", subjects=["a.>"])
            await make(here, "M", mirror={"name": "A", "external": HUB})
            await make(here, "S", sources=[{"name": "A", "external": HUB}])

    async def _trouble(self, proxy: ChaosProxy) -> None:
        async def kill_hub() -> None:
            port = self._hub.url.rpartition(":")[2]
            self._hub.kill()
            await asyncio.sleep(self._random.random() / 5)
            self._hub = await asyncio.to_thread(
                ServerProcess, self._kind, self._folder / "hub", "-js", port=port
            )

        async def kill_copier() -> None:
            self._kill()
            await asyncio.to_thread(self._start, proxy.url)

        async def cut() -> None:
            proxy.cut()

        async def swallow() -> None:
            proxy.black_hole()

        async def slow() -> None:
            proxy.latency, proxy.write_size = 0.002, 3000

        breaks: list[Callable[[], Awaitable[None]]] = [
            kill_hub, kill_copier, cut, cut, swallow, slow,
        ]  # fmt: skip
        for _ in range(self._random.randrange(1, 5)):
            await self._change()
            await self._random.choice(breaks)()
            self.broken += 1

    async def _change(self) -> None:
        """Publish, and now and then delete or purge."""
        async with await connect(self._hub.url) as there:
            count = self._random.choice((1, 30, 700))
            await fill(there, count, first=self.published)
            self.published += count
            last = (await info(there, "A"))["state"]["last_seq"]
            if self._random.random() < 0.3:
                seq = self._random.randrange(max(1, last - 20), last + 1)
                await api(there, "STREAM.MSG.DELETE.A", {"seq": seq})
            if self._random.random() < 0.1:
                await api(there, "STREAM.PURGE.A", {"seq": self._random.randrange(1, last + 2)})

    async def _peace(self) -> None:
        async with await connect(self._hub.url) as there, await connect(self._url) as here:
            last = (await info(there, "A"))["state"]["last_seq"]
            await caught_up(here, "M", last)
            # A source that has not reached its origin since it was started knows of no lag.
            await info_until(here, "S", is_level)
            held = as_copied(await rows(there, "A"))
            mirror = await rows(here, "M")
            known = {row[0]: row for row in mirror}
            assert len(known) == len(mirror)
            assert [known.get(row[0]) for row in held] == held
            assert max(known, default=0) <= last
            # A lag is what it was when the remote last answered.
            wanted = {row[0] for row in held}
            waited_until = time.monotonic() + PATIENCE_S
            copied = await self._copied(here)
            while not wanted <= set(copied) and time.monotonic() < waited_until:
                await asyncio.sleep(0.1)
                copied = await self._copied(here)
            assert copied == sorted(set(copied))
            assert wanted <= set(copied), f"skipped: {sorted(wanted - set(copied))}"

    async def _copied(self, here: Client) -> list[int]:
        """Which messages of the origin the source has copied."""
        return [int(SOURCE.findall(row[3])[0]) for row in await rows(here, "S")]

    def _start(self, url: str) -> None:
        store = str(self._folder / "copies")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.copier", store, url],
            cwd=ROOT, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._copier = process
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(r"Listening for client connections on (\S+)", line)
            if found:
                self._url = f"nats://{found[1]}"
            if "Server is ready" in line:
                return
        raise AssertionError("the copier did not start")

    def _kill(self) -> None:
        process, self._copier = self._copier, None
        if process is not None:
            process.kill()
            with contextlib.suppress(ValueError):
                process.communicate(timeout=20)
