"""The segment files of a stream: the newest one, to which groups are written, and their sizes.

Nothing here delays an acknowledgement except starting a segment, once per ``size`` bytes.
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
    refill,
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
        # The target length of a segment, and its maximum.
        self.size: i64 = size
        self.size_max: int = size
        # Lost with the process: no start will read it.
        self.in_memory: bool = in_memory
        # The newest segment, where its records start, and its durable end: readers do not see
        # anything after that.
        self.handle: i64 = -1
        self.first_offset: i64 = 0
        self.end: i64 = 0
        # Up to where it already has bytes, records or filler.
        self.filled_to: i64 = 0
        # No filler on a full disk and in memory.
        self.filler_max: i64 = 0 if in_memory else min(FILLER_SIZE, size // 8)
        # False for a young stream, which keeps its filler instead (``upkeep/manifests.py``).
        self.has_manifests: bool = True
        # The next group starts a segment, whatever its size.
        self.roll_due: bool = False
        # The log-wide offset of the next rewritten segment: after all others.
        self.rewritten_start: i64 = 1 << 61

    def move(self, folder: Path) -> None:
        """Note that the folder was renamed."""
        self.folder = folder

    # Manifests ---------------------------------------------------------------------------------

    def without_manifests(self) -> None:
        """Note that the stream has no manifests yet."""
        self.has_manifests = False

    @property
    def wants_manifests(self) -> bool:
        """Return whether half of the filler of a young stream is used.

        A group that finds no room there has to wait for the manifests.
        """
        return not self.has_manifests and self.end * 2 >= self.filled_to

    def manifests_written(self) -> None:
        """Note that the stream has manifests from now on."""
        self.has_manifests = True

    # Size --------------------------------------------------------------------------------------

    def fit(self, max_bytes: int) -> None:
        """Set the segment size to suit a stream of at most ``max_bytes``."""
        self.size = fitting_size(max_bytes, self.size_max)

    def must_roll(self, size: i64) -> bool:
        """Return whether a group of this size starts a new segment."""
        return self.roll_due or (self.end + size > self.size and self.end > self.first_offset)

    def want_roll(self, due: bool = True) -> None:
        """Set whether the next group starts a new segment."""
        self.roll_due = due

    def filler_after(self, size: i64, end: i64, filled_to: i64) -> bytes:
        """Return the filler after a group of a size that ends there; empty if that gains nothing.

        ``filled_to``: up to there the file already has bytes.
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
        """Write no more filler: the disk is full."""
        self.filler_max = 0

    def drop_filler(self, group: Group | None) -> None:
        """Remove filler: what does not fit with it may fit without. Raises OSError.

        The writer of a group that found the disk full has truncated it already.
        """
        self.filler_max = 0
        if self.has_manifests:
            self.filled_to = self.end
        if group is None or not group.cut_tried:
            if self.has_manifests:
                self.files.truncate(int(self.handle), int(self.end))
            else:
                refill(self.files, int(self.handle), int(self.end), int(self.filled_to))
        elif not group.cut:
            raise OSError(errno.EIO, "a partially written group could not be truncated")

    # The newest segment ------------------------------------------------------------------------

    def written(self, group: Group) -> None:
        """Note that a group is in the newest segment."""
        self.end = group.offset + group.size
        self.filled_to = max(self.filled_to, self.end + len(group.filler))

    def begin(self, done: Preparation) -> None:
        """Continue in the segment that was created."""
        begins = done.begins
        assert begins is not None, "a segment was to be created"
        start: i64 = 0
        if len(self.index.segments) > 0:
            start = self.index.segments[-1].start + self.end
        self.seal(self.end)
        self.index.add_segment(done.fresh, begins.first_seq, start, begins.name)
        self.handle = done.fresh
        self.first_offset = len(begins.head)
        self.end = self.first_offset
        self.filled_to = self.first_offset + done.filled
        if not self.in_memory:
            self.filler_max = min(FILLER_SIZE, self.size // 8)
        self.roll_due = False

    def seal(self, records_end: i64) -> None:
        """Seal the newest segment, which is full: its length is known from now on.

        ``records_end``: after that, recovery found invalid bytes, if anything.
        """
        for columns in reversed(self.index.segments):
            if columns.handle != self.handle:
                break
            columns.seal(self.end, records_end)

    def replace(self, fresh: int) -> None:
        """Continue with another handle of the newest file, truncated to its durable end."""
        old = self.handle
        for columns in self.index.segments:
            if columns.handle == old:
                columns.reopen(fresh)
        self.close_handle(old)
        self.handle = fresh
        if self.has_manifests:
            self.filled_to = self.end
        # A segment without a record would have to be started under its own name.
        self.roll_due = self.end > self.first_offset

    def place_rewritten(self, length: int) -> i64:
        """Return the log-wide offset of a rewritten segment of a length.

        An offset of its own: what was cached from the old files is not found there.
        """
        start = self.rewritten_start
        self.rewritten_start += length
        return start

    # Recovery ----------------------------------------------------------------------------------

    def add(self, handle: int, name: str, size: int) -> None:
        """Add the next segment to replay; it has this size."""
        start: i64 = 0
        if len(self.index.segments) > 0:
            start = self.index.segments[-1].start + self.end
        self.index.add_segment(handle, self.index.last_seq + 1, start, name)
        self.handle = handle
        self.filled_to = size

    def records_begin(self, offset: int) -> None:
        """Set where the records of the newest segment start."""
        self.first_offset = offset

    def records_end(self, offset: int) -> None:
        """Set where the records of the newest segment end."""
        self.end = offset

    def cut(self) -> None:
        """Truncate the newest segment at its end; raises OSError."""
        self.files.truncate(int(self.handle), int(self.end))
        self.filled_to = self.end

    # All files ---------------------------------------------------------------------------------

    def list_files(self) -> list[SegmentFile]:
        """Return the files of the log, oldest first; the last one is the one being written."""
        return group_rows(self.index.segments, int(self.end))

    @property
    def disk_bytes(self) -> int:
        """Return the total length of the segments."""
        files = self.list_files()
        newest = max(int(self.end), int(self.filled_to)) if files else 0
        return newest + sum(file.length for file in files[:-1])

    def close_handle(self, handle: i64) -> None:
        """Close a file. What was written is synced, so an error here is meaningless."""
        with suppress(OSError):
            self.files.close(int(handle))

    def close(self) -> None:
        """Forget all files: they were closed, or left to others."""
        self.handle = -1
