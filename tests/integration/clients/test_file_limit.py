"""A server that may open no more files: connections wait, it says so, and accepts them again."""

from __future__ import annotations

import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

SECONDS: Final = 60.0
SPARE: Final = 6
"""Files that the server may open besides those that it has."""

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process can be set on Linux only"
)
# The loop of the command line is uvloop where that is installed.
LOOPS: Final = {"installed": "", "asyncio": "sys.modules['uvloop'] = None; "}


class Process:
    """A server whose log is in a file."""

    def __init__(self, folder: Path, loop: str) -> None:
        self._log = folder / "log"
        program = f"import sys; {LOOPS[loop]}from jetspark.__main__ import main; main()"
        with self._log.open("w") as log:
            command = [sys.executable, "-c", program, "serve", "-a", "127.0.0.1", "-p", "-1"]
            self._process = subprocess.Popen(
                [*command, "-js", "-sd", str(folder / "store")], stderr=log
            )
        self.until(lambda: "Server is ready" in self.log)
        found = re.search(r"client connections on \S+:(\d+)", self.log)
        assert found is not None
        self.port = int(found[1])

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def allow(self, files: int) -> int:
        """Let it open this many more files than it has; return its new limit."""
        pid = self._process.pid
        limit = len(list(Path(f"/proc/{pid}/fd").iterdir())) + files
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        return limit

    def connect(self, stack: ExitStack) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        return stack.enter_context(made)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(params=list(LOOPS))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path, request.param)
    try:
        yield process
    finally:
        process.end()


def greeted(client: socket.socket, seconds: float) -> bool:
    client.settimeout(seconds)
    try:
        return client.recv(4096).startswith(b"INFO ")
    except TimeoutError:
        return False


def test_connections_beyond_the_file_limit_wait_and_are_accepted_when_files_are_free(
    server: Process,
) -> None:
    with ExitStack() as stack:
        first = server.connect(stack)
        assert greeted(first, SECONDS)
        limit = server.allow(SPARE)
        several = [server.connect(stack) for _ in range(SPARE + 20)]
        server.until(lambda: "cannot be accepted" in server.log)
        # Not before the server has tried again: that is not said again for a minute.
        assert not greeted(several[-1], 1.5)
        first.sendall(b"CONNECT {}\r\nPING\r\n")
        assert b"PONG\r\n" in first.recv(4096)

        lines = [line for line in server.log.splitlines() if "accept" in line]
        assert len(lines) == 1, lines
        assert f"all {limit} files" in lines[0]
        assert "ulimit -n" in lines[0]

        for client in several[:-3]:
            client.close()
        assert greeted(several[-1], SECONDS)
        server.until(lambda: "are accepted again" in server.log)
        assert "Traceback" not in server.log
