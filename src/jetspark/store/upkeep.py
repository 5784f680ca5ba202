"""How fast a log may be kept in order, beside its work (reliability.md 4.2)."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Upkeep:
    """Bytes per second that housekeeping may read and write; 0 stands for no bound."""

    compaction_rate: int = 64 * MIB
    scrub_rate: int = 5 * 1000 * 1000


class UpkeepCounts:
    """What housekeeping did for one log since it was opened."""

    def __init__(self) -> None:
        # Runs of segments written anew, what that read and wrote, and attempts that failed.
        self.compactions = 0
        self.compaction_read = 0
        self.compaction_written = 0
        self.compactions_failed = 0
        self.segments_removed = 0
        self.segments_condensed = 0
        # Segments that the scrubber went through, what it read, and damaged places it found.
        self.scrubs = 0
        self.scrub_read = 0
        self.scrub_damage = 0
        self.scrubs_failed = 0
