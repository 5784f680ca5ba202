"""The segments of a stream: begun when one is full, condensed, and removed when nothing is left.

Nothing here is in the way of an acknowledgement but beginning a segment, which comes once in
``segment_size`` bytes.
"""

from contextlib import suppress
from pathlib import Path

from mypy_extensions import i64

from jetspark.store.chores import (
    close_segments,
    drop_segment,
    end_chore,
    maintain,
    next_chore,
    roll,
)
from jetspark.store.condensed import Chore
from jetspark.store.files import Files
from jetspark.store.manifest import Identity
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

    def roll(self) -> None:
        """Go on in a new segment; when that fails, nothing is written before it was repeated.

        Only while no group is on its way: a segment that has a successor is durable to its end,
        and an attempt that failed may have left the successor there.
        """
        roll(self)

    def filler_behind(self, size: i64) -> bytes:
        """What to write behind a group of this size; empty when that gains nothing."""
        end = self.end + size
        if size > FILLED_GROUP_MAX or end <= self.filled_to:
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

    def cut_filler(self) -> None:
        """Cut the filler off the newest segment. When that fails, recovery passes over it."""
        if self.handle >= 0 and self.filled_to > self.end:
            with suppress(OSError):
                if self.files.size(int(self.handle)) > self.end:
                    self.files.truncate(int(self.handle), int(self.end))
            self.filled_to = self.end

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
            or self.full
            or self.end >= self.condense_at
            or self.index.removed_bytes >= self.compact_at
            or self.is_front_dead()
            or self.now >= self.scrub_at > 0
            or len(self.unreadable) > 0
        )

    def is_front_dead(self) -> bool:
        """Say whether the oldest segment may have nothing left."""
        if self.unremoved is not None:
            return True
        segments = self.index.segments
        return len(segments) > 1 and segments[0].live == 0 and not segments[0].pinned

    def close_segments(self, flying: i64) -> None:
        """Close every file but those that somebody else still has in hand."""
        close_segments(self, int(flying))

    def close_handle(self, handle: i64) -> None:
        """Give one file back. What was written is synced, so an error here says nothing more."""
        with suppress(OSError):
            self.files.close(int(handle))
