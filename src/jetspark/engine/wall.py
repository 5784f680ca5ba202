"""Wall time in an engine: engine time, and how far the wall clock is from it."""

from jetspark.units import LATEST


class Wall:
    """The wall clock. ``lead`` is 0 until the system clock is set."""

    def __init__(self) -> None:
        self.lead: int = 0

    def follow(self, lead: int) -> bool:
        """Set how far the wall clock is ahead of engine time; True if that changed."""
        changed = lead != self.lead
        self.lead = lead
        return changed

    def at(self, now: int) -> int:
        """Return the date and time at an engine time."""
        return now + self.lead

    def engine_time(self, date: int) -> int:
        """Return the engine time of a date, as far as known; within 64 bits."""
        return max(min(date - self.lead, LATEST), -LATEST)
