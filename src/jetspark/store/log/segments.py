"""The segment files of a stream: the newest one, which groups are written to, and their sizes.

Nothing here delays an acknowledgement except beginning a segment, once in ``size`` bytes.
"""

import errno
from contextlib import suppress
from pathlib import Path

from mypy_extensions import i64

from jetspark.store.files import Files
from jetspark.store.format.segment import (
    FILLED_GROUP_MAX,
    FILLER_MIN,
    FILLER_SIZE,
    FILLERS,
    fitting_size,
)
from jetspark.store.log.group import Group
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.preparation import Preparation
from jetspark.store.log.segment_files import SegmentFile, group_rows


class Segments:
    """The files of one log. Their rows are in the index."""

    def __init__(
        self, files: Files, folder: Path, index: StreamIndex, size: int, in_memory: bool
    ) -> None:
        self.files: Files = files
        self.folder: Path = folder
        self.index: StreamIndex = index
        # How long a segment becomes, and at most may.
        self.size: i64 = size
        self.size_max: int = size
        # Gone with the process: no start will read it.
        self.in_memory: bool = in_memory
        # The newest segment, where its records begin, and its durable end: what lies after that
        # belongs to no reader yet.
        self.handle: i64 = -1
        self.first_offset: i64 = 0
        self.end: i64 = 0
        # Up to where it has bytes already, records or filler.
        self.filled_to: i64 = 0
        # On a full disk and in memory there is no filler.
        self.filler_max: i64 = 0 if in_memory else min(FILLER_SIZE, size // 8)
        # The next group begins a segment, whatever its size.
        self.roll_due: bool = False
        # Where the next rewritten segment begins, for readers: after all others.
        self.rewritten_start: i64 = 1 << 61

    def move(self, folder: Path) -> None:
        """The folder was renamed."""
        self.folder = folder

    # Size --------------------------------------------------------------------------------------

    def fit(self, max_bytes: int) -> None:
        """Have segments from now on that suit a stream of at most ``max_bytes``."""
        self.size = fitting_size(max_bytes, self.size_max)

    def must_roll(self, size: i64) -> bool:
        """Say whether a group of this size begins a new segment."""
        return self.roll_due or (self.end + size > self.size and self.end > self.first_offset)

    def want_roll(self, due: bool = True) -> None:
        """Begin a new segment with the next group, or not."""
        self.roll_due = due

    def filler_after(self, size: i64, end: i64, filled_to: i64) -> bytes:
        """What to write after a group of a size that ends there; empty when that gains nothing.

        ``filled_to``: up to there the file has bytes already.
        """
        if size > FILLED_GROUP_MAX or end <= filled_to:
            return b""
        most = min(self.filler_max, max(end, FILLER_MIN))
        filler = FILLERS[-1][:most]  # shorter only in the small segments of tests
        for piece in FILLERS:
            if len(piece) <= most:
                filler = piece
                break
        return filler if end + len(filler) <= self.size else b""

    def stop_filling(self) -> None:
        """Write no filler: the disk is full."""
        self.filler_max = 0

    def drop_filler(self, group: Group | None) -> None:
        """Do without filler: what does not fit with it may fit without. Raises OSError.

        The writer of a group that met a full disk has cut it off already.
        """
        self.filler_max = 0
        self.filled_to = self.end
        if group is None or not group.cut_tried:
            self.files.truncate(int(self.handle), int(self.end))
        elif not group.cut:
            raise OSError(errno.EIO, "what was written of a group could not be cut off")

    # The newest segment ------------------------------------------------------------------------

    def written(self, group: Group) -> None:
        """A group is in the newest segment."""
        self.end = group.offset + group.size
        self.filled_to = max(self.filled_to, self.end + len(group.filler))

    def begin(self, done: Preparation) -> None:
        """Go on in the segment that was made."""
        begins = done.begins
        assert begins is not None, "none was to be made"
        start: i64 = 0
        if len(self.index.segments) > 0:
            start = self.index.segments[-1].start + self.end
        self.seal()
        self.index.add_segment(done.fresh, begins.first_seq, start, begins.name)
        self.handle = done.fresh
        self.first_offset = len(begins.head)
        self.end = self.first_offset
        self.filled_to = self.first_offset
        if not self.in_memory:
            self.filler_max = min(FILLER_SIZE, self.size // 8)
        self.roll_due = False

    def seal(self) -> None:
        """The newest segment is full: its length is known from now on."""
        for columns in reversed(self.index.segments):
            if columns.handle != self.handle:
                break
            columns.length = self.end

    def replace(self, fresh: int) -> None:
        """Go on with another handle of the newest file, which was cut to its durable end."""
        old = self.handle
        for columns in self.index.segments:
            if columns.handle == old:
                columns.handle = fresh
        self.close_handle(old)
        self.handle = fresh
        self.filled_to = self.end
        # A segment without a record would have to be begun under its own name.
        self.roll_due = self.end > self.first_offset

    def place_rewritten(self, length: int) -> i64:
        """Where a rewritten segment of a length begins, for readers.

        A place of its own: what was read from the old files is found there no more.
        """
        start = self.rewritten_start
        self.rewritten_start += length
        return start

    # Recovery ----------------------------------------------------------------------------------

    def add(self, handle: int, name: str, size: int) -> None:
        """The next segment is replayed; it has this size."""
        start: i64 = 0
        if len(self.index.segments) > 0:
            start = self.index.segments[-1].start + self.end
        self.index.add_segment(handle, self.index.last_seq + 1, start, name)
        self.handle = handle
        self.filled_to = size

    def records_begin(self, offset: int) -> None:
        """Where the records of the newest segment begin."""
        self.first_offset = offset

    def records_end(self, offset: int) -> None:
        """Where the records of the newest segment end."""
        self.end = offset

    def cut(self) -> None:
        """Cut the newest segment off at its end; raises OSError."""
        self.files.truncate(int(self.handle), int(self.end))
        self.filled_to = self.end

    # All files ---------------------------------------------------------------------------------

    def list_files(self) -> list[SegmentFile]:
        """The files of the log, oldest first; the last one is the one that is written to."""
        return group_rows(self.index.segments, int(self.end))

    @property
    def disk_bytes(self) -> int:
        """How long the segments are, all together."""
        files = self.list_files()
        newest = max(int(self.end), int(self.filled_to)) if files else 0
        return newest + sum(file.length for file in files[:-1])

    def close_handle(self, handle: i64) -> None:
        """Give one file back. What was written is synced, so an error here says nothing more."""
        with suppress(OSError):
            self.files.close(int(handle))

    def close(self) -> None:
        """Every file was given back, or left to others."""
        self.handle = -1
