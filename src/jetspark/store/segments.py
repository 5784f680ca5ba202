"""The segments of a stream: begun when one is full, condensed, and removed when nothing is left.

Nothing here is in the way of an acknowledgement but beginning a segment, which comes once in
``segment_size`` bytes.
"""

from contextlib import suppress
from pathlib import Path

from mypy_extensions import i64

from jetspark.store.condensed import SUFFIX, Chore, Condenser
from jetspark.store.files import Files
from jetspark.store.ledger import restate
from jetspark.store.manifest import Identity
from jetspark.store.removing import Removing
from jetspark.store.reopening import Reopening
from jetspark.store.segment import (
    FILLED_GROUP_MAX,
    FILLER,
    FILLER_SIZE,
    create_segment,
    segment_name,
)


class Segments(Removing):
    """The part of a log that makes and removes files."""

    def __init__(
        self, files: Files, folder: Path, identity: Identity, segment_size: int, cache_budget: int
    ) -> None:
        super().__init__(files, folder, identity, cache_budget)
        self.segment_size: i64 = segment_size
        self.first_offset: i64 = 0
        # Up to where the newest segment has bytes already, records or filler.
        self.filled_to: i64 = 0
        self.filler_size: int = min(FILLER_SIZE, segment_size // 8)
        self.filler: bytes = FILLER * self.filler_size
        self.roll_due: bool = False
        # How much of each segment is condensed on disk; the one that is being condensed.
        self.condensed: dict[str, int] = {}
        # The chore under way, and whether somebody else does it; a removal to be tried again.
        self.chore: Chore | None = None
        self.chore_is_out: bool = False
        self.unremoved: Chore | None = None
        self.chores_due: bool = True
        self.condense_at: i64 = 0
        self.closed: bool = False
        # While a stream is recovered nothing is staged that nobody would write.
        self.opening: bool = False
        # Somebody wants a log that failed to be opened again.
        self.reopen_due: bool = False

    def roll(self) -> None:
        """Go on in a new segment; when that fails, nothing is written before it was repeated.

        Only while no group is on its way: a segment that has a successor is durable to its end,
        and an attempt that failed may have left the successor there.
        """
        self.roll_due = True
        self.cut_filler()
        first_seq = self.index.last_seq + 1
        position = int(self.durable_position) + 1
        handle, offset = create_segment(
            self.files,
            self.folder,
            self.identity,
            int(first_seq),
            position,
            first_live=int(self.index.first_seq),
            last_time=int(self.index.last_time),
            consumer_number=self.consumer_number,
        )
        start: i64 = 0
        if self.index.segments:
            start = self.index.segments[-1].start + self.end
        name = segment_name(int(first_seq), position)
        self.index.add_segment(handle, first_seq, start, name)
        self.handle = handle
        self.first_offset = offset
        self.end = offset
        self.filled_to = offset
        self.filler = FILLER * self.filler_size
        self.roll_due = False
        self.chores_due = True
        self.condense_at = self.segment_size // 2

    def filler_behind(self, size: i64) -> bytes:
        """What to write behind a group of this size; empty when that gains nothing."""
        end = self.end + size
        if size > FILLED_GROUP_MAX or end <= self.filled_to:
            return b""
        if end + len(self.filler) > self.segment_size:
            return b""
        return self.filler

    def cut_filler(self) -> None:
        """Cut the filler off the newest segment. When that fails, recovery passes over it."""
        if self.handle >= 0 and self.filled_to > self.end:
            with suppress(OSError):
                if self.files.size(int(self.handle)) > self.end:
                    self.files.truncate(int(self.handle), int(self.end))
            self.filled_to = self.end

    # Chores ------------------------------------------------------------------------------------

    def take_chore(self) -> Chore | None:
        """Hand out a piece of housekeeping whose steps may be done in another thread, or None.

        ``end_chore`` follows. There is one at a time, and nothing waits for it.
        """
        if self.chore is None and not self.read_only and self.has_chore():
            self.chore = self.next_chore()
        elif self.chore is None and self.reopen_due:
            self.chore = Reopening(self)
        else:
            return None
        self.reopen_due = False
        self.chore_is_out = self.chore is not None
        return self.chore

    def end_chore(self, failed: bool) -> None:
        """The chore that was handed out is done, or has failed."""
        chore = self.chore
        assert chore is not None, "no chore was handed out"
        self.chore = None
        self.chore_is_out = False
        if isinstance(chore, Reopening):
            chore.end(self, failed)
            return
        with suppress(OSError):
            chore.close()
        if isinstance(chore, Condenser):
            # What failed is not tried again before there is more of it.
            self.condensed[chore.name] = int(chore.end)
        elif failed:
            self.unremoved = chore
        if self.closed and (failed or isinstance(chore, Condenser)):
            # The log was closed meanwhile and left the file to the chore.
            self.unremoved = None
            if self.in_flight is None or self.in_flight.handle != chore.handle:
                self.close_handle(chore.handle)

    def maintain(self) -> bool:
        """Do one step of housekeeping here and now; True while there is more to do."""
        if self.chore_is_out or self.read_only:
            return False
        if self.chore is None and self.has_chore():
            self.chore = self.next_chore()
        chore = self.chore
        if chore is None:
            return False
        failed = False
        try:
            done = chore.step()
        except OSError:
            failed = True
            done = True
        if done:
            self.end_chore(failed)
        return not (failed and isinstance(chore, Removal))

    def drop_segment(self) -> bool:
        """Remove the oldest segment if nothing in it is left; True when one was removed."""
        if self.chore is not None or not self.is_front_dead():
            return False
        self.chore = self.next_chore()
        return self.maintain()

    def has_chore(self) -> bool:
        """Say whether it is worth looking for a chore; asked after each commit."""
        return self.chores_due or self.end >= self.condense_at or self.is_front_dead()

    def is_front_dead(self) -> bool:
        """Say whether the oldest segment may have nothing left."""
        if self.unremoved is not None:
            return True
        segments = self.index.segments
        return len(segments) > 1 and segments[0].live == 0 and not segments[0].pinned

    def next_chore(self) -> Chore | None:
        """Find something to do."""
        chore: Chore | None = self.unremoved
        self.unremoved = None
        if chore is None:
            chore = self.detach()
        if chore is None:
            chore = self.next_condenser()
        if chore is None:
            self.chores_due = False
            done: i64 = self.condensed.get(self.index.segments[-1].name, 0)
            self.condense_at = done + self.segment_size // 2
        return chore

    def detach(self) -> "Removal | None":
        """Take the oldest segment out of the index if nothing in it is left.

        Oldest first, each removal durable before the next: what a later segment says about an
        earlier one must not go before it (a message that was deleted would be back). Nothing
        needs to be written for messages: a crash before leaves a segment that replays to nothing.
        What it holds of consumers is staged again first, and it goes when that is durable.
        """
        segments = self.index.segments
        count: i64 = 0
        while count < len(segments) and segments[count].handle == segments[0].handle:
            if segments[count].live > 0 or segments[count].pinned:
                return None
            count += 1
        if count == len(segments):
            return None
        columns = segments[0]
        if self.ledger.holds(columns.name):
            if not self.opening:
                restate(self, columns.name)
            return None
        self.index.segments = segments[int(count) :]
        self.condensed.pop(columns.name, 0)
        return Removal(self.files, self.folder, columns.handle, columns.name)

    def next_condenser(self) -> Condenser | None:
        """The next segment to condense: one that is full, or a newest one that grew enough."""
        segments = self.index.segments
        n: i64 = 0
        while n < len(segments):
            columns = segments[n]
            while n < len(segments) and segments[n].handle == columns.handle:
                n += 1
            done: i64 = self.condensed.get(columns.name, 0)
            if n < len(segments):
                end = segments[n].start - columns.start
            else:
                end = self.end
                done += self.segment_size // 2
            if done < end:
                return Condenser(
                    self.files, self.folder, self.codec, columns.handle, columns.name, end
                )
        return None

    def close_segments(self, flying: i64) -> None:
        """Close every file but those that somebody else still has in hand."""
        out: i64 = -1
        chore = self.chore
        if chore is not None and self.chore_is_out:
            out = chore.handle
        elif chore is not None:
            self.chore = None
            with suppress(OSError):
                chore.close()
            if isinstance(chore, Removal):
                self.close_handle(chore.handle)
        if self.unremoved is not None:
            self.close_handle(self.unremoved.handle)
            self.unremoved = None
        kept = {-1, int(flying), int(out)}
        for columns in self.index.segments:
            if int(columns.handle) not in kept:
                self.close_handle(columns.handle)
                kept.add(int(columns.handle))
        self.index.segments = []

    def close_handle(self, handle: i64) -> None:
        """Give one file back. What was written is synced, so an error here says nothing more."""
        with suppress(OSError):
            self.files.close(int(handle))


class Removal(Chore):
    """Removes one segment file, and its condensed form."""

    def __init__(self, files: Files, folder: Path, handle: i64, name: str) -> None:
        super().__init__(files, handle)
        self.folder: Path = folder
        self.name: str = name

    def step(self) -> bool:
        """Remove the file, durably; raises OSError when that is not certain."""
        try:
            self.files.remove(self.folder / self.name)
        except FileNotFoundError:
            # An earlier attempt did that and could not confirm it.
            self.files.sync_folder(self.folder)
        with suppress(OSError):
            self.files.remove(self.folder / (self.name + SUFFIX))
        with suppress(OSError):
            self.files.close(int(self.handle))
        return True
