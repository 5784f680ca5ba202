"""A served jetspark as a process of its own, as users run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.forks import Fork, fork_server


class Served:
    """A `jetspark serve` process that is ready, or has ended.

    With ``command`` the command is started, as users do, else a fork (tests/support/forks.py).
    """

    def __init__(self, store: Path, *arguments: str, command: bool = False) -> None:
        flags = ["-a", "127.0.0.1", "-js", "-sd", str(store), *(arguments or ("-p", "-1"))]
        self.process: subprocess.Popen[str] | Fork = (
            subprocess.Popen(
                [sys.executable, "-m", "jetspark", "serve", *flags],
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
            if command
            else fork_server(flags)
        )
        self.lines: list[str] = []
        self.url = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"Listening for client connections on (\S+)", line)
            if found:
                self.url = "nats://" + found[1]
            if "Server is ready" in line:
                break

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end; what was still to read is in ``lines`` then."""
        _, rest = self.process.communicate(timeout=20)
        self.lines += rest.splitlines(keepends=True)
        return self.process.wait()

    def end(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        elif self.process.stderr is not None:
            self.process.stderr.close()
