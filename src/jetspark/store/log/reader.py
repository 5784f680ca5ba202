"""Reading a stream: from the recently written blobs, or from the disk, verified.

Only durable messages are found. A record that the disk returns changed is an error that names it,
and does not affect its neighbours.
"""

from contextlib import suppress
from typing import Final

from mypy_extensions import i64

from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.store.files import Files
from jetspark.store.format.compression import unpacked
from jetspark.store.format.record import (
    COMPRESSED,
    FIXED,
    Codec,
    record_flags,
    record_sequence,
    record_time,
)
from jetspark.store.log.cache import BlobCache
from jetspark.store.log.columns import NOWHERE, Columns
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.segments import Segments

# A single get reads one page, a run of gets reads ahead.
SINGLE_READ: Final[i64] = 4 * 1024
RUN_READ: Final[i64] = 256 * 1024
# How often the bytes of one record are read if the disk fails.
READ_TRIES: Final = 3
# This many failed reads are remembered for health and logs.
FAILURES_KEPT: Final = 64
RETRIED_AT_ONCE: Final = 4


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
        self.page: bytes = b""
        self.page_where: i64 = 0
        self.last_read: i64 = 0
        # Messages that could not be read, and why, until that was investigated (quarantine.py).
        self.unreadable: dict[int, str] = {}
        # Messages that the disk failed to read, and why; not corruption, and read again later.
        self.refused_reads: dict[int, str] = {}

    def locate(self, seq: i64) -> tuple[bytes, i64]:
        """Find a durable message: bytes and the offset of its record in them; ``b""`` if none.

        Raises CorruptRecord if the disk returns something other than was written, ReadFailed if it
        returns nothing: then the message may be intact.
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
        at = where - self.page_where
        if not (0 <= at < len(self.page)) or self.codec.examine(self.page, at) <= 0:
            # The record is not on the page, ends after it, or needs a second look.
            self.read_page(columns, offset, seq)
            at = 0
            if self.codec.examine(self.page, 0) <= 0:
                # A reader that is notified of damage skips the message: one bad read is not proof.
                self.keep_page(columns, offset, self.read_alone(columns, offset, seq))
                if self.codec.examine(self.page, 0) <= 0:
                    raise self.corrupt(columns, offset, seq, "has a wrong checksum")
        self.last_read = seq
        if record_sequence(self.page, at) != seq:
            raise self.corrupt(columns, offset, seq, "is the record of another sequence")
        if record_flags(self.page, at) & COMPRESSED:
            plain: bytes = unpacked(self.page, int(at))
            if len(plain) == 0:
                raise self.corrupt(columns, offset, seq, "does not decompress to its length")
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
                data = self.files.read(handle, int(offset), int(self.codec.framed_length(data, 0)))
        except OSError:
            # The unreadable bytes may be a neighbour's.
            data = self.read_alone(columns, offset, seq)
        self.keep_page(columns, offset, data)
        if len(self.refused_reads) > 0:
            self.refused_reads.pop(int(seq), "")

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
                    data = self.files.read(handle, int(offset), int(length))
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                return data
        # The content of the page is useless: it may end before this record.
        self.page = b""
        if len(self.refused_reads) < FAILURES_KEPT:
            self.refused_reads[int(seq)] = reason
        raise ReadFailed(int(seq), reason)

    def read_refused_again(self) -> None:
        """Retry some messages that the disk failed to read; no other reader may."""
        for seq in list(self.refused_reads)[:RETRIED_AT_ONCE]:
            # At the end of the queue from now on, in case it fails again.
            self.refused_reads.pop(seq, "")
            columns = self.index.segment_of(seq)
            if columns is None or columns.offset_at(seq - columns.base) == NOWHERE:
                continue
            with suppress(ReadFailed):
                self.read_alone(columns, columns.offset_at(seq - columns.base), seq)

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
        """Drop the last page: what is on disk may have changed."""
        self.page = b""

    def close(self) -> None:
        """Release large objects."""
        self.cache = BlobCache(0)
        self.page = b""

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
            data, at = self.locate(seq)
        except CorruptRecord:
            return -1
        except ReadFailed:
            if strict:
                raise
            return -1
        return record_time(data, at) if len(data) > 0 else i64(-1)
