"""A server in a separate process, which the demo can kill."""

import asyncio
import os
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Self


class ServerProcess:
    """``jetspark serve`` on a free port, ready when entered and ended when left."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._process: asyncio.subprocess.Process | None = None
        self._rest: asyncio.Task[bytes] | None = None
        self.url: str = ""

    async def __aenter__(self) -> Self:
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "jetspark", "serve",
            "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(self._store),
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert process.stderr is not None
        said = b""
        while b"Server is ready" not in said:
            line = await process.stderr.readline()
            if not line:
                raise RuntimeError(f"the server did not start:\n{said.decode()}")
            said += line
        found = re.search(rb"client connections on (\S+)", said)
        assert found is not None, "a server that is ready has logged its address"
        self.url = f"nats://{found[1].decode()}"
        # Keep reading, or the pipe fills up and the server blocks.
        self._rest = asyncio.create_task(process.stderr.read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()
        if self._rest is not None:
            await self._rest

    async def kill(self) -> None:
        """Kill it, as in a crash: SIGKILL, nothing flushed."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
