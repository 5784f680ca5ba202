"""Staging: decisions become records of the group that fills (contracts.md 1).

What is staged has a sequence and a position at once and shows to nobody who reads. Decisions see
it: ``staged_seq``, ``staged_messages``, ``staged_bytes``, ``SubjectEntry.staged_last``. Staged
state is an overlay over durable state, so dropping it is forgetting it.
"""

from pathlib import Path

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from jetspark.errors.storage import StoreReadOnly
from jetspark.store.columns import NOWHERE, SubjectEntry
from jetspark.store.files import Files
from jetspark.store.limits import Limits
from jetspark.store.manifest import Identity
from jetspark.store.reader import LogReader
from jetspark.store.record import (
    CONFIGURATION,
    DELETE_RANGE,
    FIXED,
    GROUP_FIRST,
    MESSAGE,
    PURGE,
    SKIP,
    headers_end,
    record_kind,
    record_length,
    record_sequence,
    stored_size,
    subject_end,
)
from jetspark.store.removal import Doomed, delete_body, is_everything, keep_from, purge_body
from jetspark.subjects.match import matches


class Group:
    """The records of one synced write, on their way to the disk."""

    def __init__(
        self,
        handle: i64,
        offset: i64,
        blob: bytes,
        entries: list[SubjectEntry],
        last_position: i64,
        filler: bytes = b"",
    ) -> None:
        self.handle: i64 = handle
        self.offset: i64 = offset
        self.blob: bytes = blob
        # Written behind the blob, in the same write (segment.py).
        self.filler: bytes = filler
        self.entries: list[SubjectEntry] = entries
        self.last_position: i64 = last_position


class Staging(LogReader):
    """The part of a log that decisions talk to."""

    def __init__(self, files: Files, folder: Path, identity: Identity, cache_budget: int) -> None:
        super().__init__(files, folder, identity.stream_id, cache_budget)
        self.identity: Identity = identity
        self.staged_seq: i64 = 0
        self.staged_position: i64 = 0
        self.durable_position: i64 = 0
        self.staged_time: i64 = 0
        self.writer: BytesWriter = BytesWriter()
        self.entries: list[SubjectEntry] = []
        self.in_flight: Group | None = None
        # What the group that fills, and the one on its way, add to the counts.
        self.filling_messages: i64 = 0
        self.filling_bytes: i64 = 0
        self.flying_messages: i64 = 0
        self.flying_bytes: i64 = 0
        self.doomed: Doomed = Doomed()
        # In force; in the newest record that says so, durable or staged; and asked for.
        self.limits: Limits = Limits(0, 0, 0)
        self.staged_limits: Limits = self.limits
        self.wanted_limits: Limits = self.limits
        self.staged_document: bytes = bytes(identity.config)
        self.staged_revision: i64 = identity.revision
        # Records that must stand before the next one.
        self.skip_needed: bool = False
        self.limits_due: bool = False
        self.read_only: bool = False

    @property
    def staged_messages(self) -> i64:
        """How many messages there are with those on their way; evictions do not count yet."""
        return self.index.messages + self.flying_messages + self.filling_messages

    @property
    def staged_bytes(self) -> i64:
        """What those messages count."""
        return self.index.bytes + self.flying_bytes + self.filling_bytes

    # Messages ----------------------------------------------------------------------------------

    def stage_message(self, subject: bytes, headers_length: i64, tail: bytes, now: i64) -> i64:
        """Decide that a message is in the stream; returns its sequence. Not durable yet.

        ``tail`` is headers, body and CRLF as they arrived. No two messages of a stream have the
        same time. Raises StoreReadOnly after a failed write, and ValueError, with nothing staged,
        for what a record cannot hold.
        """
        if self.read_only or self.skip_needed or self.limits_due:
            self.stage_prelude()
        time = max(self.staged_time + 1, now)
        seq = self.staged_seq + 1
        flags: i64 = 0
        if len(self.writer) == 0:
            flags = GROUP_FIRST
        total = self.codec.encode(
            self.writer, seq, time, MESSAGE, flags, subject, headers_length, tail
        )
        entry = self.index.entry(subject)
        entry.staged_last = seq
        self.entries.append(entry)
        self.staged_time = time
        self.staged_seq = seq
        self.staged_position += 1
        self.filling_messages += 1
        self.filling_bytes += stored_size(total, headers_length)
        return seq

    def stage_prelude(self) -> None:
        """Stage what has to stand before the next record."""
        if self.read_only:
            raise StoreReadOnly(f"{self.folder} takes no writes until it was opened again")
        if self.skip_needed:
            self.stage_skip(b"")
        if self.limits_due:
            self.stage_current(self.staged_document)

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
        self.stage_record(SKIP, body.getvalue())

    def stage_record(self, kind: i64, body: bytes) -> None:
        """Put a record that is not a message into the group; ``body`` has its CRLF."""
        flags: i64 = 0
        if len(self.writer) == 0:
            flags = GROUP_FIRST
        self.codec.encode(self.writer, 0, self.staged_time, kind, flags, b"", 0, body)
        self.staged_position += 1

    # Removal -----------------------------------------------------------------------------------

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
            entry.staged_last = self.last_not_doomed(entry)
        return True

    def stage_purge(self, before_seq: i64, pattern: bytes, keep: i64) -> i64:
        """Decide that messages go: those below ``before_seq``, all but the newest ``keep``.

        0 stands for no bound, an empty pattern for every subject. Returns how many go; messages
        on their way to the disk count, and so do those that they will evict. A bound beyond the
        end, without a pattern, moves the end there.
        """
        self.stage_prelude()
        everything = is_everything(pattern)
        mask = b"" if everything else self.index.mask_for(pattern)
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
            end = min(end, keep_from(self.index, mask, keep - len(staged), self.doomed))
        before = self.filling_messages
        self.count_out(end, mask, staged)
        self.stage_record(PURGE, purge_body(self.staged_seq, before_seq, keep, pattern))
        for entry in self.index.entries:
            if 0 < entry.staged_last < end and (everything or matches(entry.subject, pattern)):
                entry.staged_last = 0
        self.doomed.purge(self.staged_position, end, pattern)
        if everything and keep == 0:
            self.staged_seq = max(self.staged_seq, before_seq - 1)
        return before - self.filling_messages

    def count_out(
        self, end: i64, mask: bytes, staged: list[tuple[int, int, SubjectEntry]]
    ) -> None:
        """Take what a purge takes out off the counts."""
        for staged_seq, staged_size, _ in staged:
            if staged_seq < end:
                self.filling_messages -= 1
                self.filling_bytes -= staged_size
        index = self.index
        if end > index.last_seq and len(mask) == 0 and not self.doomed.any:
            self.filling_messages -= index.messages
            self.filling_bytes -= index.bytes
            return
        seq = index.next_seq(1, mask)
        while 0 < seq < end:
            columns = index.segment_of(seq)
            assert columns is not None, "it was found there"
            i: i64 = seq - columns.base
            entry = index.entries[i64(columns.subjects[i])]
            if not (self.doomed.any and self.doomed.has(seq, entry.subject)):
                self.filling_messages -= 1
                self.filling_bytes -= columns.size_at(i)
            seq = index.next_seq(seq + 1, mask)

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
                    size = stored_size(record_length(blob, at), length)
                    rows.append((int(record_sequence(blob, at)), int(size), entry))
                at += record_length(blob, at)
        return rows

    def last_not_doomed(self, entry: SubjectEntry) -> i64:
        """The newest message of a subject that decisions see; 0 when there is none."""
        for seq, _, owner in reversed(self.staged_rows()):
            if owner is entry and not self.doomed.has(seq, entry.subject):
                return seq
        last = entry.last
        while last > 0 and self.doomed.has(last, entry.subject):
            last = self.index.previous_in_subject(entry, last)
        return last

    # Configuration -----------------------------------------------------------------------------

    def set_limits(self, max_msgs: i64, max_bytes: i64, max_per_subject: i64) -> None:
        """Keep no more than this from now on (0 or less: no limit); too much goes at once.

        The log says so before its next record, so replaying it takes the same out at the same
        place. While something is staged, the change is staged behind it, and forgotten when that
        fails.
        """
        self.wanted_limits = Limits(max_msgs, max_bytes, max_per_subject)
        if self.wanted_limits.equals(self.staged_limits):
            self.limits_due = False
        elif self.staged_position > self.durable_position and not self.read_only:
            self.stage_current(self.staged_document)
            return
        else:
            self.limits_due = True
        if self.staged_position == self.durable_position or self.read_only:
            self.limits = self.wanted_limits
            self.limits.enforce(self.index)

    def stage_configuration(self, document: bytes) -> None:
        """Decide that this is the stream's configuration, with the limits last set.

        Raises StoreReadOnly after a failed write.
        """
        self.stage_prelude()
        self.stage_current(document)

    def stage_current(self, document: bytes) -> None:
        """Stage a configuration record; ``StreamLog.apply_configuration`` says what is in it."""
        self.limits_due = False
        self.staged_limits = self.wanted_limits
        self.staged_document = document
        self.staged_revision += 1
        body = BytesWriter()
        write_i64_le(body, self.staged_seq)
        write_i64_le(body, self.staged_revision)
        write_i64_le(body, self.index.first_seq)
        write_i64_le(body, self.wanted_limits.max_msgs)
        write_i64_le(body, self.wanted_limits.max_bytes)
        write_i64_le(body, self.wanted_limits.max_per_subject)
        body.write(document)
        body.write(b"\r\n")
        self.stage_record(CONFIGURATION, body.getvalue())

    def forget_staged(self) -> None:
        """Nothing of what was staged will be durable."""
        groups = [self.entries]
        if self.in_flight is not None:
            groups.append(self.in_flight.entries)
        if self.doomed.any:
            groups.append(self.index.entries)
        for entries in groups:
            for entry in entries:
                entry.staged_last = entry.last
        self.index.forget_staged()
        self.writer = BytesWriter()
        self.entries = []
        self.in_flight = None
        self.filling_messages = 0
        self.filling_bytes = 0
        self.flying_messages = 0
        self.flying_bytes = 0
        self.doomed = Doomed()
        self.staged_position = self.durable_position
        self.staged_document = bytes(self.identity.config)
        self.staged_revision = self.identity.revision
        self.staged_limits = Limits(
            self.identity.max_msgs, self.identity.max_bytes, self.identity.max_per_subject
        )
        # Limits that were staged are forgotten too; those in force stay and are still to be said.
        self.wanted_limits = self.limits
        self.limits_due = not self.limits.equals(self.staged_limits)
