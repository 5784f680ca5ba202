"""The clock: engine time, wall time and monotonic time, the only module that reads any of them.

Engine time is the wall clock at the start of the process, advanced by the time that passes: the
monotonic clock and the time that the machine was asleep. Nobody can set it, so whatever waits or
grows old waits and grows old as long as it should. Wall time is the date that people mean; once a
minute it is compared with the clock of the machine, which somebody may have set forward or back.
``docs/internals/clock.md`` says which is used where.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

log: logging.Logger = logging.getLogger("jetspark.clock")

CHECK_INTERVAL_NS: Final = 60_000_000_000
"""How often engine time is compared with the clock of the machine."""

DIFFERENCE_MAX_NS: Final = 1_000_000_000
"""A difference of no more than this is left alone: clocks are read one after the other."""


class Clock(Protocol):
    """What reads time. Everything below client and server gets ``now`` as an argument instead.

    ``wall_lead_ns`` is how far the date is ahead of engine time; less than 0 is behind. It is a
    field because somebody looks at it in every turn of the loop.
    """

    wall_lead_ns: int

    def now_ns(self) -> int:
        """Return engine time: nanoseconds since 1970 that only the passing of time changes."""
        ...

    def wall_ns(self) -> int:
        """Return the date and time, in nanoseconds since 1970; it may be set back."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that only measures intervals."""
        ...


def asleep_ns() -> int:
    """Return how long the machine was suspended since it was switched on, if it can tell."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    if boot is None:
        return 0
    return time.clock_gettime_ns(boot) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock of this machine; its sources are arguments so that tests can inject them."""

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
        """Return engine time: nanoseconds since 1970 that only the passing of time changes."""
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
        """Count the time that the machine was asleep, and see whether its clock was set."""
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
                "The clock of this machine was set %s by %.1f seconds",
                "forward" if change_ns > 0 else "back",
                abs(change_ns) / 1e9,
            )
