"""Memory and CPU time of this process, from ``/proc``, without a dependency.

Without ``/proc`` both are None, and the answers omit them.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

_SECOND_NS: Final = 1_000_000_000
# Fields of /proc/<pid>/stat, counted after the command (proc(5) counts from 1 with two before).
_UTIME: Final = 11
_STIME: Final = 12
_STARTTIME: Final = 19
_RSS: Final = 21


class ProcessUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of the process. ``cpu`` is in percent of one core, as in nats-server."""

    cores: int
    mem: int | None = None
    cpu: float | None = None


class ProcessMeter:
    """Measures the process; ``cpu`` is the average since the previous sample, a second apart."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._stat = proc / "self" / "stat"
        self._uptime = proc / "uptime"
        self.page_size: int = os.sysconf("SC_PAGE_SIZE")
        self.ticks_per_second: int = os.sysconf("SC_CLK_TCK")
        self._last_ns: int | None = None
        self._last_ticks = 0
        self._cpu: float | None = None

    def sample(self, now_ns: int) -> ProcessUsage:
        """Return the current usage of the process."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        usage = ProcessUsage(cores=cores or os.cpu_count() or 1)
        try:
            # The command is in parentheses and may contain blanks and parentheses itself.
            fields = self._stat.read_text().rpartition(")")[2].split()
            self._measure(int(fields[_UTIME]) + int(fields[_STIME]), fields, now_ns)
            memory = int(fields[_RSS]) * self.page_size
        except (OSError, ValueError, IndexError):
            return usage
        return msgspec.structs.replace(usage, mem=memory, cpu=self._cpu)

    def _measure(self, ticks: int, fields: list[str], now_ns: int) -> None:
        if self._last_ns is None:
            # The first answer is the average over the life of the process.
            alive = float(self._uptime.read_text().split()[0]) - (
                int(fields[_STARTTIME]) / self.ticks_per_second
            )
            self._cpu = self._percent(ticks, alive)
        elif now_ns - self._last_ns >= _SECOND_NS:
            self._cpu = self._percent(
                ticks - self._last_ticks, (now_ns - self._last_ns) / _SECOND_NS
            )
        else:
            return
        self._last_ns = now_ns
        self._last_ticks = ticks

    def _percent(self, ticks: int, seconds: float) -> float:
        if seconds <= 0:
            return 0.0
        return round(max(ticks, 0) / self.ticks_per_second / seconds * 100, 1)
