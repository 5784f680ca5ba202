"""The two servers under test, each a process with its own store."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

OURS = "jetspark"
PEER = "nats-server"
SYNC_ALWAYS = "nats-server always"  # with sync_interval: always, which is our default
BIN = Path(sys.executable).parent
# How long a server may take to stop after SIGTERM.
STOP_S = 30.0
USER = b'"user":"bench","pass":"bench",'
GUARD = """authorization { users: [ { user: bench, password: bench, permissions: {
    publish: { allow: ["PUB.>", "$JS.API.>", "other.>"], deny: ["PUB.secret.>"] },
    subscribe: { allow: ["_I.*", "_R.*"] } } } ] }
"""


@dataclass(frozen=True)
class Running:
    """A server that is ready."""

    name: str
    host: str
    port: int
    pid: int
    monitor: int = 0
    # The CONNECT of a client, sent before everything else.
    connect: bytes = b""

    def cpu_ns(self) -> int:
        """CPU time of all its threads so far: more stable than wall-clock time."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total

    def resident_mb(self) -> float:
        """Its memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def kill(self) -> None:
        """Kill it, as in a crash."""
        os.kill(self.pid, signal.SIGKILL)

    def commits(self) -> dict[str, Any]:
        """Statistics of our committer; empty for others."""
        if self.name != OURS or not self.monitor:
            return {}
        with urllib.request.urlopen(f"http://{self.host}:{self.monitor}/storez") as answer:
            found: dict[str, Any] = json.load(answer).get("commits", {})
        return found


def command(name: str, store: Path, *, guarded: bool = False) -> list[str]:
    """The command line of each server, with its defaults unless a configuration is needed."""
    arguments = ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(store / "js")]
    settings = "jetstream { sync_interval: always }\n" if name == SYNC_ALWAYS else ""
    if guarded:
        settings += GUARD
    if settings:
        config = store / "bench.conf"
        config.write_text(settings)
        arguments += ["-c", str(config)]
    if name == OURS:
        return [sys.executable, "-m", "jetspark", "serve", "-m", "-1", *arguments]
    return [str(BIN / "nats-server"), *arguments]


@contextmanager
def running(
    name: str,
    *flags: str,
    store: Path | None = None,
    guarded: bool = False,
    prefix: Sequence[str] = (),
) -> Iterator[Running]:
    """Start a server, wait until it reports that it is ready, and stop it at the end.

    ``prefix`` is a program that runs it, such as valgrind.
    """
    folder = store or Path(tempfile.mkdtemp(prefix="jetspark-bench-", dir=Path.cwd()))
    arguments = [*prefix, *command(name, folder, guarded=guarded), *flags]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    try:
        yield replace(_ready(name, process), connect=USER if guarded else b"")
    finally:
        _stop(name, process)
        if store is None:
            shutil.rmtree(folder, ignore_errors=True)


def _stop(name: str, process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        # nats-server with 10,000 consumers takes longer; the figures were taken before.
        print(f"  {name} did not stop within {STOP_S:.0f} s: killed")
        process.kill()
        process.communicate()


def _ready(name: str, process: "subprocess.Popen[str]") -> Running:
    assert process.stderr is not None
    host, port, monitor, seen = "", 0, 0, []
    for line in process.stderr:
        seen.append(line)
        found = re.search(r"Listening for client connections on (\S+):(\d+)", line)
        if found:
            host, port = found[1], int(found[2])
        watched = re.search(r"http monitor on \S+:(\d+)", line)
        if watched:
            monitor = int(watched[1])
        if "Server is ready" in line:
            return Running(name, host, port, process.pid, monitor)
    raise RuntimeError(f"{name} did not start:\n{''.join(seen)}")
