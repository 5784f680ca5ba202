"""Storage limits of JetStream: as configured, or a share of the machine's resources."""

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import Final

from jetspark.api.enums import Storage
from jetspark.clock import Clock
from jetspark.engine.usage import NO_LIMIT, ServerUsage
from jetspark.units import format_bytes, gib, seconds

log: logging.Logger = logging.getLogger("jetspark.server")

_SHARE: Final = 3, 4  # as in nats-server
_UNKNOWN_MEMORY: Final = gib(2)
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


def machine_memory(proc: Path = Path("/proc")) -> int:
    """Return the memory of the machine; 0 if unknown."""
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemTotal":
                return int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def memory_budget(proc: Path = Path("/proc")) -> int:
    """Return three quarters of the memory; 0 if unknown."""
    return machine_memory(proc) * _SHARE[0] // _SHARE[1]


def output_budget(configured: int, proc: Path = Path("/proc"), cgroup: Path = _CGROUP) -> int:
    """Return the maximum unread output of all clients together.

    If it is not configured, it is half of the memory of the machine or of the container.
    """
    if configured > 0:
        return configured
    memory = machine_memory(proc) or _UNKNOWN_MEMORY
    # No container, or one without a limit ("max"), is no error.
    with contextlib.suppress(OSError, ValueError):
        memory = min(memory, int(cgroup.read_text()))
    return memory // 2


def input_budget(configured: int) -> int:
    """Return the maximum input that all clients together may have unprocessed.

    If it is not configured, it is a quarter of the memory.
    """
    return configured if configured > 0 else output_budget(0) // 2


def storage_budget(folder: Path, used: int = 0, grown: int = 0) -> int:
    """Return the maximum size of the store: three quarters of the free disk, and what it has.

    ``grown`` is how much it has grown since: that counts as free. 0 if the folder does not exist.
    """
    try:
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
    except OSError:
        return 0
    return (free + grown) * _SHARE[0] // _SHARE[1] + used


def budget(configured: int, machine: int) -> int:
    """Return the limit of JetStream: as configured, else from the machine, if known."""
    return configured if configured >= 0 else machine or NO_LIMIT


class BudgetLog:
    """Logs that the server exceeds its limit: clients get only a code, 10023."""

    QUIET_NS: Final = seconds(60)

    def __init__(self, usage: ServerUsage, clock: Clock) -> None:
        self._usage = usage
        self._clock = clock
        self._logged_at = -self.QUIET_NS

    def changed(self, storage: Storage) -> None:
        """Log it at most once a minute: at the limit it may change with every message."""
        now = self._clock.monotonic_ns()
        if not self._usage.is_over(storage) or now < self._logged_at + self.QUIET_NS:
            return
        self._logged_at = now
        log.error(
            "JetStream resource limits exceeded for server: streams use %s of %s; messages are "
            "refused (10023) until streams use less, or until jetstream.%s is raised",
            format_bytes(self._usage.used[storage]),
            format_bytes(self._usage.limits[storage]),
            "max_mem" if storage == Storage.MEMORY else "max_file",
        )


class DiskBudget:
    """The limit of a server whose configuration has no ``max_file``: a share of the disk.

    Space that is freed after the start counts as well. So messages are accepted again without a
    restart, also by a server that was started on a full disk.
    """

    PERIOD: Final = 1.0  # seconds

    def __init__(self, usage: ServerUsage, folder: Path, budget_log: BudgetLog) -> None:
        self._usage = usage
        self._folder = folder
        self._log = budget_log
        self._base = usage.used[Storage.FILE]
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        usage.set_limit(Storage.FILE, self._now())

    def _now(self) -> int:
        """Return what a start would find if the growth of the streams since were free space."""
        grown = self._usage.used[Storage.FILE] - self._base
        return budget(NO_LIMIT, storage_budget(self._folder, self._base, grown))

    def changed(self, storage: Storage) -> None:
        """Handle that the server exceeded a limit, or no longer does."""
        if storage == Storage.FILE:
            self._look()
        self._log.changed(storage)

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ended or not self._usage.is_over(Storage.FILE):
            return
        found = self._now()
        if found >= self._usage.used[Storage.FILE]:
            self._usage.set_limit(Storage.FILE, found)
        else:
            self._timer = asyncio.get_running_loop().call_later(self.PERIOD, self._look)

    def end(self) -> None:
        """Stop: the configuration has a limit now, or the server stops."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
