"""Rate limits and statistics of upkeep."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class UpkeepRates:
    """Bytes per second that upkeep may read and write; 0 means no limit."""

    compaction_rate: int = 64 * MIB
    scrub_rate: int = 5 * 1000 * 1000


class UpkeepCounts:
    """The statistics of upkeep of one log since it was opened."""

    def __init__(self) -> None:
        # Runs of segments rewritten, bytes read and written for that, and failed attempts.
        self.compactions: int = 0
        self.compaction_read: int = 0
        self.compaction_written: int = 0
        self.compactions_failed: int = 0
        self.segments_removed: int = 0
        self.segments_indexed: int = 0
        # Segments that the scrubber read, bytes read, and damaged places found.
        self.scrubs: int = 0
        self.scrub_read: int = 0
        self.scrub_damage: int = 0
        self.scrubs_failed: int = 0

    def compacted(self, read: int, written: int, failed: bool) -> None:
        """Count a run that was rewritten, or failed."""
        self.compactions += not failed
        self.compactions_failed += failed
        self.compaction_read += read
        self.compaction_written += written

    def indexed(self) -> None:
        """Count an index file."""
        self.segments_indexed += 1

    def removed(self, segments: int) -> None:
        """Count removed segments."""
        self.segments_removed += segments

    def scrubbed(self, read: int, damage: int, *, finished: bool, failed: bool) -> None:
        """Count a segment, or part of it, that was read and verified."""
        self.scrubs += finished
        self.scrubs_failed += failed
        self.scrub_read += read
        self.scrub_damage += damage
