"""A served jetspark as a process of its own, as users run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path


class Served:
    """A `jetspark serve` process that is ready, or has ended."""

    def __init__(self, store: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "jetspark", "serve", "-a", "127.0.0.1"]
        command += ["-js", "-sd", str(store)]
        self.process = subprocess.Popen(
            [*command, *(arguments or ("-p", "-1"))],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
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
        return self.process.returncode

    def end(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        elif self.process.stderr is not None:
            self.process.stderr.close()
