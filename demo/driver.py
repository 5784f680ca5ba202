"""The Spark driver of the demo: `jetspark pipeline run --continuous` in a separate process.

It is started in its own process group, so that killing the group ends driver and JVM at once, as
when a machine fails.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from jetspark.errors import Error

# For Spark on a busy machine; usually it takes a quarter of this.
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 40.0
SMALL: Final = 100_000


class DriverFailed(Error):
    """The pipeline ended, or printed nothing for too long."""


def _sizes(events: int) -> list[str]:
    """Return settings for the size of the run: a micro-batch is at most an eighth of it.

    So the kill happens in the middle of the work. A small run, that of the tests, does not start
    the Python workers of a second task.
    """
    small = events < SMALL
    settings = {
        "spark.jetspark.demo.batch": events // (4 if small else 8),
        "spark.jetspark.demo.partitions": 1 if small else 4,
        "spark.sql.shuffle.partitions": 1 if small else 2,
    }
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


class Driver:
    """A running pipeline; its output is passed on line by line, from a thread."""

    def __init__(
        self,
        project: Path,
        server: str,
        errors: Path,
        events: int,
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        self._take = take
        self._errors = errors
        self.flows: set[str] = set()
        command = [
            *(sys.executable, "-m", "jetspark", "pipeline", "run", "--continuous", "--json"),
            *("--project", str(project), "--server", server, "--master", "local[2]"),
            *("--trigger", "500ms", *_sizes(events)),
        ]
        with errors.open("ab") as stderr:
            self._process = subprocess.Popen(  # noqa: S603 - this same program
                command,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    @property
    def pid(self) -> int:
        """The process id; those of its group end with it."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def await_flows(self, count: int, show: Callable[[int], None]) -> None:
        """Wait until this many flows have started; ``show`` gets how many have."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(self.flows) < count:
            if self.ended or time.monotonic() > deadline:
                raise self.failure()
            time.sleep(0.1)
            show(len(self.flows))

    def failure(self) -> DriverFailed:
        """Return the error if it should run and does not."""
        said = self._errors.read_text(errors="replace").strip().splitlines()
        code = self._process.poll()
        how = "makes no progress" if code is None else f"ended with exit code {code}"
        return DriverFailed(f"the pipeline {how}: {said[-1] if said else 'no output'}")

    def kill(self) -> None:
        """Kill driver and JVM, as in a crash."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=5)

    def stop(self) -> int:
        """Ask it to end after the current micro-batch; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(timeout=5)
        return self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # truncated by the kill
            if event.get("event") == "started":
                self.flows.add(event["flow"])
            self._take(event)
        self._process.stdout.close()
