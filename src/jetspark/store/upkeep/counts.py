"""How fast a log may be kept in order while it is used, and what that did so far."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class UpkeepRates:
    """Bytes per second that upkeep may read and write; 0 stands for no bound."""

    compaction_rate: int = 64 * MIB
    scrub_rate: int = 5 * 1000 * 1000


class UpkeepCounts:
    """What upkeep did for one log since it was opened."""

    def __init__(self) -> None:
        # Runs of segments rewritten, what that read and wrote, and attempts that failed.
        self.compactions: int = 0
        self.compaction_read: int = 0
        self.compaction_written: int = 0
        self.compactions_failed: int = 0
        self.segments_removed: int = 0
        self.segments_indexed: int = 0
        # Segments that the scrubber went through, what it read, and damaged places it found.
        self.scrubs: int = 0
        self.scrub_read: int = 0
        self.scrub_damage: int = 0
        self.scrubs_failed: int = 0

    def compacted(self, read: int, written: int, failed: bool) -> None:
        """A run was rewritten, or that has failed."""
        self.compactions += not failed
        self.compactions_failed += failed
        self.compaction_read += read
        self.compaction_written += written

    def indexed(self) -> None:
        """An index file was made."""
        self.segments_indexed += 1

    def removed(self, segments: int) -> None:
        """Segments were removed."""
        self.segments_removed += segments

    def scrubbed(self, read: int, damage: int, *, finished: bool, failed: bool) -> None:
        """A segment, or a part of it, was read and checked."""
        self.scrubs += finished
        self.scrubs_failed += failed
        self.scrub_read += read
        self.scrub_damage += damage
