"""The relation between the times of a stream's messages and engine time.

Engine time starts at the machine's wall clock and then only advances (``clock.py``). The times in
a stream never decrease, and a restart may find them ahead of a wall clock that was set back, or of
another machine. So every stream has a *lead*: its times are engine time plus the lead. When the
wall clock is set forward the lead grows, for what is stored from then on; earlier messages keep
their age. ``docs/internals/clock.md`` has the details.
"""

from typing import Final

from mypy_extensions import i64

# The latest time that is stored, in the year 2255: sums with it must fit 64 bits.
LATEST_STORED: Final[i64] = 9_000_000_000_000_000_000

# How far ahead of the stream a copied message may be before the stream follows it. The clocks of
# two machines differ a little, and each change of the lead is remembered.
COPY_LEAD_MAX: Final[i64] = 60_000_000_000

# A stream further ahead of the wall clock than this is reported: maintained clocks do not differ
# so much.
AHEAD_MAX_NS: Final = 3_600_000_000_000

# This many changes of the lead are remembered.
CHANGES_MAX: Final = 64


class Timeline:
    """The lead of one stream, now and for what it stored before the lead changed."""

    def __init__(self) -> None:
        self.lead: i64 = 0
        # By ascending time: from which stored time on which lead applies; empty while there was
        # only one lead.
        self.starts: list[int] = []
        self.leads: list[int] = []

    def begin(self, newest: i64, now: i64, lead: i64) -> None:
        """Start the timeline of an opened or created stream: nothing is younger than ``now``.

        ``lead`` is that of the wall clock. If the newest message is ahead of that clock, its age
        is unknown; it counts as stored just now, so that it expires late rather than early.
        """
        self.lead = max(min(newest, LATEST_STORED) - now, lead)
        self.starts = []
        self.leads = []

    def follow(self, now: i64, lead: i64) -> None:
        """Apply at least this lead to what is stored from ``now`` on."""
        lead = min(lead, LATEST_STORED - now)
        if lead <= self.lead:
            return
        if len(self.starts) == 0:
            self.starts.append(0)
            self.leads.append(int(self.lead))
        self.starts.append(int(now + lead))
        self.leads.append(int(lead))
        self.lead = lead
        if len(self.starts) > CHANGES_MAX:
            # With the smaller of two leads messages are younger: they expire late, never early.
            del self.starts[1]
            del self.leads[1]

    def copied(self, stored: i64, now: i64) -> i64:
        """Return the engine time at which a message with its original's time is stored."""
        stored = min(stored, LATEST_STORED)
        if stored - self.lead > now + COPY_LEAD_MAX:
            self.follow(now, stored - now)
        return stored - self.lead

    def stored_time(self, now: i64) -> i64:
        """Return the time of the stream at an engine time, now or past."""
        place: i64 = len(self.starts) - 1
        while place > 0 and self.starts[place] - self.leads[place] > now:
            place -= 1
        return now + (self.lead if place < 0 else self.leads[place])

    def engine_time(self, stored: i64) -> i64:
        """Return the engine time at which something was stored."""
        place: i64 = len(self.starts) - 1
        while place > 0 and self.starts[place] > stored:
            place -= 1
        return stored - (self.lead if place < 0 else self.leads[place])
