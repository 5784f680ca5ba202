"""The files of a log, as housekeeping sees them."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from librt.strings import read_i64_le

from jetspark.store.columns import Columns
from jetspark.store.condensed import SUFFIX, Chore
from jetspark.store.files import NO_SPACE, Files
from jetspark.store.manifest import forget_segments
from jetspark.store.segment import SegmentHead, parse_segment_name, read_head

if TYPE_CHECKING:
    from jetspark.store.segments import Segments

# What a record has besides what its message counts, at least (``Codec.size_of``).
RECORD_MORE: Final = 20


class SegmentFile:
    """A file of a log: its rows in the index, oldest first."""

    def __init__(self, rows: list[Columns], length: int) -> None:
        self.rows = rows
        self.length = length
        self.name = rows[0].name
        self.handle = int(rows[0].handle)

    @property
    def live(self) -> int:
        """How many messages are there."""
        return sum(int(columns.live) for columns in self.rows)

    @property
    def pinned(self) -> bool:
        """Say whether bytes in it are damaged."""
        return any(columns.pinned for columns in self.rows)

    @property
    def live_bytes(self) -> int:
        """How many bytes of it are messages that are there, about."""
        return sum(int(c.weight) for c in self.rows) + RECORD_MORE * self.live

    @property
    def is_sparse(self) -> bool:
        """Say whether less than half of it is left.

        In a file that was rewritten everything else is needed: only its messages count.
        """
        if self.rows[0].generation == 0:
            return self.live_bytes * 2 < self.length
        return sum(int(c.weight) for c in self.rows) * 2 < sum(int(c.held) for c in self.rows)

    def name_parts(self) -> tuple[int, int]:
        """First sequence and first position."""
        parts = parse_segment_name(self.name)
        assert parts is not None, "it is the name of a segment"
        return parts


def segment_files(log: "Segments") -> list[SegmentFile]:
    """The files of a log, oldest first; the last one is the one that is written to."""
    found: list[SegmentFile] = []
    segments = log.index.segments
    begin = 0
    for n in range(1, len(segments) + 1):
        if n < len(segments) and segments[n].handle == segments[begin].handle:
            continue
        length = int(log.end if n == len(segments) else segments[begin].length)
        found.append(SegmentFile(segments[begin:n], length))
        begin = n
    return found


def disk_bytes(log: "Segments") -> int:
    """How long the segments of a log are, all together."""
    files = segment_files(log)
    newest = max(int(log.end), int(log.filled_to)) if files else 0
    return newest + sum(file.length for file in files[:-1])


def head_of(files: Files, handle: int) -> tuple[SegmentHead, int] | None:
    """Read the head of a file and where its records begin; None when it does not check.

    Raises OSError when the disk refuses to read it: that is no damage.
    """
    data = files.read(handle, 0, 8)
    if len(data) < 8:
        return None
    return read_head(files.read(handle, 0, 16 + int(read_i64_le(data, 0) >> 32)))


class Removal(Chore):
    """Removes segment files, oldest first, and their condensed forms; closes what they were."""

    def __init__(
        self, files: Files, folder: Path, handles: list[int], names: list[str], stream_id: int
    ) -> None:
        super().__init__(files, handles)
        self.stream_id = stream_id
        self.unlisted = False
        self.folder = folder
        self.names = names
        self.count = len(names)

    def step(self) -> bool:
        """Remove the next file, durably; raises OSError when that is not certain."""
        if self.names and not self.unlisted:
            # First, or a crash would leave manifests that list what is gone.
            try:
                forget_segments(self.files, self.folder, self.stream_id, self.names)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                # A full disk has no space for a manifest until something is removed: condensed
                # forms are never missed, whereas a segment that is still listed would be.
                for name in self.names:
                    with suppress(OSError):
                        self.files.remove(self.folder / (name + SUFFIX))
                forget_segments(self.files, self.folder, self.stream_id, self.names)
            self.unlisted = True
        if self.names:
            try:
                self.files.remove(self.folder / self.names[0])
            except FileNotFoundError:
                # An earlier attempt did that and could not confirm it.
                self.files.sync_folder(self.folder)
            with suppress(OSError):
                self.files.remove(self.folder / (self.names[0] + SUFFIX))
            self.names = self.names[1:]
        if self.names:
            return False
        for handle in self.handles:
            with suppress(OSError):
                self.files.close(handle)
        self.handles = []
        return True
