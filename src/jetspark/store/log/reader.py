"""Reading a stream: from the recently written blobs, or from the disk, verified.

Only durable messages are found. A record that the disk returns changed is an error that names it,
and does not affect its neighbours. Readers that can wait leave it to a thread to read a large
record (``LongRead``).
"""

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.store.files import Files
from jetspark.store.format.compression import unpacked
from jetspark.store.format.record import (
    COMPRESSED,
    FIXED,
    Codec,
    body_end,
    headers_end,
    record_flags,
    record_sequence,
    record_time,
)
from jetspark.store.log.cache import BlobCache
from jetspark.store.log.columns import NOWHERE, Columns
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.long_read import (
    LONG_READ,
    NOT_UNPACKED,
    OTHER_SEQUENCE,
    READ_TRIES,
    WRONG_CHECKSUM,
    LongRead,
)
from jetspark.store.log.segments import Segments

# A single get reads one page, a run of gets reads ahead.
SINGLE_READ: Final[i64] = 4 * 1024
RUN_READ: Final[i64] = 256 * 1024
# This many failed reads are remembered for health and logs.
FAILURES_KEPT: Final = 64
RETRIED_AT_ONCE: Final = 4
# The times of this many large messages are remembered.
TIMES_KEPT: Final = 1024
_LONG: Final[i64] = LONG_READ
# A large record is read in pieces of this size to find out whether the disk can read it.
PROBED: Final[i64] = 1024 * 1024


class LogReader:
    """The segments of one stream, open for reading."""

    def __init__(
        self, segments: Segments, index: StreamIndex, codec: Codec, cache_budget: int
    ) -> None:
        self.segments: Segments = segments
        self.files: Files = segments.files
        self.codec: Codec = codec
        self.index: StreamIndex = index
        self.cache: BlobCache = BlobCache(cache_budget)
        # What was read last, from the start of a record; never a large one.
        self.page: bytes = b""
        self.page_where: i64 = 0
        self.last_read: i64 = 0
        # The large record that was read last, and what the last failed read of one found, until
        # it is asked for.
        self.large: bytes = b""
        self.large_where: i64 = -1
        self.failed: LongRead | None = None
        # When large messages were stored, by the places of their records.
        self.times: dict[int, int] = {}
        # Messages that could not be read, and why, until that was investigated (quarantine.py).
        self.unreadable: dict[int, str] = {}
        # Messages that the disk failed to read, and why; not corruption, and read again later.
        self.refused_reads: dict[int, str] = {}

    def locate(self, seq: i64) -> tuple[bytes, i64]:
        """Find a durable message: bytes and the offset of its record in them; ``b""`` if none.

        However large it is: a message of 60 MB takes 30 ms. Raises CorruptRecord if the disk
        returns something other than was written, ReadFailed if it returns nothing: then the
        message may be intact.
        """
        try:
            return self.locate_in_turn(seq)
        except LongRead as read:
            read.run()
            self.accept(read)
        return self.locate_in_turn(seq)

    def locate_in_turn(self, seq: i64) -> tuple[bytes, i64]:
        """Find a durable message, for readers that can wait; raises LongRead as well.

        Then it is read in the background, and is asked for again after ``accept``.
        """
        columns = self.index.segment_of(seq)
        if columns is None:
            return b"", 0
        offset = columns.offset_at(seq - columns.base)
        if offset == NOWHERE:
            return b"", 0
        where = columns.start + offset
        cached, place = self.cache.find(where)
        if len(cached) > 0:
            return cached, place
        if where == self.large_where:
            self.last_read = seq
            return self.large, 0
        if self.failed is not None:
            self.raise_failed(columns, offset, seq)
        at = where - self.page_where
        if not (0 <= at < len(self.page)) or self.codec.examine(self.page, at) <= 0:
            # The record is not on the page, ends after it, or needs a second look.
            self.read_page(columns, offset, seq)
            at = 0
            if self.codec.examine(self.page, 0) <= 0:
                # A reader that is notified of damage skips the message: one bad read is not proof.
                self.keep_page(columns, offset, self.read_alone(columns, offset, seq))
                if self.codec.examine(self.page, 0) <= 0:
                    raise self.corrupt(columns, offset, seq, WRONG_CHECKSUM)
        self.last_read = seq
        if record_sequence(self.page, at) != seq:
            raise self.corrupt(columns, offset, seq, OTHER_SEQUENCE)
        if record_flags(self.page, at) & COMPRESSED:
            body = headers_end(self.page, at)
            if body_end(self.page, at) - body >= 8 and read_i64_le(self.page, body) >= _LONG:
                raise self.long_read(columns, offset, self.codec.framed_length(self.page, at), seq)
            plain: bytes = unpacked(self.page, int(at))
            if len(plain) == 0:
                raise self.corrupt(columns, offset, seq, NOT_UNPACKED)
            return plain, 0
        return self.page, at

    def read_page(self, columns: Columns, offset: i64, seq: i64) -> None:
        """Read a page that begins with the whole record at ``offset``."""
        handle = int(columns.handle)
        length = RUN_READ if seq == self.last_read + 1 else SINGLE_READ
        if columns.handle == self.segments.handle:
            # After the durable end a group may be in flight: no page may contain half of it.
            length = min(length, self.segments.end - offset)
        try:
            data = self.files.read(handle, int(offset), int(length))
            if len(data) >= FIXED and self.codec.framed_length(data, 0) > len(data):
                length = self.codec.framed_length(data, 0)
                if length >= _LONG:
                    raise self.long_read(columns, offset, length, seq)
                data = self.files.read(handle, int(offset), int(length))
        except OSError:
            # The unreadable bytes may be a neighbour's.
            data = self.read_alone(columns, offset, seq)
        self.keep_page(columns, offset, data)
        if len(self.refused_reads) > 0:
            self.refused_reads.pop(int(seq), "")

    # Large records -----------------------------------------------------------------------------

    def long_read(self, columns: Columns, offset: i64, length: i64, seq: i64) -> LongRead:
        """Return the read of a large record."""
        where = columns.start + offset
        return LongRead(self, int(columns.handle), int(offset), int(length), int(seq), int(where))

    def accept(self, read: LongRead) -> None:
        """Keep what was found, unless the message was removed or moved while it was read."""
        seq: i64 = read.seq
        columns = self.index.segment_of(seq)
        if columns is None or columns.handle != i64(read.handle):
            return
        offset = columns.offset_at(seq - columns.base)
        if offset == NOWHERE or columns.start + offset != i64(read.where):
            return
        if len(read.data) > 0:
            self.large = read.data
            self.large_where = read.where
            self.refused_reads.pop(read.seq, "")
        else:
            self.failed = read

    def raise_failed(self, columns: Columns, offset: i64, seq: i64) -> None:
        """Raise what a failed read of a large record found, once: then it is read again."""
        failed = self.failed
        if failed is None or i64(failed.where) != columns.start + offset:
            return
        self.failed = None
        if len(failed.refused) > 0:
            raise self.refused(seq, failed.refused)
        raise self.corrupt(columns, offset, seq, failed.damage)

    # Other records -----------------------------------------------------------------------------

    def keep_page(self, columns: Columns, offset: i64, data: bytes) -> None:
        """Remember what was read last."""
        self.page = data
        self.page_where = columns.start + offset

    def read_alone(self, columns: Columns, offset: i64, seq: i64) -> bytes:
        """Read the bytes of one record and no others; raises ReadFailed if that fails too."""
        handle = int(columns.handle)
        reason = ""
        for _ in range(READ_TRIES):
            try:
                data = self.files.read(handle, int(offset), int(FIXED))
                if len(data) >= FIXED and self.codec.framed_length(data, 0) > FIXED:
                    length = self.codec.framed_length(data, 0)
                    if length >= _LONG:
                        raise self.long_read(columns, offset, length, seq)
                    data = self.files.read(handle, int(offset), int(length))
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                return data
        # The content of the page is useless: it may end before this record.
        self.page = b""
        raise self.refused(seq, reason)

    def refused(self, seq: i64, reason: str) -> ReadFailed:
        """Return the error for a record that the disk failed to read."""
        if len(self.refused_reads) < FAILURES_KEPT:
            self.refused_reads[int(seq)] = reason
        return ReadFailed(int(seq), reason)

    def read_refused_again(self) -> None:
        """Retry some messages that the disk failed to read; no other reader may."""
        for seq in list(self.refused_reads)[:RETRIED_AT_ONCE]:
            # At the end of the queue from now on, in case it fails again.
            reason = self.refused_reads.pop(seq, "")
            columns = self.index.segment_of(seq)
            if columns is None or columns.offset_at(seq - columns.base) == NOWHERE:
                continue
            offset = columns.offset_at(seq - columns.base)
            try:
                self.read_alone(columns, offset, seq)
            except ReadFailed:
                continue
            except LongRead as read:
                if not self.is_readable(read):
                    self.refused_reads[seq] = reason
                return  # one of them takes a few milliseconds

    def is_readable(self, read: LongRead) -> bool:
        """Return whether the disk can read a large record; it is not asked for now."""
        try:
            at: i64 = 0
            while at < i64(read.length):
                size = min(PROBED, i64(read.length) - at)
                self.files.read(read.handle, int(i64(read.offset) + at), int(size))
                at += size
        except OSError:
            return False
        return True

    def corrupt(self, columns: Columns, offset: i64, seq: i64, problem: str) -> CorruptRecord:
        """Return the error for a record that cannot be served."""
        self.unreadable[int(seq)] = problem
        return CorruptRecord(
            str(self.segments.folder),
            int(offset),
            f"the record of sequence {int(seq)} in the segment from {int(columns.base)} on "
            f"{problem}",
        )

    def take_unreadable(self) -> dict[int, str]:
        """Return the messages that could not be read since the last call, and why."""
        found, self.unreadable = self.unreadable, {}
        return found

    def note_unreadable(self, seq: int, reason: str) -> None:
        """Note that a message could not be read; that is still to be investigated."""
        self.unreadable[seq] = reason

    def forget_page(self) -> None:
        """Drop what was read last: what is on disk may have changed."""
        self.page = b""
        self.forget_large()

    def forget_large(self) -> None:
        """Drop the large record that was read last."""
        self.large = b""
        self.large_where = -1
        self.failed = None
        self.times = {}

    def close(self) -> None:
        """Release large objects."""
        self.cache = BlobCache(0)
        self.page = b""
        self.forget_large()

    @property
    def first_time(self) -> i64:
        """Return when the oldest message was stored; 0 if there is none.

        Read on demand: otherwise eviction would read a record per commit.
        """
        index = self.index
        if index.messages == 0:
            return 0
        seq = index.first_seq
        if index.first_time_of != seq:
            time = self.time_of(seq)
            while time < 0 and seq > 0:
                # Damaged: its neighbour is not older.
                seq = index.next_seq(seq + 1, b"")
                time = self.time_of(seq) if seq > 0 else index.last_time
            index.note_first_time(time)
        return index.first_time_known

    def first_at(self, time_ns: i64) -> i64:
        """Return the sequence of the first message stored at or after a time.

        One past the last sequence if all are older. Times never decrease within a stream, so this
        is a binary search that reads records. Damaged records are skipped: their neighbours are as
        good. Raises ReadFailed if the disk fails, because the answer may be different once it does
        not.
        """
        return self.search_time(time_ns, True)

    def search_time(self, time_ns: i64, strict: bool) -> i64:
        """Do what ``first_at`` does; not ``strict``: unreadable messages count as newer."""
        low = self.index.first_seq
        high = self.index.last_seq + 1
        while low < high:
            # The sum of two sequences may not fit 64 bits.
            middle = low + (high - low) // 2
            found = self.index.next_seq(middle, b"")
            time = self.stored_at(found, strict)
            while time < 0 and 0 < found < high:
                found = self.index.next_seq(found + 1, b"")
                time = self.stored_at(found, strict)
            if found == 0 or found >= high or time >= time_ns:
                high = middle
            else:
                low = found + 1
        found = self.index.next_seq(low, b"")
        return found if found > 0 else self.index.last_seq + 1

    def time_of(self, seq: i64) -> i64:
        """Return when a message was stored; -1 if it does not exist or cannot be read."""
        return self.stored_at(seq, False)

    def stored_at(self, seq: i64, strict: bool) -> i64:
        """Return when a message was stored; -1 if it does not exist or is damaged.

        A failed read raises ReadFailed if ``strict``, otherwise it is -1 as well.
        """
        if seq == 0:
            return -1
        try:
            try:
                data, at = self.locate_in_turn(seq)
            except LongRead as read:
                time = self.large_stored_at(read)
                if time >= 0:
                    return time
                data, at = self.locate(seq)
        except CorruptRecord:
            return -1
        except ReadFailed:
            if strict:
                raise
            return -1
        return record_time(data, at) if len(data) > 0 else i64(-1)

    def large_stored_at(self, read: LongRead) -> i64:
        """Return when a large message was stored; -1 if it has to be read as a whole."""
        known = self.times.get(read.where)
        if known is not None:
            return known
        time: int = read.stored_at()
        if time >= 0:
            if len(self.times) >= TIMES_KEPT:
                self.times.clear()
            self.times[read.where] = time
        return time
