"""One stream on disk: staging, group commit, and reading what is durable (contracts.md 1).

Decisions stage records: they get a sequence and a position at once and are encoded into the
group that fills. ``take_group`` hands the group to a committer; ``commit`` is called when its
synced write returned, and only then do the index and the readers learn of it. ``fail`` forgets
what was staged: the file is cut back to its durable end, and since numbers are never used again
a skip record covers them before anything else is written.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from jetspark.errors.storage import CorruptRecord, StoreReadOnly
from jetspark.store.cache import BlobCache
from jetspark.store.files import Files
from jetspark.store.index import NOWHERE, Columns, StreamIndex, SubjectEntry
from jetspark.store.manifest import Identity
from jetspark.store.record import (
    FIXED,
    GROUP_FIRST,
    MESSAGE,
    SKIP,
    Codec,
    body_end,
    headers_end,
    record_kind,
    record_length,
    record_sequence,
    record_time,
    subject_end,
)
from jetspark.store.segment import create_segment

CACHE_BUDGET: Final = 16 * 1024 * 1024
# A single get reads one page, a run of gets reads ahead (speed.md 4.5).
SINGLE_READ: Final[i64] = 4 * 1024
RUN_READ: Final[i64] = 256 * 1024


class Group:
    """The records of one synced write, on their way to the disk."""

    def __init__(
        self,
        handle: i64,
        offset: i64,
        blob: bytes,
        entries: list[SubjectEntry],
        last_position: i64,
    ) -> None:
        self.handle: i64 = handle
        self.offset: i64 = offset
        self.blob: bytes = blob
        self.entries: list[SubjectEntry] = entries
        self.last_position: i64 = last_position


class StreamLog:
    """The log of one stream: one writer, any number of reads, one group on its way at a time."""

    def __init__(
        self, files: Files, folder: Path, identity: Identity, segment_size: int, cache_budget: int
    ) -> None:
        self.files: Files = files
        self.folder: Path = folder
        self.identity: Identity = identity
        self.segment_size: i64 = segment_size
        self.codec: Codec = Codec(identity.stream_id)
        self.index: StreamIndex = StreamIndex()
        self.cache: BlobCache = BlobCache(cache_budget)
        self.page: bytes = b""
        self.page_where: i64 = 0
        self.last_read: i64 = 0

        self.staged_seq: i64 = 0
        self.staged_position: i64 = 0
        self.durable_position: i64 = 0
        self.staged_time: i64 = 0
        self.writer: BytesWriter = BytesWriter()
        self.entries: list[SubjectEntry] = []
        self.in_flight: Group | None = None
        self.skip_needed: bool = False
        self.roll_due: bool = False
        self.read_only: bool = False
        self.closed: bool = False

        self.handle: i64 = -1
        self.first_offset: i64 = 0
        # The durable end of the newest segment: whatever lies behind it is nobody's yet.
        self.end: i64 = 0

    # Writing -----------------------------------------------------------------------------------

    def stage_message(self, subject: bytes, headers_length: i64, tail: bytes, now: i64) -> i64:
        """Decide that a message is in the stream; returns its sequence. Not durable yet.

        ``tail`` is headers, body and CRLF as they arrived. Raises StoreReadOnly after a failed
        write, and ValueError, with nothing staged, for what a record cannot hold.
        """
        if self.read_only:
            raise StoreReadOnly(f"{self.folder} takes no writes until it was opened again")
        if self.skip_needed:
            self.stage_skip(b"")
        self.staged_time = max(self.staged_time, now)
        seq = self.staged_seq + 1
        flags: i64 = 0
        if len(self.writer) == 0:
            flags = GROUP_FIRST
        self.codec.encode(
            self.writer, seq, self.staged_time, MESSAGE, flags, subject, headers_length, tail
        )
        entry = self.index.entry(subject)
        entry.staged_last = seq
        self.entries.append(entry)
        self.staged_seq = seq
        self.staged_position += 1
        return seq

    def stage_skip(self, more: bytes) -> None:
        """Say in the log that the sequences after the durable ones are not used again.

        Only when nothing else is staged. ``more`` is what recovery adds (``recovery.py``).
        """
        self.skip_needed = False
        body = BytesWriter()
        write_i64_le(body, self.index.last_seq + 1)
        write_i64_le(body, self.staged_seq)
        body.write(more)
        body.write(b"\r\n")
        self.codec.encode(
            self.writer, 0, self.staged_time, SKIP, GROUP_FIRST, b"", 0, body.getvalue()
        )
        self.staged_position += 1

    def take_group(self) -> Group | None:
        """Hand out what was staged since the last group; None while one is on its way.

        May raise OSError when a new segment is due and cannot be made: then ``fail`` follows.
        """
        size: i64 = len(self.writer)
        if size == 0 or self.in_flight is not None:
            return None
        if self.roll_due or (self.end + size > self.segment_size and self.end > self.first_offset):
            self.roll()
        return self.seal_group()

    def seal_group(self) -> Group:
        """Make what is staged the group on its way, at the end of the newest segment."""
        group = Group(
            self.handle, self.end, self.writer.getvalue(), self.entries, self.staged_position
        )
        self.writer = BytesWriter()
        self.entries = []
        self.in_flight = group
        return group

    def roll(self) -> None:
        """Go on in a new segment; when that fails, nothing is written before it was repeated.

        Only while no group is on its way: a segment that has a successor is durable to its end,
        and an attempt that failed may have left the successor there.
        """
        self.roll_due = True
        first_seq = self.index.last_seq + 1
        handle, offset = create_segment(
            self.files, self.folder, self.identity, int(first_seq), int(self.durable_position) + 1
        )
        start: i64 = 0
        if self.index.segments:
            start = self.index.segments[-1].start + self.end
        self.index.add_segment(handle, first_seq, start)
        self.handle = handle
        self.first_offset = offset
        self.end = offset
        self.roll_due = False

    def commit(self) -> i64:
        """The group on its way is on disk: readers see it from now on.

        Returns its last position.
        """
        group = self.in_flight
        assert group is not None, "commit without a group on its way"
        self.in_flight = None
        if self.closed:
            self.close_handle(group.handle)
            return self.durable_position
        blob = group.blob
        at: i64 = 0
        end: i64 = len(blob)
        n: i64 = 0
        while at < end:
            if record_kind(blob, at) == MESSAGE:
                self.apply_message(blob, at, group.offset + at, group.entries[n])
                n += 1
            else:
                self.apply_other(blob, at)
            at += record_length(blob, at)
        self.cache.add(self.index.segments[-1].start + group.offset, blob)
        self.end = group.offset + end
        self.durable_position = group.last_position
        return self.durable_position

    def fail(self, no_space: bool) -> None:
        """The group on its way did not reach the disk: forget all that was staged.

        ``no_space``: writing may be tried again. Any other error leaves the stream read-only
        until it was reopened and verified, because nobody knows what the disk holds now.
        """
        group = self.in_flight
        if group is not None:
            for entry in group.entries:
                entry.staged_last = entry.last
        for entry in self.entries:
            entry.staged_last = entry.last
        self.index.forget_staged()
        self.writer = BytesWriter()
        self.entries = []
        self.in_flight = None
        self.staged_position = self.durable_position
        if self.closed:
            if group is not None:
                self.close_handle(group.handle)
            return
        self.skip_needed = self.staged_seq > self.index.last_seq
        if not no_space:
            self.read_only = True
            return
        try:
            self.files.truncate(int(self.handle), int(self.end))
        except OSError:
            self.read_only = True

    def apply_message(self, data: bytes, at: i64, offset: i64, entry: SubjectEntry) -> None:
        """A message record is durable at this offset of the newest segment."""
        head = headers_end(data, at) - subject_end(data, at)
        size: i64 = 30 + len(entry.subject) + body_end(data, at) - headers_end(data, at)
        if head > 0:
            size += 4 + head  # what nats-server counts for a file store (wire-facts.md 5)
        self.index.add_message(
            record_sequence(data, at), entry, offset, record_time(data, at), size
        )

    def apply_other(self, data: bytes, at: i64) -> None:
        """A record that is not a message is durable. Unknown kinds never get here."""
        if record_kind(data, at) == SKIP:
            self.index.skip_to(read_i64_le(data, at + FIXED + 8))

    # Reading -----------------------------------------------------------------------------------

    def locate(self, seq: i64) -> tuple[bytes, i64]:
        """Find a durable message: bytes and the offset of its record in them; ``b""`` if none.

        Raises CorruptRecord when the disk gives back something else than was written, or nothing.
        """
        columns = self.index.segment_of(seq)
        if columns is None:
            return b"", 0
        offset = columns.offsets[seq - columns.base]
        if offset == NOWHERE:
            return b"", 0
        where = columns.start + offset
        if self.cache.find(where):
            return self.cache.blob, where - self.cache.blob_start
        at = where - self.page_where
        if not (0 <= at < len(self.page)) or self.codec.examine(self.page, at) <= 0:
            # The record is not on the page, ends behind it, or is worth a second look.
            self.read_page(columns, offset, seq)
            at = 0
            if self.codec.examine(self.page, 0) <= 0:
                raise self.corrupt(columns, offset, seq, "does not check")
        self.last_read = seq
        if record_sequence(self.page, at) != seq:
            raise self.corrupt(columns, offset, seq, "is the record of another sequence")
        return self.page, at

    def read_page(self, columns: Columns, offset: i64, seq: i64) -> None:
        """Read a page that begins with the whole record at ``offset``."""
        handle = int(columns.handle)
        length = RUN_READ if seq == self.last_read + 1 else SINGLE_READ
        if columns.handle == self.handle:
            # Behind the durable end a group may be on its way: no page may remember half of it.
            length = min(length, self.end - offset)
        try:
            data = self.files.read(handle, int(offset), int(length))
            if len(data) >= FIXED and self.codec.framed_length(data, 0) > len(data):
                data = self.files.read(handle, int(offset), int(self.codec.framed_length(data, 0)))
        except OSError as error:
            raise self.corrupt(
                columns, offset, seq, f"cannot be read: {error.strerror}"
            ) from error
        self.page = data
        self.page_where = columns.start + offset

    def corrupt(self, columns: Columns, offset: i64, seq: i64, problem: str) -> CorruptRecord:
        """The error for a record that cannot be served."""
        return CorruptRecord(
            str(self.folder),
            int(offset),
            f"the record of sequence {int(seq)} in the segment from {int(columns.base)} on "
            f"{problem}",
        )

    def first_at(self, time_ns: i64) -> i64:
        """Sequence of the first message stored at or after a time.

        One past the last sequence when all are older. Times never decrease along a stream, so
        this is a binary search that reads records. A record that cannot be read is passed over:
        its neighbours tell as much.
        """
        low = self.index.first_seq
        high = self.index.last_seq + 1
        while low < high:
            middle = (low + high) // 2
            found = self.index.next_seq(middle, b"")
            time = self.time_of(found)
            while time < 0 and 0 < found < high:
                found = self.index.next_seq(found + 1, b"")
                time = self.time_of(found)
            if found == 0 or found >= high or time >= time_ns:
                high = middle
            else:
                low = found + 1
        found = self.index.next_seq(low, b"")
        return found if found > 0 else self.index.last_seq + 1

    def time_of(self, seq: i64) -> i64:
        """When a message was stored; -1 when it is not there or cannot be read."""
        if seq == 0:
            return -1
        try:
            data, at = self.locate(seq)
        except CorruptRecord:
            return -1
        return record_time(data, at)

    # The end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close every segment file; twice is as good as once.

        A group on its way keeps its file: its writer would otherwise meet a handle that belongs
        to somebody else by then. ``commit`` or ``fail`` closes it.
        """
        flying: i64 = -1
        if self.in_flight is not None:
            flying = self.in_flight.handle
        for columns in self.index.segments:
            if columns.handle != flying:
                self.close_handle(columns.handle)
        self.index.segments = []
        self.handle = -1
        self.read_only = True
        self.closed = True

    def close_handle(self, handle: i64) -> None:
        """Give one file back. What was written is synced, so an error here says nothing more."""
        with suppress(OSError):
            self.files.close(int(handle))
