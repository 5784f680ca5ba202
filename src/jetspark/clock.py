"""The clock: engine time, wall time and monotonic time, the only module that reads any of them.

Engine time is the wall clock at the start of the process, advanced by elapsed time: the monotonic
clock plus the time that the machine was suspended. It cannot be set, so timeouts and ages are
always measured correctly. Wall time is the date; once a minute engine time is compared with the
system clock, which an administrator or NTP may have set forward or back.
``docs/internals/clock.md`` says which is used where.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

log: logging.Logger = logging.getLogger("jetspark.clock")

CHECK_INTERVAL_NS: Final = 60_000_000_000
"""How often engine time is compared with the system clock."""

DIFFERENCE_MAX_NS: Final = 1_000_000_000
"""Smaller differences are ignored: the clocks are read one after the other."""


class Clock(Protocol):
    """The source of time. Everything below client and server gets ``now`` as an argument instead.

    ``wall_lead_ns`` is how far the date is ahead of engine time; negative if the date lags. It is
    a field because every turn of the loop reads it.
    """

    wall_lead_ns: int

    def now_ns(self) -> int:
        """Return engine time: nanoseconds since 1970 that advance only as time passes."""
        ...

    def wall_ns(self) -> int:
        """Return the date and time, in nanoseconds since 1970; it may be set back."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that only measures intervals."""
        ...


def asleep_ns() -> int:
    """Return how long the machine has been suspended since boot; 0 if unknown."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    if boot is None:
        return 0
    return time.clock_gettime_ns(boot) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock of this machine; tests inject its sources."""

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        asleep: Callable[[], int] = asleep_ns,
        check_interval_ns: int = CHECK_INTERVAL_NS,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._asleep = asleep
        self._check_interval_ns = check_interval_ns
        started_ns = monotonic()
        self._offset_ns = wall() - started_ns
        self._asleep_ns = asleep()
        self.wall_lead_ns: int = 0
        self._check_at_ns = started_ns + check_interval_ns

    def now_ns(self) -> int:
        """Return engine time: nanoseconds since 1970 that advance only as time passes."""
        monotonic_ns = self._monotonic()
        if monotonic_ns >= self._check_at_ns:
            self._compare(monotonic_ns)
        return monotonic_ns + self._offset_ns

    def wall_ns(self) -> int:
        """Return the date and time, in nanoseconds since 1970; it may be set back."""
        return self.now_ns() + self.wall_lead_ns

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that only measures intervals."""
        return self._monotonic()

    def _compare(self, monotonic_ns: int) -> None:
        """Add the time that the machine was suspended, and detect whether its clock was set."""
        self._check_at_ns = monotonic_ns + self._check_interval_ns
        asleep_ns = self._asleep()
        if asleep_ns - self._asleep_ns > DIFFERENCE_MAX_NS:
            self._offset_ns += asleep_ns - self._asleep_ns
            self._asleep_ns = asleep_ns
        lead_ns = self._wall() - (monotonic_ns + self._offset_ns)
        change_ns = lead_ns - self.wall_lead_ns
        if abs(change_ns) > DIFFERENCE_MAX_NS:
            self.wall_lead_ns = lead_ns
            log.warning(
                "The system clock was set %s by %.1f seconds",
                "forward" if change_ns > 0 else "back",
                abs(change_ns) / 1e9,
            )
