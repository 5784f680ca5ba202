"""Durability levels: when acknowledged messages are on disk.

- ``durable``: before the acknowledgement.
- ``interval``: acknowledged once the operating system has them, and synced once per period.
- ``async``: the same with a long period; streams request it (``persist_mode: async``).

At the lower levels a power failure may lose what was stored since the last sync, and nothing else:
a replacement is synced before the original is removed, a segment before its successor is started,
everything before a configuration is written, a log when it is closed. Sequences that readers saw
are not reused either: before a group is written, a manifest reserves them, many at a time.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.format.record import GROUP_FIRST
from jetspark.store.format.segment import parse_segment_name
from jetspark.store.journal.journal import Journal
from jetspark.store.journal.segment import JournaledSegment
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.preparation import Preparation
from jetspark.store.log.segments import Segments

LEVELS: Final = ("durable", "interval", "async")
SECOND: Final = 1_000_000_000
# nats-server's default; how long a stream of level ``async`` may be without a sync.
SYNC_PERIOD_NS: Final = 120 * SECOND
# This many sequences are reserved at a time.
SEQUENCES_AHEAD: Final = 65_536


class Durability:
    """What is on disk of one log, and what an acknowledgement guarantees."""

    def __init__(self, segments: Segments, index: StreamIndex) -> None:
        self.segments: Segments = segments
        self.index: StreamIndex = index
        self.level: str = "durable"
        # Whether groups are on disk when they are acknowledged; else how often they are synced.
        self.durable: bool = True
        self.sync_period: int = 0
        # Up to where the newest segment is on disk, in the segment itself or in the journal, and
        # up to where in the segment itself.
        self.certain_end: i64 = 0
        self.synced_end: i64 = 0
        # The journal of the store, and the newest segment as the journal knows it.
        self.journal: Journal | None = None
        self.segment: JournaledSegment | None = None
        # No later start assigns a sequence up to this one.
        self.sequence_floor: i64 = 0
        self.sequences_ahead: int = 0
        # GROUP_FIRST if everything before the next group will be on disk when it is written, else
        # 0.
        self.group_flag: i64 = GROUP_FIRST
        # It is time to sync what was acknowledged before it was on disk.
        self.sync_due: bool = False
        self.sync_error: OSError | None = None

    @property
    def unsynced(self) -> bool:
        """Return whether something was acknowledged that is not on disk yet."""
        return self.certain_end < self.segments.end

    @property
    def unsynced_segment(self) -> bool:
        """Return whether the newest segment itself is not on disk to its end."""
        return self.synced_end < self.segments.end

    def choose(self, level: str, sync_period: int = 0, sequences_ahead: int = 0) -> None:
        """Set the level, from the next group on."""
        if level not in LEVELS:
            raise ValueError(f"durability {level!r}: expected one of {', '.join(LEVELS)}")
        self.level = level
        self.durable = level == "durable"
        self.sync_period = sync_period
        self.sequences_ahead = sequences_ahead

    def share(self, journal: Journal) -> None:
        """Set the journal that groups may be written to."""
        self.journal = journal

    def want_sync(self, due: bool) -> None:
        """Set whether it is time to sync what was acknowledged before it was on disk."""
        self.sync_due = due

    # Groups ------------------------------------------------------------------------------------

    def floor_for(self, staged_seq: i64) -> int:
        """Return the sequences to reserve before the next group is written; 0: none."""
        if self.durable:
            return 0
        if staged_seq > self.sequence_floor:
            return int(staged_seq) + self.sequences_ahead
        return 0

    def group_taken(self) -> None:
        """Note a written group: at a lower level the next one does not prove it is on disk."""
        if not self.durable:
            self.group_flag = 0

    def journaled(self, stream_id: int) -> JournaledSegment | None:
        """Return the newest segment as the journal knows it; None without a journal."""
        if self.segment is None and self.journal is not None:
            newest = self.index.segments[-1]
            place = parse_segment_name(newest.name)
            assert place is not None, "a log has only segments"
            self.segment = JournaledSegment(
                self.journal,
                self.segments,
                stream_id,
                newest.name,
                place,
                int(newest.generation),
                self.sync_failed,
            )
        return self.segment

    def landed(self, offset: i64, shared: bool) -> None:
        """Note that a group is on disk, and everything before it; ``shared``: in the journal.

        A synced write at an offset syncs nothing before it.
        """
        if not shared and self.synced_end >= offset:
            self.synced_end = self.segments.end
        self.certain_end = self.segments.end
        self.group_flag = GROUP_FIRST

    def proven(self) -> None:
        """Note that all of the newest segment is on disk: after verification."""
        self.all_synced()
        self.group_flag = GROUP_FIRST

    def group_failed(self) -> bool:
        """Note a group that did not reach the disk; True if a sync failed.

        A failed sync concerns everything written since the last one, whatever the reason: no later
        one brings it to the disk.
        """
        if not self.unsynced:
            # The failed group contained the mark of a first one. Without the mark a start
            # considers what is on disk part of the last group, too, and writes it again: a power
            # failure in that write tears what was acknowledged.
            self.group_flag = GROUP_FIRST
        lost = self.sync_error is not None
        self.sync_error = None
        return lost

    def prepared(self, done: Preparation) -> None:
        """Apply what was synced and reserved before a group."""
        if done.sync_error is not None:
            self.sync_error = done.sync_error
        if done.synced:
            self.synced_end = max(i64(done.end), self.synced_end)
            self.certain_end = max(self.synced_end, self.certain_end)
        if done.reserved:
            self.sequence_floor = done.floor

    # Segments ----------------------------------------------------------------------------------

    def all_synced(self) -> None:
        """Note that the newest segment is on disk to its end: it was started or recovered.

        The one before it is on disk to its end, too.
        """
        self.synced_end = self.segments.end
        self.certain_end = self.segments.end
        self.leave_journal()

    def leave_journal(self) -> None:
        """Note that the journal is not needed for the newest segment any more."""
        if self.segment is not None:
            self.segment.release()
            self.segment = None

    def synced(self, end: i64, idle: bool) -> None:
        """Note that the newest segment is on disk up to ``end``; ``idle``: nothing is staged."""
        self.synced_end = max(end, self.synced_end)
        self.certain_end = max(self.synced_end, self.certain_end)
        if not self.unsynced and idle:
            self.group_flag = GROUP_FIRST

    def sync_ended(self) -> None:
        """Note that the due sync is done, or that there was nothing to do."""
        self.sync_due = False

    def sync_failed(self, error: OSError | None) -> None:
        """Note a failed sync. It is a failed write, whatever its purpose: the log stops."""
        self.sync_error = error

    def adopt_floor(self, floor: int) -> None:
        """Note that a manifest reserves sequences up to ``floor``."""
        self.sequence_floor = floor
