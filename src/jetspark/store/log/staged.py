"""Staged records: decided and not durable yet.

A decision becomes a record of the open group. It has a sequence and a position immediately, and no
reader sees it. Decisions see it: ``seq``, ``messages``, ``size``, ``SubjectEntry.staged_last``.

``Staged`` is an overlay over durable state (index, engine state, identity). When a write fails,
``drop`` removes its marks from the index and returns a fresh one with which the log continues. An
atomic batch remembers where it started, and ``abort_batch`` returns to there.
"""

from typing import Final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64
from xxhash import xxh3_64_digest

from jetspark.errors.storage import StoreReadOnly
from jetspark.store.format.manifest import Identity
from jetspark.store.format.record import (
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_MEMBER,
    CONFIGURATION,
    CONSUMER,
    CONSUMER_STATE,
    DELETE_RANGE,
    FAST_BATCH,
    FIXED,
    LARGE,
    MESSAGE,
    PURGE,
    SKIP,
    Codec,
    headers_end,
    record_kind,
    record_length,
    record_sequence,
    subject_end,
)
from jetspark.store.log.access import Access
from jetspark.store.log.columns import NOWHERE
from jetspark.store.log.deletion import (
    VISITED_PER_UNIT,
    MatchingRows,
    PendingDeletions,
    concerns_all,
    delete_body,
    is_everything,
    keep_from,
    purge_body,
    scan_units,
)
from jetspark.store.log.durability import Durability
from jetspark.store.log.engine_state import (
    SOURCE,
    EngineState,
    consumer_body,
    consumer_state_body,
    fast_batch_body,
)
from jetspark.store.log.group import Group, Parts
from jetspark.store.log.index import MATCHED_PER_UNIT, StreamIndex
from jetspark.store.log.limits import Limits, limits_of
from jetspark.store.log.preparation import Preparation
from jetspark.store.log.staged_rows import Row, StagedRows
from jetspark.store.log.subject_purge import rare_entries, subject_chains
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.store.log.timeline import Timeline
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal

FLAGS_AT: Final = 27  # the offset of the flags in a record
# At most this many staged messages are visited at once for the newest one of a pattern.
LOOKED_THROUGH: Final[i64] = 1_024
# A stream with this many subjects looks them up together when its group is taken, or when a
# decision needs one of them: alone, each of them waits for memory (``SubjectTable.get_many``).
LATE_FROM: Final[i64] = 16_384
LATE_TOGETHER: Final = 512
# The records of a group are copied in parts of this size: on a slow disk a group may have hundreds
# of megabytes, which its writer puts together (``Parts``).
PART: Final[i64] = 1024 * 1024
# Of staged messages, so many are read in one turn.
GATHERED_AT_ONCE: Final[i64] = 8_192
# So many are looked up in one turn at most: on a slow disk a group may have hundreds of thousands.
LATE_MAX: Final = 4_096
# What removals cost (turn.py), as a client may send thousands of rollups at once: reading a staged
# record, removing a message.
READ_UNITS: Final[i64] = 2
REMOVED_UNITS: Final[i64] = 1
# What a purge costs when it is applied, without the rows that it visits and removes.
PURGE_UNITS: Final[i64] = 16


class Staged:
    """The decisions of one log that are not durable yet, in up to two groups."""

    def __init__(
        self,
        index: StreamIndex,
        codec: Codec,
        timeline: Timeline,
        access: Access,
        durability: Durability,
        engine_state: EngineState,
        identity: Identity,
        seq: i64,
        time: i64,
    ) -> None:
        """Start at the durable end; ``seq`` and ``time`` were assigned last."""
        self.index: StreamIndex = index
        self.codec: Codec = codec
        self.timeline: Timeline = timeline
        self.access: Access = access
        self.durability: Durability = durability
        self.seq: i64 = seq
        self.position: i64 = index.position
        self.time: i64 = time
        # The open group, and the one that is being written.
        self.writer: BytesWriter = BytesWriter()
        # The earlier parts of the open group, if it contains a large message.
        self.parts: Parts | None = None
        self.entries: list[SubjectEntry] = []
        # The subjects of the last messages of the open group that were not looked up yet, and the
        # sequence of the first of them; the others follow without a gap.
        self.late: list[bytes] = []
        self.late_seq: i64 = 0
        self.in_flight: Group | None = None
        # What each of them adds to the counts.
        self.open_messages: i64 = 0
        self.open_bytes: i64 = 0
        self.in_flight_messages: i64 = 0
        self.in_flight_bytes: i64 = 0
        # What the purges of the open group cost when it is applied, in units of a turn.
        self.open_removals: i64 = 0
        self.deletions: PendingDeletions = PendingDeletions()
        # The messages in them that decisions see, once a removal asked; None: not known.
        self.seen: StagedRows | None = None
        self.gathering: Gathering | None = None
        # Consumers and fast batches: durable, and decided.
        self.durable_engine_state: EngineState = engine_state
        self.engine_state: EngineState = engine_state.copy()
        # The position of the last record that restates what an old segment contains.
        self.restated_position: i64 = 0
        # The atomic batch that is being staged, and the flags of its next record.
        self.batch: Batch | None = None
        self.batch_flags: i64 = 0
        # Whether the open group has a configuration.
        self.configures: bool = False
        # The configuration that was decided, and the limits in it.
        self.document: bytes = bytes(identity.config)
        self.revision: i64 = identity.revision
        self.limits: Limits = limits_of(identity)
        # The next record must be preceded by a skip over assigned sequences that must not be
        # reused.
        self.skip_needed: bool = seq > index.last_seq

    def drop(self, identity: Identity) -> "Staged":
        """Drop everything staged; return the ``Staged`` with which the log continues.

        Sequences and ids that were assigned are not assigned again.
        """
        # Nothing was noted in the index of subjects that were not looked up.
        staged = self.entries
        if self.in_flight is not None:
            staged = self.in_flight.entries + staged
        for entry in self.index.entries if self.deletions.any else staged:
            entry.unstage()
        self.index.forget_staged(staged)
        fresh = Staged(
            self.index,
            self.codec,
            self.timeline,
            self.access,
            self.durability,
            self.durable_engine_state,
            identity,
            self.seq,
            self.time,
        )
        fresh.engine_state.reserve_consumer_ids(self.last_consumer_id)
        return fresh

    @property
    def is_empty(self) -> bool:
        """Return whether all decisions are durable."""
        return self.position == self.index.position

    @property
    def is_idle(self) -> bool:
        """Return whether no group is open and none is being written."""
        return self.in_flight is None and self.open_size() == 0

    def open_size(self) -> i64:
        """Return the number of bytes in the open group."""
        size: i64 = len(self.writer)
        if self.parts is not None:
            size += self.parts.size
        return size

    def records(self) -> list[bytes]:
        """Return all staged records in order; of large ones perhaps only up to the body."""
        found: list[bytes] = []
        if self.in_flight is not None:
            found.extend(self.in_flight.records())
        if self.parts is not None:
            found.extend(self.parts.records())
        found.append(self.writer.getvalue())
        return found

    @property
    def has_messages(self) -> bool:
        """Return whether messages are staged."""
        return (
            len(self.entries) > 0
            or len(self.late) > 0
            or (self.in_flight is not None and len(self.in_flight.entries) > 0)
        )

    @property
    def messages(self) -> i64:
        """The number of messages including staged ones; evictions do not count yet."""
        return self.index.messages + self.in_flight_messages + self.open_messages

    @property
    def size(self) -> i64:
        """The accounted size of those messages."""
        return self.index.bytes + self.in_flight_bytes + self.open_bytes

    # Groups ------------------------------------------------------------------------------------

    def seal(
        self, handle: i64, offset: i64, filler: bytes, synced: bool, before: Preparation | None
    ) -> Group:
        """Turn the open group into the group in flight; it is written at this place."""
        self.look_up()
        blob = self.writer.getvalue()
        parts = self.parts
        if parts is not None:
            parts.add(blob)
            blob = b""
        group = Group(
            handle,
            offset,
            blob,
            self.entries,
            self.position,
            filler,
            synced,
            before,
            parts,
            self.seq,
        )
        self.writer = BytesWriter()
        self.parts = None
        self.entries = []
        group.note_removals(self.open_removals)
        if self.deletions.any:
            self.deletions.group_taken()
        self.in_flight_messages = self.open_messages
        self.in_flight_bytes = self.open_bytes
        self.open_messages = 0
        self.open_bytes = 0
        self.open_removals = 0
        self.configures = False
        self.in_flight = group
        return group

    def group_in_flight(self) -> Group:
        """Return the group in flight."""
        group = self.in_flight
        assert group is not None, "no group is in flight"
        return group

    def note_applied(self, messages: i64, size: i64) -> None:
        """Note that the index has so many messages of the group in flight, or lost them to it."""
        self.in_flight_messages -= messages
        self.in_flight_bytes -= size

    def forget_applied(self) -> None:
        """Forget the staged messages that the index has."""
        if self.seen is not None:
            self.seen.remove_to(int(self.index.last_seq))

    def note_unrecorded(self, seq: i64, subject: bytes, size: i64) -> None:
        """Note that the index loses a message, which a staged removal may have subtracted."""
        group = self.in_flight
        if group is not None and self.deletions.has_taken(seq, subject, group.last_position):
            self.in_flight_messages += 1
            self.in_flight_bytes += size
        elif self.deletions.has(seq, subject):
            self.open_messages += 1
            self.open_bytes += size

    def landed(self) -> None:
        """Note that the group in flight was applied: it is no longer staged."""
        group = self.group_in_flight()
        self.in_flight = None
        self.in_flight_messages = 0
        self.in_flight_bytes = 0
        if self.deletions.any:
            self.deletions.settle(group.last_position)
        if not self.deletions.any:
            # Until the next removal nothing asks for it, and keeping it costs each message.
            self.seen = None

    def hold(self, offset: i64) -> None:
        """Put an empty group in flight: no other is taken until ``release``."""
        assert self.in_flight is None, "a group needs the folder"
        self.in_flight = Group(-1, offset, b"", [], self.index.position)

    def release(self) -> None:
        """End ``hold``."""
        self.in_flight = None

    # Messages ----------------------------------------------------------------------------------

    def add_message(
        self,
        subject: bytes,
        headers_length: i64,
        tail: bytes,
        now: i64,
        body: bytes = b"",
        pieces: list[bytes] | None = None,
    ) -> i64:
        """Stage a message; returns its sequence. Not durable yet.

        ``tail`` is headers, body and CRLF as received; if the ``body`` arrived as a separate
        piece, it is the headers, and also if ``pieces`` are a large body and CRLF: those are not
        copied in a batch either, but end it only after ``next_is_last``. ``now`` is engine time.
        No two messages of a stream have the same time. Raises StoreReadOnly after a failed write,
        and ValueError, with nothing staged, for values that a record cannot hold.
        """
        if self.skip_needed or self.access.read_only:
            self.add_prelude()
        if len(self.writer) >= PART and self.batch is None:
            self.end_part()
        time = max(self.time + 1, now + self.timeline.lead)
        seq = self.seq + 1
        flags = self.batch_flags
        if len(self.writer) == 0 and self.parts is None:
            flags |= self.durability.group_flag
        if pieces is not None:
            tails = [tail, *pieces]
            total = self.add_parts(seq, time, flags, subject, headers_length, tails)
        elif len(body) > 0 or len(tail) >= LARGE:
            total = self.add_large(seq, time, flags, subject, headers_length, tail, body)
        else:
            total = self.codec.encode(
                self.writer, seq, time, MESSAGE, flags, subject, headers_length, tail
            )
        size = self.codec.size_of(total, headers_length)
        if (
            i64(len(self.index.entries)) >= LATE_FROM
            and not flags & BATCH_MEMBER
            and self.seen is None
        ):
            if len(self.late) == 0:
                self.late_seq = seq
            self.late.append(subject)
            if len(self.late) >= LATE_MAX:
                self.look_up()
        else:
            self.look_up()
            entry = self.index.entry(subject)
            if flags & BATCH_MEMBER:
                self.join_batch(total)
                self.restage(entry, seq)
            else:
                entry.staged_last = seq
            self.entries.append(entry)
            if self.seen is not None:
                self.seen.add(seq, size, entry)
        self.time = time
        self.seq = seq
        self.position += 1
        self.open_messages += 1
        self.open_bytes += size
        return seq

    def look_up(self) -> None:
        """Let decisions see the last messages of their subjects, which are looked up together."""
        if len(self.late) == 0:
            return
        late = self.late
        self.late = []
        seq = self.late_seq
        at = 0
        while at < len(late):
            for entry in self.index.entries_for(late[at : at + LATE_TOGETHER]):
                entry.staged_last = seq
                self.entries.append(entry)
                seq += 1
            at += LATE_TOGETHER

    def add_large(
        self,
        seq: i64,
        time: i64,
        flags: i64,
        subject: bytes,
        headers_length: i64,
        tail: bytes,
        body: bytes,
    ) -> i64:
        """Stage the record of a large message, if possible without a copy; return its length."""
        tails = [tail]
        if len(body) > 0:
            tails = [tail, body, b"\r\n"]
        if self.batch is not None:
            # A batch is one run of bytes, which may be rolled back.
            whole = b"".join(tails)
            return self.codec.encode(
                self.writer, seq, time, MESSAGE, flags, subject, headers_length, whole
            )
        return self.add_parts(seq, time, flags, subject, headers_length, tails)

    def add_parts(
        self,
        seq: i64,
        time: i64,
        flags: i64,
        subject: bytes,
        headers_length: i64,
        tails: list[bytes],
    ) -> i64:
        """Stage the record of a large message without a copy; return its length."""
        length: i64 = 0
        for part in tails:
            length += len(part)
        head = self.codec.encode_head(seq, time, MESSAGE, flags, subject, headers_length, length)
        self.end_part().add_large(head, tails)
        return record_length(head, 0)

    def end_part(self) -> Parts:
        """Make the records so far a part of the open group; return the parts."""
        parts = self.parts
        if parts is None:
            parts = self.parts = Parts(self.codec.seed)
        written = self.writer.getvalue()
        self.writer = BytesWriter()
        batch = self.batch
        if batch is not None and batch.mark is None:
            # What is from before the batch stays if it is aborted.
            parts.add(written[: int(batch.size)])
            batch.mark = parts.mark()
            written = written[int(batch.size) :]
        parts.add(written)
        return parts

    def add_prelude(self) -> None:
        """Stage the record that must precede the next one; raises StoreReadOnly."""
        if self.access.read_only:
            raise StoreReadOnly("the stream is read-only until it has been opened again")
        if self.skip_needed:
            self.add_skip(b"")

    def add_skip(self, more: bytes) -> None:
        """Stage a record that the sequences after the durable ones are not reused.

        Only when nothing else is staged. ``more`` is what recovery adds (``replay.py``).
        """
        self.skip_needed = False
        body = BytesWriter()
        write_i64_le(body, self.index.last_seq + 1)
        write_i64_le(body, self.seq)
        body.write(more)
        body.write(b"\r\n")
        self.add_record(SKIP, body.getvalue())

    def add_record(self, kind: i64, body: bytes) -> None:
        """Add a record that is not a message to the group; ``body`` has its CRLF."""
        self.look_up()
        flags = self.batch_flags
        if len(self.writer) == 0 and self.parts is None:
            flags |= self.durability.group_flag
        total = self.codec.encode(self.writer, 0, self.time, kind, flags, b"", 0, body)
        if flags & BATCH_MEMBER:
            self.join_batch(total)
        self.position += 1

    # Sequences ---------------------------------------------------------------------------------

    def skip_to(self, last: i64) -> None:
        """Stage that no sequence up to ``last`` is used any more. Raises StoreReadOnly."""
        if last <= self.seq:
            return
        self.add_prelude()
        body = BytesWriter()
        write_i64_le(body, self.seq + 1)
        write_i64_le(body, last)
        body.write(b"\r\n")
        self.seq = last
        self.add_record(SKIP, body.getvalue())

    def use_up(self, now: i64) -> i64:
        """Stage that a sequence is used without a message; returns it.

        The record is that of a delete: it has the last sequence assigned before it, and a time, as
        the record of a message would.
        """
        self.add_prelude()
        self.time = max(self.time + 1, now + self.timeline.lead)
        self.seq += 1
        seq = self.seq
        self.add_record(DELETE_RANGE, delete_body(seq, seq, seq))
        return seq

    def begin_after(self, seq: i64) -> None:
        """Start a new stream after this sequence; its configuration says so, without a record."""
        self.index.skip_to(seq)
        self.seq = seq

    def reuse_sequences(self) -> None:
        """Assign dropped sequences again, with the same times.

        For copies: the sequences are those of the origin, and the same messages get them.
        """
        self.seq = self.index.last_seq
        self.time = self.index.last_time
        self.skip_needed = False

    # Removals ----------------------------------------------------------------------------------

    def delete(self, seq: i64) -> bool:
        """Stage the deletion of a message; False if decisions see none (nothing is staged).

        Raises StoreReadOnly after a failed write.
        """
        size: i64 = 0
        entry: SubjectEntry | None = None
        columns = self.index.segment_of(seq)
        if columns is not None and columns.offsets[seq - columns.base] != NOWHERE:
            entry = self.index.entries[i64(columns.subjects[seq - columns.base])]
            size = columns.size_at(seq - columns.base)
        elif self.index.last_seq < seq <= self.seq:
            row = self.left_rows().by_seq.get(int(seq))
            if row is not None:
                entry = row[2]
                size = row[1]
        if entry is None or (self.deletions.any and self.deletions.has(seq, entry.subject)):
            return False
        self.add_prelude()
        self.add_record(DELETE_RANGE, delete_body(self.seq, seq, seq))
        self.note_deleted(seq, entry.subject)
        self.open_messages -= 1
        self.open_bytes -= size
        if entry.staged_last == seq:
            self.restage(entry, self.last_left(entry))
        return True

    def delete_range(self, first: i64, last: i64) -> i64:
        """Stage the deletion of ``first`` to ``last``; return how many decisions saw there.

        If none, nothing is staged. Raises StoreReadOnly after a failed write.
        """
        last = min(last, self.seq)  # later sequences are not affected
        rows: list[Row] = []
        if last > self.index.last_seq:
            rows = [row for row in self.left_rows().all() if first <= row[0] <= last]
        seq = self.index.next_seq(first, b"")
        while 0 < seq <= last:
            columns = self.index.segment_of(seq)
            assert columns is not None, "the row was found there"
            owner = self.index.entries[i64(columns.subjects[seq - columns.base])]
            rows.append((int(seq), int(columns.size_at(seq - columns.base)), owner))
            seq = self.index.next_seq(seq + 1, b"")
        if self.deletions.any:
            rows = [row for row in rows if not self.deletions.has(row[0], row[2].subject)]
        if not rows:
            return 0
        self.add_prelude()
        self.add_record(DELETE_RANGE, delete_body(self.seq, first, last))
        for removed, size, owner in rows:
            self.note_deleted(removed, owner.subject)
            self.open_messages -= 1
            self.open_bytes -= size
        for _, _, entry in rows:
            if first <= entry.staged_last <= last:
                self.restage(entry, self.last_left(entry))
        return len(rows)

    def note_deleted(self, seq: i64, subject: bytes) -> None:
        """Note that the record staged last deletes a message."""
        self.deletions.delete(self.position, seq, subject)
        if self.seen is not None:
            self.seen.remove(int(seq))

    def purge(self, before_seq: i64, pattern: bytes, keep: i64) -> i64:
        """Stage a purge: messages below ``before_seq``, all except the newest ``keep``.

        0 means no bound, an empty pattern every subject. Returns how many are removed; staged
        messages count, and so do those that they will evict, unless some are kept. A bound
        beyond the end, without a pattern, moves the end there.
        """
        everything = is_everything(pattern)
        rare = None if everything else rare_entries(self.index, pattern)
        if rare is not None:
            removed = self.purge_rare(rare, pattern, int(before_seq), int(keep))
            self.note_removals(removed, is_literal(pattern))
            return removed
        self.add_prelude()
        if everything and before_seq == 0 and keep == 0:
            return self.purge_all(pattern)
        end = self.purge_end(before_seq)
        if keep > 0 or everything:
            staged = self.left_rows_of(pattern)
        else:
            staged = self.left_rows_below(pattern, end)
        evicted: set[int] = set()
        if keep > 0:
            evicted = self.evicted_by(staged, int(self.seq))
            left = [row[0] for row in staged if row[0] not in evicted]
            if keep <= len(left):
                end = min(end, left[-int(keep)])
            else:
                more = keep - len(left)
                end = min(end, keep_from(self.index, pattern, more, self.deletions, evicted))
        before = self.open_messages
        self.count_out(end, pattern, staged)
        self.add_record(PURGE, purge_body(self.seq, before_seq, keep, pattern))
        self.deletions.purge(self.position, end, pattern)
        if everything and keep == 0:
            self.seq = max(self.seq, before_seq - 1)
        removed = before - self.open_messages
        self.note_removals(removed, False)
        return removed - len([seq for seq in evicted if seq < end])

    def evicted_by(self, staged: list[Row], last: int) -> set[int]:
        """Return what the limit per subject evicts of the subjects of staged messages.

        When those up to ``last`` are durable. A purge that keeps the newest messages does not
        count them: it would keep others than when its record is applied. Older ones that the
        limits of the whole stream evict make no difference to it.
        """
        limit = self.limits.max_per_subject
        found: set[int] = set()
        if limit <= 0:
            return found
        index, deletions = self.index, self.deletions
        visited: set[int] = set()
        for _, _, entry in staged:
            if int(entry.id) in visited:
                continue
            visited.add(int(entry.id))
            rows = [row for row in self.left_rows().of(entry) if row[0] <= last]
            over = len(rows) - limit
            over += self.durable_left(entry) if deletions.any else i64(entry.count)
            seq = entry.first if entry.count > 0 else 0
            while over > 0 and seq > 0:
                if not (deletions.any and deletions.has(seq, entry.subject)):
                    found.add(int(seq))
                    over -= 1
                seq = index.next_in_subject(seq)
            found.update(row[0] for row in rows[: int(max(over, i64(0)))])
        self.count_compared(len(found))
        return found

    def purge_all(self, pattern: bytes) -> i64:
        """Stage a purge of everything; return how many messages decisions saw."""
        self.look_up()
        removed = self.messages
        self.open_messages -= removed
        self.open_bytes -= self.size
        for entry in self.index.entries:
            if entry.staged_last > 0:
                self.restage(entry, 0)
        self.index.turn.spend(i64(len(self.index.entries)) // VISITED_PER_UNIT)
        self.add_record(PURGE, purge_body(self.seq, 0, 0, pattern))
        self.deletions.purge(self.position, self.seq + 1, pattern)
        self.seen = StagedRows()
        self.gathering = None
        self.note_removals(removed, True)
        return removed

    def note_removals(self, removed: i64, is_chain: bool) -> None:
        """Note what a purge costs when it is applied: a chain is followed, all else is visited."""
        self.open_removals += PURGE_UNITS + removed * REMOVED_UNITS
        if not is_chain:
            self.open_removals += scan_units(self.index, self.seq - self.index.last_seq)

    def purge_rare(
        self, entries: list[SubjectEntry], pattern: bytes, before: int, keep: int
    ) -> i64:
        """Stage a purge of a few subjects among many, along the chains of their messages."""
        self.add_prelude()
        index, deletions = self.index, self.deletions
        left: list[Row] = []
        for seq in subject_chains(index, entries, int(deletions.purged_below(pattern))):
            columns = index.segment_of(seq)
            assert columns is not None, "the row was found there"
            entry = index.entries[i64(columns.subjects[seq - columns.base])]
            if not (deletions.any and deletions.has(seq, entry.subject)):
                left.append((seq, int(columns.size_at(seq - columns.base)), entry))
        self.count_compared(len(left))
        staged = self.left_rows_of(entries[0].subject if len(entries) == 1 else pattern)
        left += staged
        end = self.purge_end(before)
        evicted: set[int] = set()
        if keep > 0:
            evicted = self.evicted_by(staged, int(self.seq))
            kept = [row[0] for row in left if row[0] not in evicted][-keep:]
            end = min(end, kept[0] if len(kept) == keep else 0)
        gone = [row for row in left if row[0] < end]
        self.take_out(gone)
        self.add_record(PURGE, purge_body(self.seq, before, keep, pattern))
        for entry in entries:
            if 0 < entry.staged_last < end:
                self.restage(entry, 0)
        deletions.purge(self.position, end, pattern)
        return len(gone) - len([seq for seq in evicted if seq < end])

    def purge_end(self, before_seq: i64) -> i64:
        """Return the end of a purge: messages that are staged after it stay, whatever it names."""
        return min(before_seq, self.seq + 1) if before_seq > 0 else self.seq + 1

    def take_out(self, rows: list[Row]) -> None:
        """Subtract these messages from the counts: a purge removes them."""
        seen = self.seen
        for seq, size, _ in rows:
            self.open_messages -= 1
            self.open_bytes -= size
            if seen is not None and seq > self.index.last_seq:
                seen.remove(seq)
        self.index.turn.spend(i64(len(rows)) * REMOVED_UNITS)

    def count_compared(self, rows: i64) -> None:
        """Count rows that were visited, and compared with the staged purges with wildcards."""
        compared = rows * (1 + i64(len(self.deletions.wild)))
        self.index.turn.spend(compared // VISITED_PER_UNIT)

    def count_out(self, end: i64, pattern: bytes, staged: list[Row]) -> None:
        """Subtract what a purge removes from the counts and from the last messages of subjects."""
        index = self.index
        deletions = self.deletions
        gone = [row for row in staged if row[0] < end]
        self.take_out(gone)
        for row in gone:
            if 0 < row[2].staged_last < end:
                self.restage(row[2], 0)
        # What an earlier purge removes is not visited again.
        first = max(index.purged_below(pattern), deletions.purged_below(pattern))
        if first > index.last_seq:
            return
        if end > index.last_seq and is_everything(pattern):
            # Decisions see nothing but the staged messages that are left.
            messages: i64 = len(staged) - len(gone)
            size: i64 = 0
            for row in staged[len(gone) :]:
                size += row[1]
            self.open_messages -= self.messages - messages
            self.open_bytes -= self.size - size
            for entry in index.entries:
                if 0 < entry.staged_last < end:
                    self.restage(entry, 0)
            self.count_compared(len(index.entries))
            return
        if end > index.last_seq and not deletions.any and concerns_all(index, pattern):
            self.open_messages -= index.messages
            self.open_bytes -= index.bytes
            entry = index.entry(pattern)
            if 0 < entry.staged_last < end:
                self.restage(entry, 0)
            return
        rows = MatchingRows(index, first, end, pattern)
        self.count_compared(index.rows())
        removed: i64 = 0
        seq = rows.next()
        while seq > 0:
            columns = index.segment_of(seq)
            assert columns is not None, "the row was found there"
            i: i64 = seq - columns.base
            entry = index.entries[i64(columns.subjects[i])]
            if not (deletions.any and deletions.has(seq, entry.subject)):
                self.open_messages -= 1
                self.open_bytes -= columns.size_at(i)
                removed += 1
            if 0 < entry.staged_last < end:
                self.restage(entry, 0)
            seq = rows.next()
        index.turn.spend(removed * REMOVED_UNITS)

    def left_rows(self) -> StagedRows:
        """Return the staged messages that decisions see."""
        self.look_up()
        seen = self.seen
        if seen is None:
            seen = StagedRows()
            deletions = self.deletions
            rows = self.rows()
            for seq, size, entry in rows:
                if not (deletions.any and deletions.has(seq, entry.subject)):
                    seen.add(seq, size, entry)
            self.index.turn.spend(i64(len(rows)) * READ_UNITS)
            self.count_compared(len(rows))
            self.seen = seen
        return seen

    def must_gather(self) -> bool:
        """Return whether ``left_rows`` would read very many records: first ``gather_some``."""
        return self.seen is None and self.seq - self.index.last_seq > GATHERED_AT_ONCE

    def gather_some(self) -> bool:
        """Read some of the staged messages, in one turn; True when ``left_rows`` has the rest."""
        if not self.must_gather():
            self.gathering = None
            return True
        gathering = self.gathering
        if gathering is None:
            gathering = self.gathering = Gathering(self)
        if not gathering.step(GATHERED_AT_ONCE):
            return False
        self.seen = gathering.rows
        self.gathering = None
        return True

    def left_rows_of(self, pattern: bytes) -> list[Row]:
        """Return those whose subjects match a pattern, oldest first."""
        if len(pattern) > 0 and is_literal(pattern):
            self.look_up()
            known = self.index.known(pattern)
            if known is None or known.staged_last <= self.index.last_seq:
                return []
            return self.left_rows().of(known)
        seen = self.left_rows()
        if is_everything(pattern):
            return seen.all()
        self.count_compared(len(seen.by_subject))
        return seen.matching(pattern)

    def left_rows_below(self, pattern: bytes, end: i64) -> list[Row]:
        """Return those below a sequence whose subjects match a pattern, oldest first."""
        if end <= self.index.last_seq + 1:
            return []
        if end > self.seq or is_literal(pattern):
            return self.left_rows_of(pattern)
        below = self.left_rows().below(int(end))
        self.count_compared(len(below))
        return [row for row in below if matches(row[2].subject, pattern)]

    def rows(self) -> list[Row]:
        """Return sequence, size and subject of every staged message, from its record."""
        rows: list[Row] = []
        durable = self.index.last_seq
        for blob in self.records():
            at: i64 = 0
            while at < len(blob):
                if record_kind(blob, at) == MESSAGE and record_sequence(blob, at) > durable:
                    rows.append(self.row(blob, at))
                at += record_length(blob, at)
        return rows

    def row(self, blob: bytes, at: i64) -> Row:
        """Return sequence, size and subject of a message, from its record."""
        entry = self.index.entry(blob[at + FIXED : subject_end(blob, at)])
        length = headers_end(blob, at) - subject_end(blob, at)
        size = self.codec.size_of(record_length(blob, at), length)
        return int(record_sequence(blob, at)), int(size), entry

    def staged_entries(self) -> list[list[SubjectEntry]]:
        """Return the subjects of all staged messages, in order, in one or two lists."""
        if self.in_flight is None:
            return [self.entries]
        return [self.in_flight.entries, self.entries]

    def newest_match(self, pattern: bytes) -> i64:
        """Return the newest staged message that matches; 0: none, -1: too many to visit.

        Not with staged removals: of a subject whose newest message is removed, an older one may be
        left.
        """
        self.look_up()
        rows = LOOKED_THROUGH
        found: i64 = 0
        for entries in reversed(self.staged_entries()):
            i: i64 = len(entries)
            while i > 0 and found == 0:
                i -= 1
                rows -= 1
                if matches(entries[i].subject, pattern):
                    found = entries[i].staged_last
                elif rows == 0:
                    found = -1
        self.index.turn.spend((LOOKED_THROUGH - rows) // MATCHED_PER_UNIT)
        # The group in flight may be applied already up to there.
        return 0 if 0 < found <= self.index.last_seq else found

    def last_left(self, entry: SubjectEntry) -> i64:
        """Return the newest message of a subject that decisions see; 0 if none."""
        if entry.staged_last > self.index.last_seq:
            newest = self.left_rows().last_of(entry)
            if newest > 0:
                return newest
        last = entry.last
        if last < self.deletions.purged_below(entry.subject):
            return 0
        while last > 0 and self.deletions.has(last, entry.subject):
            last = self.index.previous_in_subject(entry, last)
        return last

    # Batches -----------------------------------------------------------------------------------

    # An atomic batch (ADR-50) is one run of records, all or nothing. Every record of the run has
    # the flag ``BATCH_MEMBER``, its first one ``BATCH_FIRST``, its last one ``BATCH_LAST``. A
    # group is never split inside a run, so a run is in one synced write and in one segment, and
    # recovery drops an incomplete run of the last write (``replay.py``).

    def durable_left(self, entry: SubjectEntry) -> i64:
        """Return how many durable messages of a subject no staged removal concerns."""
        count: i64 = 0
        seq = entry.first if entry.count > 0 else 0
        while seq > 0:
            if not self.deletions.has(seq, entry.subject):
                count += 1
            seq = self.index.next_in_subject(seq)
        self.count_compared(i64(entry.count))
        return count

    def begin_batch(self) -> None:
        """Start a batch: what is staged from now on becomes durable together or not at all.

        No group is taken before ``end_batch`` or ``abort_batch``. Raises StoreReadOnly.
        """
        if self.batch is not None:
            raise ValueError("a batch is being staged already; end or abort it first")
        self.look_up()
        self.add_prelude()
        self.batch = Batch(self)
        self.deletions.begin_batch()
        self.batch_flags = BATCH_MEMBER | BATCH_FIRST

    def next_is_last(self) -> None:
        """Announce that the next record ends the batch: ``end_batch`` need not rewrite it."""
        self.batch_flags |= BATCH_LAST

    def end_batch(self) -> None:
        """Complete the batch: mark its last record, unless that was announced."""
        batch = self.current_batch()
        at = batch.last_at
        assert at >= -1 or batch.announced, "a large record has to be announced as the last one"
        if at >= 0 and not int(self.writer[at + FLAGS_AT]) & BATCH_LAST:
            record = bytearray(self.writer.getvalue()[at:])
            record[FLAGS_AT] |= int(BATCH_LAST)
            checked = bytes(record[8:-8])
            self.writer.truncate(at)
            self.writer.write(
                bytes(record[:8]) + checked + xxh3_64_digest(checked, self.codec.seed)
            )
        self.deletions.end_batch()
        self.batch = None
        self.batch_flags = 0

    def abort_batch(self) -> None:
        """Drop everything staged since ``begin_batch``, with its sequences: nothing saw it."""
        batch = self.current_batch()
        if batch.mark is None:
            self.writer.truncate(batch.size)
        else:
            self.writer = BytesWriter()
            if self.parts is not None:
                self.parts.cut(batch.mark)
                if self.parts.size == 0:
                    self.parts = None
        del self.entries[batch.entries :]
        for entry, before in reversed(batch.changed):
            entry.stage(before)
        self.seq = batch.seq
        self.time = batch.time
        self.position = batch.position
        self.open_messages = batch.messages
        self.open_bytes = batch.bytes
        self.open_removals = batch.removals
        self.deletions.abort_batch()
        self.seen = None
        self.batch = None
        self.batch_flags = 0

    def current_batch(self) -> "Batch":
        """Return the batch that is being staged."""
        if self.batch is None:
            raise ValueError("no batch is being staged; begin one first")
        return self.batch

    def join_batch(self, total: i64) -> None:
        """Add the record just encoded, of this length, to the batch."""
        assert self.batch is not None, "only a batch sets flags"
        # Far below zero for a large record in parts: it is not in the writer.
        self.batch.last_at = len(self.writer) - total
        self.batch.announced = bool(self.batch_flags & BATCH_LAST)
        self.batch_flags = BATCH_MEMBER

    def restage(self, entry: SubjectEntry, seq: i64) -> None:
        """Set the last message of a subject that decisions see."""
        if self.batch is not None:
            self.batch.changed.append((entry, int(entry.staged_last)))
        entry.stage(seq)

    # Consumers and fast batches ----------------------------------------------------------------

    @property
    def last_consumer_id(self) -> int:
        """The highest consumer id ever, staged or durable; ids are never reused."""
        return max(self.durable_engine_state.last_consumer_id, self.engine_state.last_consumer_id)

    def set_consumer(self, consumer_id: i64, document: bytes) -> None:
        """Stage the document of a consumer; an empty one deletes it. Raises StoreReadOnly."""
        self.add_entry(CONSUMER, consumer_body(self.seq, consumer_id, document))

    def set_consumer_state(self, consumer_id: i64, whole: bool, body: bytes) -> None:
        """Stage the state of a consumer, or a change of it. Raises StoreReadOnly."""
        self.add_entry(CONSUMER_STATE, consumer_state_body(self.seq, consumer_id, whole, body))

    def set_fast_batch(self, batch_id: bytes, body: bytes) -> None:
        """Stage the state of a fast batch; empty: it is over. Raises StoreReadOnly."""
        self.add_entry(FAST_BATCH, fast_batch_body(self.seq, batch_id, body))

    def set_source(self, key: bytes, state: bytes) -> None:
        """Stage the progress of a source; empty: it was removed. Raises StoreReadOnly."""
        self.set_fast_batch(SOURCE + key, state)

    def add_entry(self, kind: i64, body: bytes) -> None:
        """Stage a record of the engine state; ``body`` without its CRLF."""
        self.add_prelude()
        self.add_record(kind, body + b"\r\n")
        self.engine_state.apply(int(kind), body, "")

    def restate(self, segment: str) -> None:
        """Stage again what would be lost with a segment; one attempt at a time."""
        if self.index.position >= self.restated_position and self.batch is None:
            restated = self.durable_engine_state.restated(
                segment, int(self.seq), self.engine_state
            )
            # A part of it would undo durable changes: all or nothing.
            self.begin_batch()
            for kind, body in restated:
                self.add_entry(kind, body)
            self.end_batch()
            self.restated_position = self.position

    # Configuration -----------------------------------------------------------------------------

    def configure(self, document: bytes, limits: Limits | None = None) -> None:
        """Stage a configuration, with other limits or the same ones.

        Limits evict when the record is applied, as at replay, and not before: a change that cannot
        be written removes nothing. Raises StoreReadOnly after a failed write.
        """
        self.add_prelude()
        if limits is not None:
            self.limits = limits
        self.add_configuration(document)

    def add_configuration(self, document: bytes) -> None:
        """Stage a configuration record with the limits.

        Its body: as-of sequence, revision, first sequence, three limits, document. Messages below
        the first sequence were removed for reasons that are not recorded, such as their age. What
        evicted others must not be lost while this is kept: it is synced before (``configures``).
        """
        self.configures = True
        self.document = document
        self.revision += 1
        body = BytesWriter()
        write_i64_le(body, self.seq)
        write_i64_le(body, self.revision)
        write_i64_le(body, self.index.first_seq)
        write_i64_le(body, self.limits.max_msgs)
        write_i64_le(body, self.limits.max_bytes)
        write_i64_le(body, self.limits.max_per_subject)
        body.write(document)
        body.write(b"\r\n")
        self.add_record(CONFIGURATION, body.getvalue())

    def restate_configuration(self) -> None:
        """Stage the decided configuration again."""
        self.add_configuration(self.document)


class Batch:
    """An atomic batch that is being staged, and the state before it."""

    def __init__(self, staged: Staged) -> None:
        self.size: i64 = len(staged.writer)
        self.entries: int = len(staged.entries)
        self.seq: i64 = staged.seq
        self.time: i64 = staged.time
        self.position: i64 = staged.position
        self.messages: i64 = staged.open_messages
        self.bytes: i64 = staged.open_bytes
        self.removals: i64 = staged.open_removals
        # Where the last record of the batch starts so far, and whether it was announced as that.
        self.last_at: i64 = -1
        self.announced: bool = False
        # What the parts of the group were before it; None: it has none of its own.
        self.mark: tuple[int, int, int] | None = None
        # Subjects and their newest staged messages before the change, in order of the changes.
        self.changed: list[tuple[SubjectEntry, int]] = []


class Gathering:
    """Reads very many staged messages in steps; those that are staged meanwhile come last."""

    def __init__(self, staged: Staged) -> None:
        self.rows: StagedRows = StagedRows()
        self._staged: Staged = staged
        self._blobs: list[bytes] = staged.records()
        # The last sequence that was assigned when they were taken, perhaps not to a message.
        self._taken_seq: i64 = staged.seq
        self._n: int = 0
        self._at: i64 = 0
        # The last message that was read.
        self._seq: i64 = 0

    def step(self, most: i64) -> bool:
        """Read up to so many records; True when ``rows`` has all that decisions see."""
        staged = self._staged
        # Before a subject that has no message any more may lose its id to another one.
        self.rows.remove_to(int(staged.index.last_seq))
        self.read(most)
        if self._n < len(self._blobs):
            return False
        is_behind = staged.seq - self._taken_seq > most
        self._blobs = staged.records()
        self._taken_seq = staged.seq
        self._n = 0
        self._at = 0
        if is_behind:
            return False
        self.read(1 << 62)
        return True

    def read(self, most: i64) -> None:
        """Read up to so many messages; records of others and of known ones cost little."""
        staged = self._staged
        deletions = staged.deletions
        durable = staged.index.last_seq
        left = most * 16
        while self._n < len(self._blobs) and left > 0:
            blob = self._blobs[self._n]
            at = self._at
            end: i64 = len(blob)
            while at < end and left > 0:
                left -= 1
                seq = record_sequence(blob, at)
                if record_kind(blob, at) == MESSAGE and seq > max(self._seq, durable):
                    self._seq = seq
                    left -= 15
                    row = staged.row(blob, at)
                    if not (deletions.any and deletions.has(seq, row[2].subject)):
                        self.rows.add(seq, row[1], row[2])
                at += record_length(blob, at)
            self._at = at
            if at >= end:
                self._n += 1
                self._at = 0
