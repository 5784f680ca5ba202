"""The task that writes the index file of a segment (``index_file.py``), step by step."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64
from xxhash import xxh3_64

from jetspark.store.files import Files
from jetspark.store.format.index_file import (
    END,
    FROM,
    MAGIC,
    RECORD,
    STEP_MAX,
    SUBJECT,
    SUFFIX,
    VERSION,
    IndexHead,
    last_bytes,
)
from jetspark.store.format.manifest import frame
from jetspark.store.format.record import (
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_MEMBER,
    DELETE_RANGE,
    FIXED,
    MESSAGE,
    SKIP,
    Codec,
    kind_in,
    record_flags,
    record_lengths,
    record_sequence,
    record_time,
    subject_end,
)
from jetspark.store.log.columns import OFFSET_BITS
from jetspark.store.log.deletion import is_of_newest
from jetspark.store.upkeep.task import Task
from jetspark.store.upkeep.upkeep import Upkeep

# How much one step reads at least, and writes at most before it ends: well under 2 ms.
STEP_READ: Final[i64] = 256 * 1024
STEP_WRITE: Final[i64] = 128 * 1024
# This many subjects are remembered: a stream may have millions, and a second copy of them all
# would be the largest object in memory. A subject that occurs again after that gets another id.
SUBJECTS_MAX: Final[i64] = 16_384


class IndexWriter(Task):
    """Writes the index file of one segment, up to a durable end, step by step."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        codec: Codec,
        handle: i64,
        name: str,
        end: i64,
        upkeep: Upkeep,
        generation: i64 = 0,
        subjects_max: i64 = SUBJECTS_MAX,
    ) -> None:
        super().__init__(files, [int(handle)], "writing an index file")
        self.is_optional = True
        self.upkeep: Upkeep = upkeep
        self.handle: i64 = handle
        self.codec: Codec = codec
        self.path: Path = folder / (name + SUFFIX)
        self.at: i64 = 0
        self.end: i64 = end
        self.name: str = name
        self.generation: i64 = generation
        self.hasher: xxh3_64 = xxh3_64(seed=self.codec.seed)
        self.subjects: dict[bytes, int] = {}
        self.subjects_max: i64 = subjects_max
        self.next_id: int = 0
        self.last_seq: i64 = 0
        self.last_time: i64 = 0
        self.output: int = -1
        self.written: i64 = 0
        self.pieces: BytesWriter = BytesWriter()
        self.failed: bool = False
        # Inside an atomic batch: a segment with an incomplete one is always read itself.
        self.in_batch: bool = False

    def step(self) -> bool:
        """Do a bounded piece of the work; True when finished, or failed permanently.

        Raises OSError if the disk fails; then nothing of it counts, and nothing of it is kept: on
        a full disk that would take the last space.
        """
        try:
            done = self.advance()
        except OSError:
            self.discard()
            raise
        if self.failed:
            self.discard()
        return done

    def discard(self) -> None:
        """Remove the partial file."""
        if self.output >= 0:
            with suppress(OSError):
                self.files.remove(self.path.with_name(self.path.name + ".tmp"))

    def advance(self) -> bool:
        """Do the next piece."""
        if self.at == 0:
            self.read_head()
            return self.failed
        if self.at < self.end and len(self.pieces) < STEP_WRITE:
            self.read()
            return self.failed
        if self.output < 0:
            self.begin()
        if self.at >= self.end and len(self.pieces) <= STEP_WRITE:
            self.put(END, self.last_time)
            self.write()
            self.files.write_synced(self.output, [self.hasher.digest()], int(self.written))
            self.close()
            self.files.rename(self.path.with_name(self.path.name + ".tmp"), self.path)
            return True
        self.write()
        return False

    def begin(self) -> None:
        """Create the file, replacing that of an earlier attempt."""
        temporary = self.path.with_name(self.path.name + ".tmp")
        try:
            self.output = self.files.open(temporary, create=True)
        except FileExistsError:
            self.files.remove(temporary)
            self.output = self.files.open(temporary, create=True)

    def read_head(self) -> None:
        """Find where the records start, and start with the frame of the file."""
        data = self.files.read(int(self.handle), 0, 8)
        self.failed = len(data) < 8
        if self.failed:
            return
        first: i64 = 16 + (read_i64_le(data, 0) >> 32)
        head = IndexHead(
            version=VERSION,
            stream_id=self.codec.seed,
            segment=self.name,
            first_offset=int(first),
            covered=int(self.end),
            generation=int(self.generation),
            last=last_bytes(self.files, int(self.handle), int(self.end)),
        )
        self.pieces.write(frame(MAGIC, msgspec.json.encode(head)))
        # As its name says: records that belong before it are not trusted.
        self.last_seq = int(self.name[:20]) - 1
        self.put(FROM, self.last_seq)
        self.at = first

    def read(self) -> None:
        """Add the next records of the segment."""
        length = min(STEP_READ, self.end - self.at)
        data = self.files.read(int(self.handle), int(self.at), int(length))
        if len(data) >= FIXED and self.codec.framed_length(data, 0) > len(data):
            total = self.codec.framed_length(data, 0)
            data = self.files.read(int(self.handle), int(self.at), int(total))
        at: i64 = 0
        while at < len(data):
            total = self.codec.examine(data, at)
            if total <= 0 or not self.add(data, at, total):
                break
            at += total
        # A segment with invalid or unexpected bytes is always read itself.
        self.failed = at == 0
        self.at += at

    def add(self, data: bytes, at: i64, total: i64) -> bool:
        """Add one valid record; False if it does not belong after the others."""
        lengths = record_lengths(data, at)
        kind = kind_in(lengths)
        flags = record_flags(data, at)
        if self.in_batch != (flags & (BATCH_MEMBER | BATCH_FIRST) == BATCH_MEMBER):
            return False
        self.in_batch = flags & BATCH_MEMBER != 0 and flags & BATCH_LAST == 0
        if kind != MESSAGE:
            if kind != SKIP and read_i64_le(data, at + FIXED) < self.last_seq:
                return False
            if kind == DELETE_RANGE and is_of_newest(data, at):
                self.last_time = max(self.last_time, record_time(data, at))
            self.put(RECORD, total)
            self.pieces.write(data[at : at + total])
            return True
        seq = record_sequence(data, at)
        if seq <= self.last_seq:
            return False
        subject = data[at + FIXED : subject_end(data, at)]
        subject_id = self.subjects.get(subject, -1)
        if subject_id < 0:
            if len(self.subjects) >= self.subjects_max:
                self.subjects = {}
            subject_id = self.next_id
            self.next_id += 1
            self.subjects[subject] = subject_id
            self.put(SUBJECT, len(subject))
            self.pieces.write(subject)
        if seq - self.last_seq > STEP_MAX:
            self.put(FROM, seq - 1)
            self.last_seq = seq - 1
        size = self.codec.message_size(data, at)
        step = seq - self.last_seq
        self.put((self.at + at) | (size << OFFSET_BITS), (step << 32) | subject_id)
        self.last_seq = seq
        self.last_time = record_time(data, at)
        return True

    def put(self, first: i64, second: i64) -> None:
        """Add two words."""
        write_i64_le(self.pieces, first)
        write_i64_le(self.pieces, second)

    def write(self) -> None:
        """Write what was collected."""
        piece = self.pieces.getvalue()
        self.files.write_synced(self.output, [piece], int(self.written))
        self.hasher.update(piece)
        self.written += len(piece)
        self.pieces = BytesWriter()

    def finish(self, failed: bool) -> None:
        """Record the result; a failed one is retried only once the segment has grown."""
        if not failed and not self.failed:
            self.upkeep.counts.indexed()
        self.upkeep.note_indexed(self.name, int(self.end))

    def close(self) -> None:
        """Close the file."""
        if self.output >= 0:
            handle = self.output
            self.output = -1
            self.files.close(handle)
