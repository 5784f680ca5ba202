"""Staging removals: what is decided to go counts for nobody who decides (``removal.py``).

Until its record is durable it still shows to everybody who reads.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.columns import NOWHERE
from jetspark.store.record import (
    DELETE_RANGE,
    FIXED,
    MESSAGE,
    PURGE,
    headers_end,
    record_kind,
    record_length,
    record_sequence,
    subject_end,
)
from jetspark.store.removal import (
    delete_body,
    is_everything,
    keep_from,
    matching_row,
    purge_body,
)
from jetspark.store.staging import Staging
from jetspark.store.subject_purge import rare_entries, stage_purge_subjects
from jetspark.store.subject_table import SubjectEntry
from jetspark.subjects.match import matches

# No more bytes of what is on its way are looked through for the newest message of a pattern.
STAGED_LOOKED_AT: Final[i64] = 16_384


class Removing(Staging):
    """The part of a log that decisions to delete and to purge talk to."""

    def stage_delete(self, seq: i64) -> bool:
        """Decide that a message goes; False when there is none to decisions (nothing is staged).

        Raises StoreReadOnly after a failed write.
        """
        size: i64 = 0
        entry: SubjectEntry | None = None
        columns = self.index.segment_of(seq)
        if columns is not None and columns.offsets[seq - columns.base] != NOWHERE:
            entry = self.index.entries[i64(columns.subjects[seq - columns.base])]
            size = columns.size_at(seq - columns.base)
        elif self.index.last_seq < seq <= self.staged_seq:
            for staged, size_there, owner in self.staged_rows():
                if staged == seq:
                    entry = owner
                    size = size_there
        if entry is None or (self.doomed.any and self.doomed.has(seq, entry.subject)):
            return False
        self.stage_prelude()
        self.stage_record(DELETE_RANGE, delete_body(self.staged_seq, seq, seq))
        self.doomed.delete(self.staged_position, seq)
        self.filling_messages -= 1
        self.filling_bytes -= size
        if entry.staged_last == seq:
            self.restage(entry, self.last_not_doomed(entry))
        return True

    def stage_unused(self, now: i64) -> i64:
        """Decide that a sequence is used up without a message; returns it.

        The record is that of a delete: it says which sequences were given out before it, and
        when, as the record of a message would.
        """
        self.stage_prelude()
        self.staged_time = max(self.staged_time + 1, now)
        self.staged_seq += 1
        seq = self.staged_seq
        self.stage_record(DELETE_RANGE, delete_body(seq, seq, seq))
        return seq

    def stage_delete_range(self, first: i64, last: i64) -> i64:
        """Decide that the messages from ``first`` to ``last`` go; how many decisions saw there.

        With none of them nothing is staged. Raises StoreReadOnly after a failed write.
        """
        last = min(last, self.staged_seq)  # what is given out later is not meant
        rows = [row for row in self.staged_rows() if first <= row[0] <= last]
        seq = self.index.next_seq(first, b"")
        while 0 < seq <= last:
            columns = self.index.segment_of(seq)
            assert columns is not None, "it was found there"
            owner = self.index.entries[i64(columns.subjects[seq - columns.base])]
            rows.append((int(seq), int(columns.size_at(seq - columns.base)), owner))
            seq = self.index.next_seq(seq + 1, b"")
        if self.doomed.any:
            rows = [row for row in rows if not self.doomed.has(row[0], row[2].subject)]
        if not rows:
            return 0
        self.stage_prelude()
        self.stage_record(DELETE_RANGE, delete_body(self.staged_seq, first, last))
        self.doomed.delete_range(self.staged_position, first, last)
        for _, size, entry in rows:
            self.filling_messages -= 1
            self.filling_bytes -= size
            if first <= entry.staged_last <= last:
                self.restage(entry, self.last_not_doomed(entry))
        return len(rows)

    def stage_purge(self, before_seq: i64, pattern: bytes, keep: i64) -> i64:
        """Decide that messages go: those below ``before_seq``, all but the newest ``keep``.

        0 stands for no bound, an empty pattern for every subject. Returns how many go; messages
        on their way to the disk count, and so do those that they will evict. A bound beyond the
        end, without a pattern, moves the end there.
        """
        everything = is_everything(pattern)
        rare = None if everything else rare_entries(self.index, pattern)
        if rare is not None:
            return stage_purge_subjects(self, rare, pattern, int(before_seq), int(keep))
        self.stage_prelude()
        staged = [
            row
            for row in self.staged_rows()
            if (everything or matches(row[2].subject, pattern))
            and not self.doomed.has(row[0], row[2].subject)
        ]
        end: i64 = before_seq if before_seq > 0 else self.staged_seq + 1
        if 0 < keep <= len(staged):
            end = min(end, staged[-int(keep)][0])
        elif keep > 0:
            end = min(end, keep_from(self.index, pattern, keep - len(staged), self.doomed))
        before = self.filling_messages
        self.count_out(end, pattern, staged)
        self.stage_record(PURGE, purge_body(self.staged_seq, before_seq, keep, pattern))
        self.doomed.purge(self.staged_position, end, pattern)
        if everything and keep == 0:
            self.staged_seq = max(self.staged_seq, before_seq - 1)
        return before - self.filling_messages

    def count_out(
        self, end: i64, pattern: bytes, staged: list[tuple[int, int, SubjectEntry]]
    ) -> None:
        """Take what a purge takes out off the counts, and off the last messages of subjects."""
        for staged_seq, staged_size, owner in staged:
            if staged_seq < end:
                self.filling_messages -= 1
                self.filling_bytes -= staged_size
                if 0 < owner.staged_last < end:
                    self.restage(owner, 0)
        index = self.index
        if end > index.last_seq and is_everything(pattern) and not self.doomed.any:
            self.filling_messages -= index.messages
            self.filling_bytes -= index.bytes
            for entry in index.entries:
                if 0 < entry.staged_last < end:
                    self.restage(entry, 0)
            return
        seq = matching_row(index, index.purged_below(pattern), end, pattern)
        while seq > 0:
            columns = index.segment_of(seq)
            assert columns is not None, "it was found there"
            i: i64 = seq - columns.base
            entry = index.entries[i64(columns.subjects[i])]
            if not (self.doomed.any and self.doomed.has(seq, entry.subject)):
                self.filling_messages -= 1
                self.filling_bytes -= columns.size_at(i)
            if 0 < entry.staged_last < end:
                self.restage(entry, 0)
            seq = matching_row(index, seq + 1, end, pattern)

    def staged_rows(self) -> list[tuple[int, int, SubjectEntry]]:
        """Sequence, size and subject of every message that is staged, from its record."""
        rows: list[tuple[int, int, SubjectEntry]] = []
        blobs = [self.writer.getvalue()]
        if self.in_flight is not None:
            blobs.insert(0, self.in_flight.blob)
        for blob in blobs:
            at: i64 = 0
            while at < len(blob):
                if record_kind(blob, at) == MESSAGE:
                    entry = self.index.entry(blob[at + FIXED : subject_end(blob, at)])
                    length = headers_end(blob, at) - subject_end(blob, at)
                    size = self.codec.size_of(record_length(blob, at), length)
                    rows.append((int(record_sequence(blob, at)), int(size), entry))
                at += record_length(blob, at)
        return rows

    def staged_match(self, pattern: bytes) -> i64:
        """The newest message on its way whose subject matches; 0: none, -1: too many to look."""
        size: i64 = len(self.writer)
        if self.in_flight is not None:
            size += len(self.in_flight.blob)
        if size > STAGED_LOOKED_AT:
            return -1
        for seq, _, owner in reversed(self.staged_rows()):
            if matches(owner.subject, pattern):
                return seq
        return 0

    def last_not_doomed(self, entry: SubjectEntry) -> i64:
        """The newest message of a subject that decisions see; 0 when there is none."""
        if entry.staged_last > self.index.last_seq:
            for seq, _, owner in reversed(self.staged_rows()):
                if owner is entry and not self.doomed.has(seq, entry.subject):
                    return seq
        last = entry.last
        while last > 0 and self.doomed.has(last, entry.subject):
            last = self.index.previous_in_subject(entry, last)
        return last
