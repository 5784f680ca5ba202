"""The segments of a stream: begun when one is full, condensed, and removed when nothing is left.

Nothing here is in the way of an acknowledgement but beginning a segment, which comes once in
``segment_size`` bytes.
"""

from contextlib import suppress
from pathlib import Path

from mypy_extensions import i64

from jetspark.store.condensed import SUFFIX, Condenser
from jetspark.store.files import Files
from jetspark.store.manifest import Identity
from jetspark.store.segment import create_segment, segment_name
from jetspark.store.staging import Staging


class Segments(Staging):
    """The part of a log that makes and removes files."""

    def __init__(
        self, files: Files, folder: Path, identity: Identity, segment_size: int, cache_budget: int
    ) -> None:
        super().__init__(files, folder, identity, cache_budget)
        self.segment_size: i64 = segment_size
        self.first_offset: i64 = 0
        self.roll_due: bool = False
        # How much of each segment is condensed on disk; the one that is being condensed.
        self.condensed: dict[str, int] = {}
        self.condenser: Condenser | None = None

    def roll(self) -> None:
        """Go on in a new segment; when that fails, nothing is written before it was repeated.

        Only while no group is on its way: a segment that has a successor is durable to its end,
        and an attempt that failed may have left the successor there.
        """
        self.roll_due = True
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
        )
        start: i64 = 0
        if self.index.segments:
            start = self.index.segments[-1].start + self.end
        name = segment_name(int(first_seq), position)
        self.index.add_segment(handle, first_seq, start, name)
        self.handle = handle
        self.first_offset = offset
        self.end = offset
        self.roll_due = False

    def drop_segment(self) -> bool:
        """Remove the oldest segment if nothing in it is left; True when one was removed.

        Oldest first, each removal synced before the next: what a later segment says about an
        earlier one must not go before it (a message that was deleted would be back). Nothing
        needs to be written for it: a crash before leaves a segment that replays to nothing.
        """
        segments = self.index.segments
        count: i64 = 0
        while count < len(segments) and segments[count].handle == segments[0].handle:
            if segments[count].live > 0 or segments[count].pinned:
                return False
            count += 1
        if count == len(segments):
            return False
        name = segments[0].name
        if self.condenser is not None and self.condenser.name == name:
            self.abandon()
        try:
            if not self.unlink(name):
                self.files.sync_folder(self.folder)
        except OSError:
            return False
        self.close_handle(segments[0].handle)
        self.index.segments = segments[int(count) :]
        if self.condensed.pop(name, 0) > 0:
            with suppress(OSError):
                self.unlink(name + SUFFIX)
        return True

    def unlink(self, name: str) -> bool:
        """Remove a file; False when an earlier attempt did that and could not confirm it."""
        try:
            self.files.remove(self.folder / name)
        except FileNotFoundError:
            return False
        return True

    # Housekeeping ------------------------------------------------------------------------------

    def maintain(self) -> bool:
        """Do one bounded piece of housekeeping, well under 2 ms; True while there is more.

        For whoever has the time: nothing waits for it, and it may end at any point.
        """
        if self.read_only:
            return False
        if self.condenser is None:
            if self.drop_segment():
                return True
            self.condenser = self.next_condenser()
        condenser = self.condenser
        if condenser is None:
            return False
        try:
            done = condenser.step()
        except OSError:
            condenser.failed = True
            done = True
        if done:
            # What failed is not tried again before there is more of it.
            self.condensed[condenser.name] = int(condenser.end)
            self.abandon()
        return True

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

    def abandon(self) -> None:
        """Stop condensing."""
        condenser = self.condenser
        self.condenser = None
        if condenser is not None:
            with suppress(OSError):
                condenser.close()

    def close_handle(self, handle: i64) -> None:
        """Give one file back. What was written is synced, so an error here says nothing more."""
        with suppress(OSError):
            self.files.close(int(handle))
