"""The date and time as an engine knows it: engine time, and how far the wall clock is from it."""

from jetspark.units import LATEST


class Wall:
    """The wall clock. ``lead`` is 0 until somebody sets the clock of the machine."""

    def __init__(self) -> None:
        self.lead: int = 0

    def follow(self, lead: int) -> bool:
        """The wall clock is this far ahead of engine time; True when that is news."""
        changed = lead != self.lead
        self.lead = lead
        return changed

    def at(self, now: int) -> int:
        """The date and time at an engine time."""
        return now + self.lead

    def engine_time(self, date: int) -> int:
        """The engine time at which a date comes, as far as is known; within 64 bits."""
        return max(min(date - self.lead, LATEST), -LATEST)
