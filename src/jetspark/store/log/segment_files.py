"""The files of a log, for upkeep."""

from typing import Final

from librt.strings import read_i64_le

from jetspark.store.files import Files
from jetspark.store.format.segment import SegmentHead, parse_segment_name, read_head
from jetspark.store.log.columns import Columns

# The overhead of a record over the accounted size of its message, at least (``Codec.size_of``).
RECORD_MORE: Final = 20
# A head is a configuration and a little more, which arrived in one message.
HEAD_MAX: Final = 128 * 1024 * 1024
# Nearly every head is within the first page: one read is enough.
HEAD_USUAL: Final = 4096


class SegmentFile:
    """A file of a log: its rows in the index, oldest first."""

    def __init__(self, rows: list[Columns], length: int) -> None:
        self.rows = rows
        self.length = length
        self.name: str = rows[0].name
        self.handle: int = int(rows[0].handle)

    @property
    def live(self) -> int:
        """The number of its messages."""
        return sum(int(columns.live) for columns in self.rows)

    @property
    def pinned(self) -> bool:
        """Return whether bytes in it are damaged."""
        return any(columns.pinned for columns in self.rows)

    @property
    def live_bytes(self) -> int:
        """The approximate number of bytes in it that are existing messages."""
        return sum(int(c.weight) for c in self.rows) + RECORD_MORE * self.live

    @property
    def is_sparse(self) -> bool:
        """Return whether less than half of it is still needed.

        Everything else in a rewritten file is needed: only its messages count.
        """
        if self.rows[0].generation == 0:
            return self.live_bytes * 2 < self.length
        return sum(int(c.weight) for c in self.rows) * 2 < sum(int(c.held) for c in self.rows)

    def name_parts(self) -> tuple[int, int]:
        """First sequence and first position."""
        parts = parse_segment_name(self.name)
        assert parts is not None, "segments have such names"
        return parts


def group_rows(rows: list[Columns], end: int) -> list[SegmentFile]:
    """Return the files of the rows of an index, oldest first; the last one ends at ``end``."""
    found: list[SegmentFile] = []
    begin = 0
    for n in range(1, len(rows) + 1):
        if n < len(rows) and rows[n].handle == rows[begin].handle:
            continue
        length = end if n == len(rows) else int(rows[begin].length)
        found.append(SegmentFile(rows[begin:n], length))
        begin = n
    return found


def head_of(files: Files, handle: int) -> tuple[SegmentHead, int] | None:
    """Read the head of a file and where its records start; None if it is damaged.

    Raises OSError if the disk fails to read it: that is not corruption.
    """
    data = files.read(handle, 0, HEAD_USUAL)
    if len(data) < 8:
        return None
    length = int(read_i64_le(data, 0) >> 32)
    if not 0 <= length <= HEAD_MAX:
        # Damaged: its length must not make us read gigabytes.
        return None
    if 16 + length > len(data) == HEAD_USUAL:
        data = files.read(handle, 0, 16 + length)
    return read_head(data)
