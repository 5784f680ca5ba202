"""Upkeep of a log: the current task, and the facts that decide which one is next.

The tasks and their order: ``next_task.py``. One at a time; nothing waits for them.
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
# How many removed bytes make looking for garbage worth it: this fraction of a segment.
LOOK_PART: Final[i64] = 4


class Upkeep:
    """The current task of one log, and what is due."""

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
        # The engine time of the last `tick`.
        self.now: i64 = 0
        # The current task, and whether another thread runs it.
        self.task: Task | None = None
        self.is_out: bool = False
        # A removal of files to be retried: the index no longer has them.
        self.unremoved: Task | None = None
        # Something may be due that no other field shows.
        self.due: bool = True
        # A log that failed is to be opened again.
        self.reopen_due: bool = False
        # How much of each segment is indexed, and from which end on another index file is worth
        # it.
        self.indexed: dict[str, int] = {}
        self.index_at: i64 = 0
        # Looking for garbage is worth it when this much was removed in total; after a failure, a
        # retry is worth it from here on.
        self.compact_at: i64 = 0
        self.compact_after: i64 = 0
        # Because the disk failed, not because of damage.
        self.compact_refused: bool = False
        # The disk is full, perhaps because of other streams: free what can be freed.
        self.space_wanted: bool = False
        # Compress what is rewritten, and rewrite what is full (``compression.py``).
        self.packing: bool = False
        # When segments were last scrubbed, and a scrub that is not finished.
        self.scrubbed: dict[str, int] = {}
        self.scrubbing: Task | None = None
        self.scrub_at: i64 = 0
        # A manifest is older than the log.
        self.manifest_due: bool = False
        # The files, their versions and the last sequence in the manifests, and whether it is time
        # to update them (``manifests.py``).
        self.noted_segments: tuple[str, ...] = ()
        self.noted_versions: tuple[tuple[int, int], ...] = ()
        self.noted_seq: i64 = 0
        self.noted_end: tuple[str, int] | None = None
        self.note_due: bool = False

    def tick(self, now: i64) -> None:
        """Set the current engine time."""
        self.now = max(self.now, now)

    def has_task(self) -> bool:
        """Return whether looking for a task is worth it; called after each commit."""
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
            or self.segments.wants_manifests
        )

    def is_front_dead(self) -> bool:
        """Return whether the oldest segment may have nothing left in it."""
        if self.unremoved is not None:
            return True
        segments = self.index.segments
        return len(segments) > 1 and segments[0].live == 0 and not segments[0].pinned

    def want_reopening(self, due: bool) -> None:
        """Set whether a log that failed is to be opened again."""
        self.reopen_due = due

    # The current task ---------------------------------------------------------------------------

    def begin(self, task: Task | None, is_out: bool) -> None:
        """Set the current task; ``is_out``: another thread runs its steps."""
        self.task = task
        self.is_out = is_out and task is not None

    def end(self) -> None:
        """Note that no task is running."""
        self.task = None
        self.is_out = False

    def found_nothing(self) -> None:
        """Note that nothing is due, and from when on looking again is worth it."""
        self.due = False
        self.space_wanted = False
        size = self.segments.size
        self.index_at = self.indexed.get(self.index.segments[-1].name, 0) + size // 2
        self.compact_at = self.index.removed_bytes + size // LOOK_PART
        self.scrub_at = min(self.scrubbed.values(), default=int(self.now)) + DAY_NS

    def segment_started(self) -> None:
        """Note that a segment is full, and another one was started."""
        self.due = True
        self.index_at = self.segments.size // 2

    def close(self) -> None:
        """Release what waits: the log is closed."""
        self.unremoved = None
        self.scrubbing = None

    # Removal of files --------------------------------------------------------------------------

    def remove_later(self, removal: Task | None) -> None:
        """Set files to be removed that the index no longer has."""
        self.unremoved = removal

    def take_unremoved(self) -> Task | None:
        """Return the removal that waits."""
        removal, self.unremoved = self.unremoved, None
        return removal

    # Index files -------------------------------------------------------------------------------

    def note_indexed(self, name: str, end: int) -> None:
        """Note that a segment has an index file up to here, or that this was tried."""
        self.indexed[name] = end

    def forget_indexed(self, names: list[str]) -> None:
        """Note that segments, or their index files, were removed."""
        for name in names:
            self.indexed.pop(name, 0)

    # Compaction --------------------------------------------------------------------------------

    def pack(self, packing: bool) -> None:
        """Set whether rewritten segments are compressed."""
        self.packing = packing

    def compact_later(self) -> None:
        """Note that the disk failed: no retry before there is more to gain."""
        self.compact_after = self.index.removed_bytes + self.segments.size // LOOK_PART
        self.compact_refused = True
        self.space_wanted = False

    def want_space(self) -> None:
        """Note that the disk is full: free space until there is nothing more to free."""
        self.space_wanted = not self.segments.in_memory
        if self.compact_refused:
            # What failed may have been too large: small runs may find enough space.
            self.compact_refused = False
            self.compact_after = 0

    def compact_after_quarantine(self) -> None:
        """Note invalid bytes: no retry before they were quarantined."""
        self.compact_after = self.index.removed_bytes + 1

    def compact_again(self) -> None:
        """Allow rewriting what could not be rewritten because of damage."""
        self.compact_after = 0

    # Scrubbing ---------------------------------------------------------------------------------

    def adopt_scrubbed(self, times: dict[str, int]) -> None:
        """Set when segments were last scrubbed, as recorded by earlier starts."""
        self.scrubbed = times

    def scrub_later(self, scrub: Task) -> None:
        """Continue a scrub when nothing else is due."""
        self.scrubbing = scrub

    def take_scrubbing(self) -> Task | None:
        """Return the scrub that is not finished."""
        scrub, self.scrubbing = self.scrubbing, None
        return scrub

    def note_scrubbed(self, name: str, time_ns: int) -> None:
        """Record when a segment was scrubbed; forget removed segments."""
        names = {columns.name for columns in self.index.segments}
        self.scrubbed[name] = time_ns
        self.scrubbed = {name: time for name, time in self.scrubbed.items() if name in names}

    def index_file_is_bad(self, name: str) -> None:
        """Note a damaged index file: create another one."""
        self.indexed.pop(name, 0)
        self.due = True

    # Manifests ---------------------------------------------------------------------------------

    def want_manifest(self, due: bool) -> None:
        """Set whether the manifests are older than the log."""
        self.manifest_due = due

    def want_note(self, due: bool) -> None:
        """Set whether it is time to record how far the stream is stored."""
        self.note_due = due

    def note_segments(
        self, segments: tuple[str, ...], versions: tuple[tuple[int, int], ...]
    ) -> None:
        """Note that the manifests list the files in these versions, or that this was tried."""
        self.note_due = False
        self.noted_segments = segments
        self.noted_versions = versions

    def note_stored(self, seq: int, end: tuple[str, int] | None) -> None:
        """Note that the manifests say that the stream is stored up to here."""
        self.noted_seq = seq
        self.noted_end = end
