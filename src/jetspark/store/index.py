"""What is in a stream, in memory: columns by sequence and one entry per subject.

Columns, not objects (speed.md 4.6): per message an offset and the number of its subject, kept
per segment so that they go when the segment goes. Everything here is durable state except
``SubjectEntry.staged_last``, which decisions look at before the disk has answered.
"""

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal

NOWHERE: Final[i64] = 0  # no record lies at offset 0: the head of the segment does


class SubjectEntry:
    """One subject of a stream."""

    def __init__(self, subject: bytes, number: i64) -> None:
        self.subject: bytes = subject
        self.number: i64 = number
        self.count: i64 = 0
        self.first: i64 = 0
        self.last: i64 = 0
        self.staged_last: i64 = 0


class Columns:
    """Offsets and subject numbers of the messages of one segment."""

    def __init__(self, handle: i64, base: i64, start: i64) -> None:
        self.handle: i64 = handle
        self.base: i64 = base
        # Where the file begins in the whole log: the lengths of all segments before it.
        self.start: i64 = start
        self.offsets: vec[i64] = vec[i64]()
        self.subjects: vec[i64] = vec[i64]()

    def add(self, seq: i64, offset: i64, subject_number: i64) -> None:
        """Append a message; sequences that were skipped before it become holes."""
        length: i64 = len(self.offsets)
        while length < seq - self.base:
            self.offsets = append(self.offsets, NOWHERE)
            self.subjects = append(self.subjects, i64(-1))
            length += 1
        self.offsets = append(self.offsets, offset)
        self.subjects = append(self.subjects, subject_number)


class StreamIndex:
    """The durable messages of one stream."""

    def __init__(self) -> None:
        self.subjects: dict[bytes, SubjectEntry] = {}
        self.entries: list[SubjectEntry] = []
        self.segments: list[Columns] = []
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.first_seq: i64 = 0
        self.last_seq: i64 = 0
        self.first_time: i64 = 0
        self.last_time: i64 = 0
        self.subject_count: i64 = 0

    def entry(self, subject: bytes) -> SubjectEntry:
        """The entry of a subject, made when it is new."""
        found = self.subjects.get(subject)
        if found is None:
            found = SubjectEntry(subject, len(self.entries))
            self.subjects[subject] = found
            self.entries.append(found)
        return found

    def add_segment(self, handle: i64, base: i64, start: i64) -> None:
        """Messages added from now on lie in another file."""
        self.segments.append(Columns(handle, base, start))

    def add_message(
        self, seq: i64, entry: SubjectEntry, offset: i64, time_ns: i64, size: i64
    ) -> None:
        """A message became durable."""
        self.segments[-1].add(seq, offset, entry.number)
        if self.messages == 0:
            self.first_seq = seq
            self.first_time = time_ns
        self.messages += 1
        self.bytes += size
        self.last_seq = seq
        self.last_time = time_ns
        if entry.count == 0:
            entry.first = seq
            self.subject_count += 1
        entry.count += 1
        entry.last = seq
        entry.staged_last = max(entry.staged_last, seq)

    def skip_to(self, last_seq: i64) -> None:
        """Sequences up to this one are used up without a message."""
        self.last_seq = max(self.last_seq, last_seq)

    def forget_staged(self) -> None:
        """Drop what exists only because of messages that were staged and did not become durable.

        New subjects are numbered at the end, so those without a message are the last ones.
        """
        while self.entries and self.entries[-1].count == 0:
            del self.subjects[self.entries.pop().subject]

    def segment_at(self, seq: i64) -> i64:
        """Number of the last segment that begins at or before a sequence; -1 when none does.

        Segments without messages share their base with the one behind them: the last one counts.
        """
        low: i64 = 0
        high: i64 = len(self.segments)
        while low < high:
            middle = (low + high) // 2
            if self.segments[middle].base <= seq:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def segment_of(self, seq: i64) -> Columns | None:
        """The segment a sequence lies in, if it is one the index knows."""
        i = self.segment_at(seq)
        if i < 0:
            return None
        columns = self.segments[i]
        if seq - columns.base < len(columns.offsets):
            return columns
        return None

    def next_seq(self, seq: i64, mask: bytes) -> i64:
        """First message at or after ``seq`` whose subject the mask has; 0 when there is none.

        An empty mask stands for every subject.
        """
        seq = max(seq, self.first_seq)
        number_of_segments: i64 = len(self.segments)
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < number_of_segments:
            columns = self.segments[n]
            n += 1
            i: i64 = max(i64(0), seq - columns.base)
            end: i64 = len(columns.offsets)
            while i < end:
                if columns.offsets[i] != NOWHERE:
                    number = columns.subjects[i]
                    if not mask or (number < len(mask) and mask[number] != 0):
                        return columns.base + i
                i += 1
        return 0

    def count_from(self, seq: i64, mask: bytes) -> i64:
        """How many messages at or after ``seq`` have a subject of the mask."""
        if not mask and self.messages == self.last_seq - self.first_seq + 1:
            if seq <= self.first_seq:
                return self.messages
            return max(i64(0), self.last_seq - seq + 1)
        count: i64 = 0
        number_of_segments: i64 = len(self.segments)
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < number_of_segments:
            columns = self.segments[n]
            n += 1
            i: i64 = max(i64(0), seq - columns.base)
            end: i64 = len(columns.offsets)
            while i < end:
                if columns.offsets[i] != NOWHERE:
                    number = columns.subjects[i]
                    if not mask or (number < len(mask) and mask[number] != 0):
                        count += 1
                i += 1
        return count

    def mask_for(self, pattern: bytes) -> bytes:
        """One byte per subject number: 1 where the subject matches; never empty."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return b"\0"
            return b"\0" * int(found.number) + b"\1"
        flags = bytearray(max(1, len(self.entries)))
        for entry in self.entries:
            if entry.count > 0 and matches(entry.subject, pattern):
                flags[int(entry.number)] = 1
        return bytes(flags)

    def last_match(self, pattern: bytes) -> i64:
        """Sequence of the newest message whose subject matches; 0 when there is none."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return 0
            return found.last
        last: i64 = 0
        for entry in self.entries:
            if entry.count > 0 and entry.last > last and matches(entry.subject, pattern):
                last = entry.last
        return last
