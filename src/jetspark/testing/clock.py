"""A clock that tests move forward; between two moves it advances with the system clock."""

from typing import Final

from jetspark.clock import SystemClock

# Times are 64-bit nanoseconds, which end in 2262; ages and TTLs are added to them.
LATEST_NS: Final = 8_000_000_000_000_000_000


class MovableClock:
    """Engine time and date, ``ahead_ns`` ahead of those of the machine.

    ``monotonic_ns`` stays real: it measures how long work takes.
    """

    def __init__(self, ahead_ns: int) -> None:
        self._system = SystemClock()
        self.ahead_ns: int = ahead_ns
        # The date is moved together with engine time: to programs a day has passed, the clock of
        # the machine was not set.
        self.wall_lead_ns: int = 0
        self._held_ns = 0

    def now_ns(self) -> int:
        """Return engine time."""
        return self._held_ns or self._system.now_ns() + self.ahead_ns

    def wall_ns(self) -> int:
        """Return the date and time, in nanoseconds since 1970."""
        return self.now_ns()

    def monotonic_ns(self) -> int:
        """Return nanoseconds of a clock that only measures intervals."""
        return self._system.monotonic_ns()

    def hold(self) -> None:
        """Stand still until `release`, except for moves: each deadline is met exactly."""
        self._held_ns = self.now_ns()

    def move_to(self, time_ns: int) -> None:
        """Move a clock that stands still forward to a time."""
        assert self._held_ns, "it was held before"
        self._held_ns = max(self._held_ns, time_ns)

    def release(self) -> None:
        """Advance with the system clock again, from here on."""
        self.ahead_ns = max(self.ahead_ns, self._held_ns - self._system.now_ns())
        self._held_ns = 0
