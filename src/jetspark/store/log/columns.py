"""The rows of an index (``index.py``).

20 bytes per message: its place and accounted size, its subject id, and the next sequence of the
same subject.
"""

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i32, i64

NOWHERE: Final[i64] = 0  # no record is at offset 0, where the segment head is
# No segment is longer than 64 GiB, no message has 128 MiB (record.py): one word holds both.
OFFSET_BITS: Final[i64] = 36
OFFSET_MASK: Final[i64] = (1 << 36) - 1
# More skipped sequences than this start new columns instead of a long run of holes: that many rows
# take more memory than an object does, and compaction leaves a few messages far apart.
HOLES_MAX: Final[i64] = 64


class Columns:
    """The rows of consecutive messages in one segment."""

    def __init__(self, handle: i64, base: i64, start: i64, name: str) -> None:
        self.handle: i64 = handle
        self.base: i64 = base
        # Where the file starts in the whole log: the lengths of all segments before it.
        self.start: i64 = start
        self.name: str = name
        self.live: i64 = 0
        # The accounted size of its messages: of those that exist, and of all in the file.
        self.weight: i64 = 0
        self.held: i64 = 0
        # The length of a full file and where its last record ends, how often it was rewritten, and
        # whether it is compressed.
        self.length: i64 = 0
        self.records_end: i64 = 0
        self.generation: i64 = 0
        self.packed: bool = False
        # Removed messages are in the file before these rows.
        self.forgotten: bool = False
        # Bytes in it are damaged: the file is kept, so that they can be examined.
        self.pinned: bool = False
        # Offset in the file and, above OFFSET_BITS, the accounted size; or NOWHERE.
        self.offsets: vec[i64] = vec[i64]()
        self.subjects: vec[i32] = vec[i32]()
        self.nexts: vec[i64] = vec[i64]()

    def add_holes(self, count: i64) -> None:
        """Append rows for skipped sequences."""
        while count > 0:
            self.offsets = append(self.offsets, NOWHERE)
            self.subjects = append(self.subjects, i32(-1))
            self.nexts = append(self.nexts, i64(0))
            count -= 1

    def add(self, offset: i64, subject_id: i32, size: i64) -> None:
        """Append the next message."""
        self.offsets = append(self.offsets, offset | (size << OFFSET_BITS))
        self.subjects = append(self.subjects, subject_id)
        self.nexts = append(self.nexts, i64(0))
        self.live += 1
        self.weight += size
        self.held += size

    def add_moved(self, offset: i64, columns: "Columns", i: i64) -> None:
        """Append a row of other columns, whose record is at ``offset`` in this file.

        If its message was removed meanwhile, the record is in the file anyway.
        """
        self.add(offset, columns.subjects[i], columns.size_at(i))
        last: i64 = len(self.nexts) - 1
        self.nexts[last] = columns.nexts[i]
        if columns.offsets[i] == NOWHERE:
            self.offsets[last] = NOWHERE
            self.live -= 1

    def start_at(self, base: i64) -> None:
        """Start with this sequence; no row exists yet."""
        self.base = base

    def remove(self, i: i64) -> i64:
        """Remove the message of a row; return its accounted size, 0 if it was removed before."""
        size = self.size_at(i)
        if size > 0:
            self.offsets[i] = NOWHERE
            self.live -= 1
            self.weight -= size
        return size

    def apply_head(self, generation: i64, packed: bool) -> None:
        """Apply the head of the file: how often it was rewritten, and if it is compressed."""
        self.generation = generation
        self.packed = packed

    def seal(self, length: i64, records_end: i64) -> None:
        """Fix the length of the file, which is full, and where its last record ends."""
        self.length = length
        self.records_end = records_end

    def reopen(self, handle: i64) -> None:
        """Continue with another handle of the file."""
        self.handle = handle

    def follow_removed(self) -> None:
        """Note that removed messages are in the file before these rows."""
        self.forgotten = True

    def pin(self, pinned: bool) -> None:
        """Keep the file, whose bytes are damaged, for examination; or do not."""
        self.pinned = pinned

    def last_seq(self) -> i64:
        """Return the sequence of the last row; the one before ``base`` if it has none."""
        return self.base + len(self.offsets) - 1

    def offset_at(self, i: i64) -> i64:
        """Return the offset of a row's record in the file; NOWHERE if its message was removed."""
        return self.offsets[i] & OFFSET_MASK

    def size_at(self, i: i64) -> i64:
        """Return the accounted size of a row's message; 0 if it was removed."""
        return self.offsets[i] >> OFFSET_BITS

    def forget(self, base: i64) -> None:
        """Drop all rows; the next message has at least this sequence."""
        self.live = 0
        self.weight = 0
        self.forgotten = True
        self.base = base
        self.offsets = vec[i64]()
        self.subjects = vec[i32]()
        self.nexts = vec[i64]()

    def forget_before(self, base: i64) -> None:
        """Drop the rows before a sequence."""
        i: i64 = min(base - self.base, i64(len(self.offsets)))
        self.base = base
        self.forgotten = True
        self.offsets = self.offsets[i:]
        self.subjects = self.subjects[i:]
        self.nexts = self.nexts[i:]
        self.live = 0
        self.weight = 0
        i = 0
        while i < i64(len(self.offsets)):
            if self.offsets[i] != NOWHERE:
                self.live += 1
                self.weight += self.size_at(i)
            i += 1
