"""The two servers under test, each a process with a store of its own."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OURS = "jetspark"
PEER = "nats-server"
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Running:
    """A server that is ready."""

    name: str
    host: str
    port: int
    pid: int

    def cpu_ns(self) -> int:
        """CPU time of all its threads so far: steadier than the clock on the wall (speed.md 2)."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total


def command(name: str, store: Path) -> list[str]:
    """How each server is started, with its defaults."""
    arguments = ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(store)]
    if name == OURS:
        return [sys.executable, "-m", "jetspark", "serve", *arguments]
    return [str(BIN / "nats-server"), *arguments]


@contextmanager
def running(name: str, *flags: str) -> Iterator[Running]:
    """Start a server, wait until it says that it is ready, and stop it at the end."""
    store = Path(tempfile.mkdtemp(prefix="jetspark-bench-", dir=Path.cwd()))
    process = subprocess.Popen([*command(name, store), *flags], stderr=subprocess.PIPE, text=True)
    try:
        yield _ready(name, process)
    finally:
        process.terminate()
        process.communicate(timeout=30)
        shutil.rmtree(store, ignore_errors=True)


def _ready(name: str, process: "subprocess.Popen[str]") -> Running:
    assert process.stderr is not None
    host, port, seen = "", 0, []
    for line in process.stderr:
        seen.append(line)
        found = re.search(r"Listening for client connections on (\S+):(\d+)", line)
        if found:
            host, port = found[1], int(found[2])
        if "Server is ready" in line:
            return Running(name, host, port, process.pid)
    raise RuntimeError(f"{name} did not start:\n{''.join(seen)}")
