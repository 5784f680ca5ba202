"""What is in a stream, in memory: columns by sequence and one entry per subject.

Columns, not objects (speed.md 4.6): per message an offset, the number of its subject, what it
counts, and the next sequence of the same subject, kept per segment so that they go when the
segment goes. Everything here is durable state except ``SubjectEntry.staged_last``, which
decisions look at before the disk has answered.

A message that is removed leaves a hole: its offset becomes ``NOWHERE``. The rest of its row
stays, so that the chain of its subject still leads across it.
"""

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from jetspark.store.columns import HOLES_MAX, NOWHERE, Columns, Search, Times
from jetspark.store.subject_table import SubjectEntry

__all__ = ["NOWHERE", "Columns", "StreamIndex", "SubjectEntry"]

# Numbers of subjects without messages are given to others when there are this many, at least.
EMPTY_SUBJECTS_MIN: Final[i64] = 4096


class StreamIndex(Search):
    """The durable messages of one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.free: list[int] = []
        self.blank: SubjectEntry = SubjectEntry(b"", -1)
        # The entry asked for last.
        self.newest: SubjectEntry | None = None
        self.times: Times | None = None
        self.bytes: i64 = 0
        # What was taken out so far, in bytes: tells when looking for garbage is worth it.
        self.removed_bytes: i64 = 0
        self.last_time: i64 = 0
        self.subject_count: i64 = 0
        self.first_time_known: i64 = 0
        self.first_time_of: i64 = 0
        # For who keeps counts of its own: with `tracking`, which messages went, or that so many
        # went at once, or subjects got other numbers, that it must count again.
        self.tracking: bool = False
        self.removed_seqs: vec[i64] = vec[i64]()
        self.removed_subjects: vec[i64] = vec[i64]()
        self.recount: bool = False
        # The pattern that was purged last, and below which sequence it has nothing for ever.
        self.purged_pattern: bytes = b""
        self.purged_end: i64 = 0

    def known(self, subject: bytes) -> SubjectEntry | None:
        """The entry of a subject; None when it has none."""
        # Many streams have one subject, and many publishers stay with one for a while.
        newest = self.newest
        if newest is not None and newest.subject == subject:
            return newest
        return self.subjects.get(subject)

    def entry(self, subject: bytes) -> SubjectEntry:
        """The entry of a subject, made when it is new."""
        found = self.known(subject)
        if found is None:
            if self.free:
                number = self.free.pop()
                found = SubjectEntry(subject, number)
                self.entries[number] = found
            else:
                found = SubjectEntry(subject, len(self.entries))
                self.entries.append(found)
            self.subjects.add(found)
            if self.ordered:
                self.order.add(subject)
        self.newest = found
        return found

    def add_segment(self, handle: i64, base: i64, start: i64, name: str = "") -> None:
        """Messages added from now on lie in another file."""
        self.segments.append(Columns(handle, base, start, name))

    def add_message(
        self, seq: i64, entry: SubjectEntry, offset: i64, time_ns: i64, size: i64
    ) -> None:
        """A message became durable."""
        columns = self.segments[-1]
        skipped: i64 = seq - columns.base - len(columns.offsets)
        if skipped > HOLES_MAX:
            before = columns
            self.add_segment(columns.handle, seq, columns.start, columns.name)
            columns = self.segments[-1]
            columns.generation = before.generation
            columns.packed = before.packed
        elif skipped > 0:
            columns.add_holes(skipped)
        columns.add(offset, entry.number, size)
        if self.messages == 0:
            self.first_seq = seq
            self.first_time_of = seq
            self.first_time_known = time_ns
        self.messages += 1
        self.bytes += size
        self.last_seq = seq
        self.last_time = time_ns
        if entry.count == 0:
            entry.first = seq
            self.subject_count += 1
        else:
            self.chain(columns, entry.last, seq)
        entry.count += 1
        entry.last = seq
        entry.staged_last = max(entry.staged_last, seq)

    def chain(self, newest: Columns, seq: i64, following: i64) -> None:
        """Say of a message which one of its subject comes next."""
        i: i64 = seq - newest.base
        if i >= 0:
            newest.nexts[i] = following
            return
        columns = self.segment_of(seq)
        if columns is not None:
            columns.nexts[seq - columns.base] = following

    def skip_to(self, last_seq: i64) -> None:
        """Sequences up to this one are used up without a message."""
        self.last_seq = max(self.last_seq, last_seq)
        if self.messages == 0 and self.last_seq > 0:
            self.first_seq = self.last_seq + 1

    @property
    def first_time(self) -> i64:
        """When the oldest message was stored; 0 when there is none.

        Found out when somebody asks: eviction would otherwise read a record for each commit.
        """
        if self.messages == 0:
            return 0
        seq = self.first_seq
        if self.first_time_of != seq and self.times is not None:
            time = self.times.time_of(seq)
            while time < 0 and seq > 0:
                # Damaged: its neighbour is not older.
                seq = self.next_seq(seq + 1, b"")
                time = self.times.time_of(seq) if seq > 0 else self.last_time
            self.first_time_of = self.first_seq
            self.first_time_known = time
        return self.first_time_known

    # Removal -----------------------------------------------------------------------------------

    def remove(self, seq: i64) -> bool:
        """Take a message out; False when it is not there."""
        columns = self.segment_of(seq)
        if columns is None:
            return False
        i: i64 = seq - columns.base
        size = columns.size_at(i)
        if size == 0:
            return False
        columns.offsets[i] = NOWHERE
        columns.live -= 1
        columns.weight -= size
        self.removed_bytes += size
        entry = self.entries[i64(columns.subjects[i])]
        if self.tracking:
            self.removed_seqs = append(self.removed_seqs, seq)
            self.removed_subjects = append(self.removed_subjects, i64(entry.number))
        self.messages -= 1
        self.bytes -= size
        entry.count -= 1
        if entry.count == 0:
            self.subject_count -= 1
            entry.first = 0
            entry.last = 0
        elif seq == entry.first:
            entry.first = self.live_from(columns.nexts[i], entry)
        elif seq == entry.last:
            entry.last = self.previous_in_subject(entry, seq)
        if entry.staged_last == seq:
            entry.staged_last = entry.last
        if seq == self.first_seq:
            if self.messages == 0:
                self.first_seq = self.last_seq + 1
            else:
                self.first_seq = self.next_seq(seq + 1, b"")
        return True

    def note_purge(self, pattern: bytes, end: i64) -> None:
        """Nothing of a pattern is left below a sequence."""
        self.purged_pattern = pattern
        self.purged_end = end

    def purged_below(self, pattern: bytes) -> i64:
        """The sequence below which nothing of a pattern is left, as far as that is known."""
        return self.purged_end if pattern == self.purged_pattern else i64(0)

    def forget_removed(self) -> None:
        """Whoever keeps counts of its own has taken over what was removed."""
        self.removed_seqs = vec[i64]()
        self.removed_subjects = vec[i64]()
        self.recount = False

    def clear(self) -> None:
        """Take every message out."""
        self.recount = self.tracking
        for entry in self.entries:
            if entry.count > 0:
                if entry.staged_last == entry.last:
                    entry.staged_last = 0
                entry.count = 0
                entry.first = 0
                entry.last = 0
        for columns in self.segments:
            columns.forget(self.last_seq + 1)
        self.removed_bytes += self.bytes
        self.messages = 0
        self.bytes = 0
        self.subject_count = 0
        self.first_seq = self.last_seq + 1

    def live_from(self, seq: i64, entry: SubjectEntry) -> i64:
        """Follow the chain of a subject from ``seq`` to the first message that is there; 0: none.

        Rows of removed messages are part of the chain until their segment goes or is rewritten;
        then the rows behind are searched. That is rare: limits take the oldest of a subject, so
        only what was removed by its sequence leaves a message that points at a hole.
        """
        while seq > 0:
            columns = self.segment_of(seq)
            if columns is None or columns.subjects[seq - columns.base] < 0:
                return self.search_from(seq, entry)
            i: i64 = seq - columns.base
            if columns.offsets[i] != NOWHERE:
                return seq
            seq = columns.nexts[i]
        return 0

    def search_from(self, seq: i64, entry: SubjectEntry) -> i64:
        """The first message of a subject at or after ``seq``, by looking at every row; 0: none."""
        number = entry.number
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < len(self.segments) and seq <= entry.last:
            columns = self.segments[n]
            i: i64 = max(i64(0), seq - columns.base)
            while i < len(columns.offsets):
                if columns.subjects[i] == number and columns.offsets[i] != NOWHERE:
                    return columns.base + i
                i += 1
            n += 1
        return 0

    def next_in_subject(self, seq: i64) -> i64:
        """The next message of the same subject behind one that is there; 0 when there is none."""
        columns = self.segment_of(seq)
        if columns is None:
            return 0
        i: i64 = seq - columns.base
        if columns.offsets[i] == NOWHERE:
            return 0
        entry = self.entries[i64(columns.subjects[i])]
        if seq == entry.last:
            return 0
        following = self.live_from(columns.nexts[i], entry)
        columns.nexts[i] = following  # whoever comes next need not walk over the holes again
        return following

    def previous_in_subject(self, entry: SubjectEntry, seq: i64) -> i64:
        """The message of a subject before ``seq``; 0 when there is none."""
        if entry.count <= 1 or seq <= entry.first:
            return entry.first if entry.first < seq else 0
        n: i64 = self.segment_at(seq - 1)
        number = entry.number
        while n >= 0:
            columns = self.segments[n]
            i: i64 = min(seq - 1 - columns.base, i64(len(columns.offsets)) - 1)
            while i >= 0:
                if columns.subjects[i] == number and columns.offsets[i] != NOWHERE:
                    return columns.base + i
                i -= 1
            n -= 1
        return 0

    # Subjects without messages -----------------------------------------------------------------

    def wants_recycling(self) -> bool:
        """Say whether so many subjects have no message that their numbers should be freed."""
        used: i64 = len(self.entries) - len(self.free)
        empty = used - self.subject_count
        return empty > EMPTY_SUBJECTS_MIN and empty * 2 > used

    def recycle(self, staged: list[SubjectEntry]) -> None:
        """Forget subjects that have no message and none on its way."""
        self.recount = self.recount or len(self.removed_seqs) > 0
        kept = bytearray(len(self.entries))
        for entry in staged:
            kept[int(entry.number)] = 1
        for number, entry in enumerate(self.entries):
            if entry.count == 0 and kept[number] == 0 and entry.number >= 0:
                self.entries[number] = self.blank
        while self.entries and self.entries[-1].number < 0:
            self.entries.pop()
        self.free = [n for n, entry in enumerate(self.entries) if entry.number < 0]
        self.generation += 1
        self.newest = None
        self.subjects.rebuild()
        # Half of what the order has is gone, at least.
        self.ordered = False
        self.order.forget()

    def forget_staged(self) -> None:
        """Drop what exists only because of messages that did not become durable."""
        self.recycle([])
