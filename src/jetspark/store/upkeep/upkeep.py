"""Upkeep of a log: the task under way, and what is known to decide which one is next.

Which tasks there are and their order: ``next_task.py``. One at a time; nothing waits for them.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.log.access import Access
from jetspark.store.log.durability import Durability
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.reader import LogReader
from jetspark.store.log.segments import Segments
from jetspark.store.upkeep.counts import UpkeepCounts, UpkeepRates
from jetspark.store.upkeep.task import Task

DAY_NS: Final[i64] = 24 * 3600 * 1_000_000_000
# How much removed bytes make looking for garbage worth it: this part of a segment.
LOOK_PART: Final[i64] = 4


class Upkeep:
    """Which task of one log is under way, and what is due."""

    def __init__(
        self,
        index: StreamIndex,
        segments: Segments,
        durability: Durability,
        access: Access,
        reader: LogReader,
        rates: UpkeepRates,
    ) -> None:
        self.index: StreamIndex = index
        self.segments: Segments = segments
        self.durability: Durability = durability
        self.access: Access = access
        self.reader: LogReader = reader
        self.rates: UpkeepRates = rates
        self.counts: UpkeepCounts = UpkeepCounts()
        # Engine time, as given last.
        self.now: i64 = 0
        # The task under way, and whether another thread does it.
        self.task: Task | None = None
        self.is_out: bool = False
        # A removal of files to be tried again: they are gone from the index.
        self.unremoved: Task | None = None
        # Something may be due that no other field says.
        self.due: bool = True
        # A log that failed is to be opened again.
        self.reopen_due: bool = False
        # How much of each segment has an index file, and from which end on another is worth it.
        self.indexed: dict[str, int] = {}
        self.index_at: i64 = 0
        # Looking for garbage is worth it when this much was removed in all; after a failure,
        # trying again is worth it from here on.
        self.compact_at: i64 = 0
        self.compact_after: i64 = 0
        # That was because the disk refused, not because of damage.
        self.compact_refused: bool = False
        # The disk is full, perhaps because of other streams: what can be given back should be.
        self.space_wanted: bool = False
        # Compress what is rewritten, and rewrite what is full (``compression.py``).
        self.packing: bool = False
        # When segments were last read and checked, and a check that is not done yet.
        self.scrubbed: dict[str, int] = {}
        self.scrubbing: Task | None = None
        self.scrub_at: i64 = 0
        # A manifest says less than the log.
        self.manifest_due: bool = False
        # What the manifests say of the files and of the last sequence, and whether it is time
        # to say more (``manifests.py``).
        self.noted_segments: tuple[str, ...] = ()
        self.noted_seq: i64 = 0
        self.note_due: bool = False

    def tick(self, now: i64) -> None:
        """It is this late."""
        self.now = max(self.now, now)

    def has_task(self) -> bool:
        """Say whether it is worth looking for a task; asked after each commit."""
        return (
            self.due
            or self.space_wanted
            or self.durability.sync_due
            or (self.manifest_due and not self.durability.unsynced)
            or self.access.full
            or self.segments.end >= self.index_at
            or self.index.removed_bytes >= self.compact_at
            or self.is_front_dead()
            or self.now >= self.scrub_at > 0
            or len(self.reader.unreadable) > 0
            or self.note_due
        )

    def is_front_dead(self) -> bool:
        """Say whether the oldest segment may have nothing left."""
        if self.unremoved is not None:
            return True
        segments = self.index.segments
        return len(segments) > 1 and segments[0].live == 0 and not segments[0].pinned

    def want_reopening(self, due: bool) -> None:
        """Say whether a log that failed is to be opened again."""
        self.reopen_due = due

    # The task under way ------------------------------------------------------------------------

    def begin(self, task: Task | None, is_out: bool) -> None:
        """A task is under way; ``is_out``: another thread does its steps."""
        self.task = task
        self.is_out = is_out and task is not None

    def end(self) -> None:
        """None is under way any more."""
        self.task = None
        self.is_out = False

    def found_nothing(self) -> None:
        """Nothing is due: from when on looking again is worth it."""
        self.due = False
        self.space_wanted = False
        size = self.segments.size
        self.index_at = self.indexed.get(self.index.segments[-1].name, 0) + size // 2
        self.compact_at = self.index.removed_bytes + size // LOOK_PART
        self.scrub_at = min(self.scrubbed.values(), default=int(self.now)) + DAY_NS

    def segment_begun(self) -> None:
        """A segment is full, and another one was begun."""
        self.due = True
        self.index_at = self.segments.size // 2

    def close(self) -> None:
        """The log is closed: let go of what waits."""
        self.unremoved = None
        self.scrubbing = None

    # Removal of files --------------------------------------------------------------------------

    def remove_later(self, removal: Task | None) -> None:
        """Files are to be removed that the index does not know any more."""
        self.unremoved = removal

    def take_unremoved(self) -> Task | None:
        """The removal that waits."""
        removal, self.unremoved = self.unremoved, None
        return removal

    # Index files -------------------------------------------------------------------------------

    def note_indexed(self, name: str, end: int) -> None:
        """A segment has an index file up to here, or that was tried."""
        self.indexed[name] = end

    def forget_indexed(self, names: list[str]) -> None:
        """Segments are gone, or their index files are."""
        for name in names:
            self.indexed.pop(name, 0)

    # Compaction --------------------------------------------------------------------------------

    def pack(self, packing: bool) -> None:
        """Compress what is rewritten, or not."""
        self.packing = packing

    def compact_later(self) -> None:
        """The disk refused: not again before there is more to gain."""
        self.compact_after = self.index.removed_bytes + self.segments.size // LOOK_PART
        self.compact_refused = True
        self.space_wanted = False

    def want_space(self) -> None:
        """The disk is full: look for what can be given back, until there is nothing more."""
        self.space_wanted = not self.segments.in_memory
        if self.compact_refused:
            # What failed may have been too large: small runs find space where it did not.
            self.compact_refused = False
            self.compact_after = 0

    def compact_after_quarantine(self) -> None:
        """Bytes do not check: not again before they were copied aside."""
        self.compact_after = self.index.removed_bytes + 1

    def compact_again(self) -> None:
        """What could not be rewritten because of damage can be now."""
        self.compact_after = 0

    # Scrubbing ---------------------------------------------------------------------------------

    def adopt_scrubbed(self, times: dict[str, int]) -> None:
        """When segments were last checked, as earlier starts noted it."""
        self.scrubbed = times

    def scrub_later(self, scrub: Task) -> None:
        """The rest of a check follows when nothing else is to be done."""
        self.scrubbing = scrub

    def take_scrubbing(self) -> Task | None:
        """The check that is not done yet."""
        scrub, self.scrubbing = self.scrubbing, None
        return scrub

    def note_scrubbed(self, name: str, time_ns: int) -> None:
        """A segment was checked at a time; what is known of others that are gone is forgotten."""
        names = {columns.name for columns in self.index.segments}
        self.scrubbed[name] = time_ns
        self.scrubbed = {name: time for name, time in self.scrubbed.items() if name in names}

    def index_file_is_bad(self, name: str) -> None:
        """An index file does not check: make another one."""
        self.indexed.pop(name, 0)
        self.due = True

    # Manifests ---------------------------------------------------------------------------------

    def want_manifest(self, due: bool) -> None:
        """Say whether the manifests say less than the log."""
        self.manifest_due = due

    def want_note(self, due: bool) -> None:
        """Say whether it is time to note how far the stream is stored."""
        self.note_due = due

    def note_segments(self, segments: tuple[str, ...]) -> None:
        """The manifests say which files there are, or that was tried."""
        self.note_due = False
        self.noted_segments = segments

    def note_stored(self, seq: int) -> None:
        """The manifests say that the stream is stored up to here."""
        self.noted_seq = seq
