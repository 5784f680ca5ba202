"""The segments of a stream: begun when one is full, condensed, and removed when nothing is left.

Nothing here is in the way of an acknowledgement but beginning a segment, which comes once in
``segment_size`` bytes.
"""

import errno
from contextlib import suppress
from pathlib import Path

from mypy_extensions import i64

from jetspark.store.chores import (
    close_segments,
    drop_segment,
    end_chore,
    maintain,
    next_chore,
)
from jetspark.store.condensed import Chore
from jetspark.store.files import Files
from jetspark.store.manifest import Identity
from jetspark.store.preparation import Preparation
from jetspark.store.quarantine import Quarantine
from jetspark.store.removing import Removing
from jetspark.store.reopening import Reopening
from jetspark.store.scrubber import Scrub
from jetspark.store.segment import (
    FILLED_GROUP_MAX,
    FILLER_MIN,
    FILLER_SIZE,
    FILLERS,
    fitting_size,
)
from jetspark.store.segment_files import disk_bytes
from jetspark.store.staging import Group
from jetspark.store.upkeep import Upkeep, UpkeepCounts


class Segments(Removing):
    """The part of a log that makes and removes files."""

    def __init__(
        self, files: Files, folder: Path, identity: Identity, segment_size: int, cache_budget: int
    ) -> None:
        super().__init__(files, folder, identity, cache_budget)
        self.segment_size: i64 = segment_size
        self.segment_max: int = segment_size
        self.first_offset: i64 = 0
        # Up to where the newest segment has bytes already, records or filler.
        self.filled_to: i64 = 0
        # On a full disk there is no filler.
        self.filler_max: i64 = min(FILLER_SIZE, segment_size // 8)
        self.roll_due: bool = False
        # How much of each segment is condensed on disk; the one that is being condensed.
        self.condensed: dict[str, int] = {}
        # The chore under way, and whether somebody else does it; a removal to be tried again.
        self.chore: Chore | None = None
        self.chore_is_out: bool = False
        self.unremoved: Chore | None = None
        self.chores_due: bool = True
        self.condense_at: i64 = 0
        # Looking for garbage is worth it when this much was removed in all.
        self.compact_at: i64 = 0
        # Where the next rewritten segment begins, for whoever reads: behind all others.
        self.rewritten_start: i64 = 1 << 61
        # After a failure, trying again is worth it from here on.
        self.compact_after: i64 = 0
        self.upkeep: Upkeep = Upkeep()
        self.upkeep_counts: UpkeepCounts = UpkeepCounts()
        # Engine time, as told last; what is damaged; when segments were last gone through.
        self.now: i64 = 0
        self.quarantine: Quarantine = Quarantine()
        self.scrubbed: dict[str, int] = {}
        self.scrubbing: Scrub | None = None
        self.scrub_at: i64 = 0
        # Compress what is rewritten, and rewrite what is full (``compression.py``).
        self.packing: bool = False
        self.closed: bool = False
        # Somebody changes the folder (``StreamLog.hold``).
        self.held: bool = False
        # While a stream is recovered nothing is staged that nobody would write.
        self.opening: bool = False
        # Gone with the process: no start will read it.
        self.in_memory: bool = False
        # Somebody wants a log that failed to be opened again.
        self.reopen_due: bool = False
        # It is time to sync what was acknowledged before it was on disk.
        self.sync_due: bool = False
        self.sync_error: OSError | None = None
        # A manifest says less than the log.
        self.manifest_due: bool = False
        # What the manifests say of the files and of the last sequence, and whether it is time
        # to say more (``noting.py``).
        self.noted_segments: tuple[str, ...] = ()
        self.noted_seq: i64 = 0
        self.note_due: bool = False

    def roll(self) -> None:
        """Go on in a new segment; when that fails, nothing is written before it was repeated.

        Only while no group is on its way: a segment that has a successor is durable to its end,
        and an attempt that failed may have left the successor there.
        """
        self.roll_due = True
        preparation = Preparation(self, sync=bool(self.unsynced), floor=0, roll=True)
        try:
            preparation.do()
        finally:
            self.prepared(preparation)

    def prepared(self, done: Preparation) -> None:
        """Take over what was done before a group, as far as that went."""
        if done.sync_error is not None:
            self.sync_error = done.sync_error
        if done.synced:
            self.synced_end = max(i64(done.end), self.synced_end)
        if done.reserved:
            self.sequence_floor = done.floor
        if done.fresh >= 0:
            self.begin_segment(done)

    def begin_segment(self, done: Preparation) -> None:
        """Go on in the segment that was made."""
        start: i64 = 0
        if len(self.index.segments) > 0:
            start = self.index.segments[-1].start + self.end
        self.seal()
        self.index.add_segment(done.fresh, done.first_seq, start, done.name)
        self.handle = done.fresh
        self.first_offset = len(done.head)
        self.end = self.first_offset
        self.synced_end = self.first_offset
        self.filled_to = self.first_offset
        if not self.in_memory:
            self.filler_max = min(FILLER_SIZE, self.segment_size // 8)
        self.roll_due = False
        self.chores_due = True
        self.quarantine.refused = False
        self.condense_at = self.segment_size // 2

    def seal(self) -> None:
        """The newest segment is full: its length is known from now on."""
        for columns in reversed(self.index.segments):
            if columns.handle != self.handle:
                break
            columns.length = self.end

    def filler_behind(self, size: i64, end: i64, filled_to: i64) -> bytes:
        """What to write behind a group of a size that ends there; empty when that gains nothing.

        ``filled_to``: up to there the file has bytes already.
        """
        if size > FILLED_GROUP_MAX or end <= filled_to:
            return b""
        most = min(self.filler_max, max(end, FILLER_MIN))
        filler = FILLERS[-1][:most]  # shorter only in segments that nobody but a test has
        for piece in FILLERS:
            if len(piece) <= most:
                filler = piece
                break
        return filler if end + len(filler) <= self.segment_size else b""

    def fit_segments(self, max_bytes: int) -> None:
        """Have segments from now on that suit a stream of at most ``max_bytes``."""
        self.segment_size = fitting_size(max_bytes, self.segment_max)

    def drop_filler(self, group: Group | None) -> None:
        """Do without filler: what does not fit with it may fit without. Raises OSError.

        Whoever wrote the group that met a full disk has cut it off already.
        """
        self.filler_max = 0
        self.filled_to = self.end
        if group is None or not group.cut_tried:
            self.files.truncate(int(self.handle), int(self.end))
        elif not group.cut:
            raise OSError(errno.EIO, "what was written of a group could not be cut off")

    @property
    def disk_bytes(self) -> int:
        """How long the segments are, all together."""
        return disk_bytes(self)

    # Chores ------------------------------------------------------------------------------------

    def take_chore(self, now: i64 = 0) -> Chore | None:
        """Hand out a piece of housekeeping whose steps may be done in another thread, or None.

        ``end_chore`` follows. There is one at a time, and nothing waits for it.
        """
        self.now = max(self.now, now)
        if self.held:
            return None
        if self.chore is None and not self.read_only and self.has_chore():
            self.chore = next_chore(self)
        elif self.chore is None and self.reopen_due and not self.closed:
            self.chore = Reopening(self)
        else:
            return None
        self.reopen_due = False
        self.chore_is_out = self.chore is not None
        return self.chore

    def end_chore(self, failed: bool) -> None:
        """The chore that was handed out is done, or has failed."""
        end_chore(self, failed)

    def maintain(self, now: i64 = 0) -> bool:
        """Do one step of housekeeping here and now; True while there is more to do."""
        self.now = max(self.now, now)
        return maintain(self)

    def drop_segment(self) -> bool:
        """Remove the oldest segment if nothing in it is left; True when one was removed."""
        return drop_segment(self)

    def has_chore(self) -> bool:
        """Say whether it is worth looking for a chore; asked after each commit."""
        return (
            self.chores_due
            or self.sync_due
            or (self.manifest_due and not self.unsynced)
            or self.full
            or self.end >= self.condense_at
            or self.index.removed_bytes >= self.compact_at
            or self.is_front_dead()
            or self.now >= self.scrub_at > 0
            or len(self.unreadable) > 0
            or self.note_due
        )

    @property
    def is_reopening(self) -> bool:
        """Say whether the folder may be getting its name back (``reopening.py``)."""
        return self.chore_is_out and isinstance(self.chore, Reopening)

    def is_front_dead(self) -> bool:
        """Say whether the oldest segment may have nothing left."""
        if self.unremoved is not None:
            return True
        segments = self.index.segments
        return len(segments) > 1 and segments[0].live == 0 and not segments[0].pinned

    def close_segments(self) -> None:
        """Close every file but those that somebody else still has in hand."""
        close_segments(self)

    def is_flying(self, handle: int) -> bool:
        """Say whether the group on its way needs a file."""
        group = self.in_flight
        if group is None:
            return False
        if group.before is not None:
            return handle == group.before.old
        return handle == int(group.handle)

    def let_go(self, group: Group) -> None:
        """Close the files that were left to a group when the log was closed."""
        if group.before is None:
            self.close_handle(group.handle)
            return
        for handle in (group.before.old, group.before.fresh):
            if handle >= 0:
                self.close_handle(handle)

    def close_handle(self, handle: i64) -> None:
        """Give one file back. What was written is synced, so an error here says nothing more."""
        with suppress(OSError):
            self.files.close(int(handle))
