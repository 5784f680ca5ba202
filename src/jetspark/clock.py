"""The clock: engine time and monotonic time, the only module that reads either.

Engine time (contracts.md 1, "Time") is the wall clock at the start of the process advanced by the
monotonic clock. Once a minute it is moved forward to the wall clock if that is ahead by more than
a second; it is never moved back, so stored times never decrease.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

CHECK_INTERVAL_NS: Final = 60_000_000_000
"""How often engine time is compared with the wall clock (contracts.md 1, "Time")."""

WALL_LEAD_MAX_NS: Final = 1_000_000_000
"""A wall clock ahead by no more than this is not followed (contracts.md 1, "Time")."""


class Clock(Protocol):
    """What reads time. Everything below client and server gets ``now`` as an argument instead."""

    def now_ns(self) -> int:
        """Return engine time: nanoseconds since 1970 that never decrease."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that only measures intervals."""
        ...


class SystemClock:
    """The clock of this machine; its two sources are arguments so that tests can inject them."""

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        started_ns = monotonic()
        self._offset_ns = wall() - started_ns
        self._check_at_ns = started_ns + CHECK_INTERVAL_NS

    def now_ns(self) -> int:
        """Return engine time: nanoseconds since 1970 that never decrease."""
        monotonic_ns = self._monotonic()
        if monotonic_ns >= self._check_at_ns:
            self._follow_wall(monotonic_ns)
        return monotonic_ns + self._offset_ns

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that only measures intervals."""
        return self._monotonic()

    def _follow_wall(self, monotonic_ns: int) -> None:
        """Move engine time forward to a wall clock that is ahead, and plan the next look."""
        self._check_at_ns = monotonic_ns + CHECK_INTERVAL_NS
        offset_ns = self._wall() - monotonic_ns
        if offset_ns - self._offset_ns > WALL_LEAD_MAX_NS:
            self._offset_ns = offset_ns
