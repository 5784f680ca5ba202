"""A job and the processes that it has started: executors, JVMs, Python workers."""

import contextlib
import os
import signal
from pathlib import Path


def kill_all(job: int) -> None:
    """End a job and everything that it has started with SIGKILL, by process id."""
    for pid in (job, *descendants(job)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(root: int) -> list[int]:
    """Return the processes below ``root``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # pid (name) state parent ...; a name may hold blanks and brackets.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = list[int](), [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def command_of(pid: int) -> bytes:
    """Return the command line of a process; empty when it has ended."""
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "cmdline").read_bytes()
    return b""
