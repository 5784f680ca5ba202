"""Deletes and purges: their records, their effect on an index, and their staged overlay.

Bodies, in 64-bit words. The first word of each is the last sequence assigned when the record was
staged: a stale copy of a record elsewhere does not fit there (``replay.py``).

- delete range: as-of sequence, first sequence, last sequence
- purge: as-of sequence, before sequence (0: no bound), how many to keep, pattern (may be empty)

Both are applied at commit, and again at recovery. Until then they are an *overlay*: messages about
to be removed count for no decision, and are still visible to readers.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from jetspark.store.format.record import FIXED
from jetspark.store.log.columns import NOWHERE, Columns
from jetspark.store.log.index import PatternFlags, StreamIndex
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal

# Consumers recount once after this many messages were removed at once, not for each of them.
MANY: Final[i64] = 1024
# Of rows or subjects that a removal visits, or compares with a staged purge, this many cost a unit
# of a turn (turn.py); and of subjects that it compares with a pattern for the first time.
VISITED_PER_UNIT: Final[i64] = 32
COMPARED_PER_UNIT: Final[i64] = 8
# A search for the newest messages of a pattern visits this many rows per turn.
ROWS_PER_STEP: Final[i64] = 16_384


def delete_body(as_of: i64, first: i64, last: i64) -> bytes:
    """Return the body of a delete range record, with its CRLF."""
    body = BytesWriter()
    write_i64_le(body, as_of)
    write_i64_le(body, first)
    write_i64_le(body, last)
    body.write(b"\r\n")
    return body.getvalue()


def is_of_newest(data: bytes, at: i64) -> bool:
    """Return whether a delete range record covers the newest sequence alone.

    Then its time is that of the sequence: of a deleted message, or of one without interest.
    """
    as_of = read_i64_le(data, at + FIXED)
    first, last = read_i64_le(data, at + FIXED + 8), read_i64_le(data, at + FIXED + 16)
    return first == as_of and last == as_of


def purge_body(as_of: i64, before: i64, keep: i64, pattern: bytes) -> bytes:
    """Return the body of a purge record, with its CRLF."""
    body = BytesWriter()
    write_i64_le(body, as_of)
    write_i64_le(body, before)
    write_i64_le(body, keep)
    body.write(pattern)
    body.write(b"\r\n")
    return body.getvalue()


def is_everything(pattern: bytes) -> bool:
    """Return whether a purge has no filter (nats-server treats a full wildcard as none)."""
    return pattern == b"" or pattern == b">"  # noqa: PLR1714 - a set would be boxed


def delete_range(index: StreamIndex, first: i64, last: i64) -> None:
    """Remove every message from ``first`` to ``last``."""
    seq = index.next_seq(first, b"")
    while 0 < seq <= last:
        index.remove(seq)
        seq = index.next_seq(seq + 1, b"")


def purge(index: StreamIndex, before: i64, keep: i64, pattern: bytes) -> None:
    """Remove matching messages: everything below ``before``, except the newest ``keep``."""
    end: i64 = before if before > 0 else index.last_seq + 1
    if keep > 0:
        end = min(end, keep_from(index, pattern, keep, PendingDeletions()))
    elif is_everything(pattern) and end > index.last_seq:
        index.clear()
        index.skip_to(end - 1)
        return
    elif concerns_all(index, pattern) and index.clear_below(end):
        index.note_purge(pattern, end)
        return
    index.count_visited(scan_units(index, 0))
    rows = MatchingRows(index, index.purged_below(pattern), end, pattern)
    before_it = index.messages
    seq = rows.next()
    while seq > 0:
        index.remove(seq)
        seq = rows.next()
    if index.tracking and before_it - index.messages > MANY:
        index.want_recount()
    index.note_purge(pattern, end)


def scan_units(index: StreamIndex, more: i64) -> i64:
    """Return what it costs at most to visit all rows, and ``more``, with a pattern, in units."""
    rows = (index.rows() + more) // VISITED_PER_UNIT
    return rows + i64(len(index.entries)) // COMPARED_PER_UNIT


def concerns_all(index: StreamIndex, pattern: bytes) -> bool:
    """Return whether all messages match: without a filter, or with one subject, the filter."""
    if is_everything(pattern):
        return True
    entry = index.subjects.get(pattern)
    return entry is not None and i64(entry.count) == index.messages and is_literal(pattern)


class MatchingRows:
    """The messages of a purge: those from ``seq`` on and before ``end`` that match, in order.

    Visits each row in between: a purge of very many is split into steps by sequence. The caller
    may remove the message that it got.
    """

    def __init__(self, index: StreamIndex, seq: i64, end: i64, pattern: bytes) -> None:
        self.index: StreamIndex = index
        self.end: i64 = end
        self.everything: bool = is_everything(pattern)
        # The id of a literal subject, or the flags of a pattern.
        self.only: i64 = -1
        self.flags: PatternFlags = index.flags
        if not self.everything and is_literal(pattern):
            entry = index.subjects.get(pattern)
            if entry is None:
                self.end = 0
            else:
                self.only = i64(entry.id)
        elif not self.everything:
            self.flags = index.flags_of(pattern)
        self.seq: i64 = max(seq, index.first_seq)
        self.segment: i64 = max(i64(0), index.segment_at(self.seq))

    def next(self) -> i64:
        """Return the next message; 0 if none is left."""
        index = self.index
        while self.segment < i64(len(index.segments)):
            columns = index.segments[self.segment]
            if columns.base >= self.end:
                return 0
            i: i64 = max(i64(0), self.seq - columns.base)
            stop: i64 = min(i64(len(columns.offsets)), self.end - columns.base)
            while i < stop:
                if columns.offsets[i] != NOWHERE and self.is_wanted(i64(columns.subjects[i])):
                    self.seq = columns.base + i + 1
                    return columns.base + i
                i += 1
            self.segment += 1
        return 0

    def is_wanted(self, subject_id: i64) -> bool:
        """Return whether messages of a subject are purged."""
        if self.only >= 0:
            return subject_id == self.only
        return self.everything or self.flags.match(subject_id, self.index.entries)


class PendingDeletions:
    """The messages that staged deletes and purges remove, until their commit.

    A group may have thousands of them: asking about one message takes no longer for that, unless
    the purges have very many patterns with wildcards.
    """

    def __init__(self) -> None:
        self.any: bool = False
        # Increases with every change but ``settle`` that may concern any subject. The subjects
        # that others concern, if someone counts the messages of subjects (``follow``).
        self.changes: i64 = 0
        self.followed: bool = False
        self.touched: list[bytes] = []
        self.deletes: dict[int, int] = {}  # sequence -> position of the record
        # Pattern (empty: everything) -> position of the last purge, everything below. Of several
        # purges of a pattern the farthest counts: what is below it was staged before it.
        self.purges: dict[bytes, tuple[int, int]] = {}
        # Those patterns that are not literal.
        self.wild: list[bytes] = []
        # The purges of the group in flight: pattern -> everything below.
        self.taken: dict[bytes, int] = {}
        # What the open batch changed: sequences, and purges as they were before.
        self.undo: Undo | None = None

    def follow(self, followed: bool) -> None:
        """Note, or stop noting, the subjects that removals concern."""
        self.followed = followed
        self.touched = []

    def take_touched(self) -> list[bytes]:
        """Return the subjects that removals concerned since the last call."""
        touched = self.touched
        self.touched = []
        return touched

    def note_change(self, subject: bytes) -> None:
        """Note that a removal concerns one subject; empty: perhaps any."""
        if not self.followed or len(subject) == 0:
            self.changes += 1
        else:
            self.touched.append(subject)

    def delete(self, position: i64, seq: i64, subject: bytes) -> None:
        """Add a message that the record at a position deletes."""
        self.any = True
        self.note_change(subject)
        self.deletes[int(seq)] = int(position)
        if self.undo is not None:
            self.undo.deletes.append(int(seq))

    def purge(self, position: i64, end: i64, pattern: bytes) -> None:
        """Add matching messages below ``end`` that the record at a position purges."""
        self.any = True
        self.note_change(pattern if is_literal(pattern) else b"")
        if is_everything(pattern):
            pattern = b""
        before = self.purges.get(pattern)
        if self.undo is not None:
            self.undo.purges.append((pattern, before))
        if before is None:
            self.purges[pattern] = (int(position), int(end))
            if len(pattern) > 0 and not is_literal(pattern):
                self.wild.append(pattern)
        else:
            self.purges[pattern] = (int(position), max(int(end), before[1]))

    def has(self, seq: i64, subject: bytes) -> bool:
        """Return whether a message is about to be removed."""
        if len(self.deletes) > 0 and int(seq) in self.deletes:
            return True
        if len(self.purges) == 0:
            return False
        if seq < self.below(b"") or seq < self.below(subject):
            return True
        for pattern in self.wild:
            if seq < self.below(pattern) and matches(subject, pattern):
                return True
        return False

    def group_taken(self) -> None:
        """Note that the group with these purges is in flight."""
        self.taken = {pattern: purge[1] for pattern, purge in self.purges.items()}

    def has_taken(self, seq: i64, subject: bytes, last_position: i64) -> bool:
        """Return whether the group in flight, which ends there, is about to remove a message."""
        if int(seq) in self.deletes:
            return i64(self.deletes[int(seq)]) <= last_position
        if seq < i64(self.taken.get(b"", 0)) or seq < i64(self.taken.get(subject, 0)):
            return True
        for pattern in self.wild:
            if seq < i64(self.taken.get(pattern, 0)) and matches(subject, pattern):
                return True
        return False

    def has_seq(self, index: StreamIndex, seq: i64) -> bool:
        """Return whether a durable message is about to be removed."""
        columns = index.segment_of(seq)
        if columns is None:
            return False
        return self.has(seq, index.entries[i64(columns.subjects[seq - columns.base])].subject)

    def below(self, pattern: bytes) -> i64:
        """Return the sequence below which exactly this pattern is about to be purged; 0: none."""
        found = self.purges.get(pattern)
        return 0 if found is None else i64(found[1])

    def purged_below(self, pattern: bytes) -> i64:
        """Return a sequence below which all messages of a pattern are about to be removed."""
        end = self.below(b"")
        if not is_everything(pattern):
            end = max(end, self.below(pattern))
        return end

    def settle(self, position: i64) -> None:
        """Forget records up to a position: they were applied."""
        self.deletes = {seq: at for seq, at in self.deletes.items() if at > position}
        self.keep_purges({key: purge for key, purge in self.purges.items() if purge[0] > position})
        self.taken = {}

    def keep_purges(self, purges: dict[bytes, tuple[int, int]]) -> None:
        """Forget all other purges."""
        if len(purges) < len(self.purges):
            self.wild = [pattern for pattern in self.wild if pattern in purges]
        self.purges = purges
        self.any = len(self.deletes) > 0 or len(purges) > 0

    # An atomic batch may be undone.

    def begin_batch(self) -> None:
        """Note what changes from now on."""
        self.undo = Undo()

    def end_batch(self) -> None:
        """Keep what changed since ``begin_batch``."""
        self.undo = None

    def abort_batch(self) -> None:
        """Undo what changed since ``begin_batch``."""
        undo = self.undo
        assert undo is not None, "a batch is open"
        self.undo = None
        self.changes += 1
        for seq in undo.deletes:
            self.deletes.pop(seq, None)
        purges = dict(self.purges) if undo.purges else self.purges
        for pattern, before in reversed(undo.purges):
            if before is None:
                purges.pop(pattern, None)
            else:
                purges[pattern] = before
        self.keep_purges(purges)


class Undo:
    """What an open batch changed of the pending deletions."""

    def __init__(self) -> None:
        self.deletes: list[int] = []
        self.purges: list[tuple[bytes, tuple[int, int] | None]] = []


def keep_from(
    index: StreamIndex,
    pattern: bytes,
    keep: i64,
    pending: PendingDeletions,
    evicted: set[int] | None = None,
) -> i64:
    """Return the oldest of the newest ``keep`` matching messages; 0 if there are fewer.

    Messages that are about to be removed or evicted do not count.
    """
    search = KeepSearch(index, pattern, keep, index.last_seq, evicted)
    while not search.step(pending, ROWS_PER_STEP):
        pass
    return search.end


class KeepSearch:
    """Finds the sequence from which on a stream has ``keep`` messages of a pattern, newest first.

    Visits some rows at a time, from ``last`` down: messages added meanwhile do not count, nor do
    those removed before it reaches them.
    """

    def __init__(
        self,
        index: StreamIndex,
        pattern: bytes,
        keep: i64,
        last: i64,
        evicted: set[int] | None = None,
    ) -> None:
        self.index: StreamIndex = index
        self.pattern: bytes = pattern
        # Messages that do not count, as staged ones are about to evict them.
        self.evicted: set[int] | None = evicted
        self.everything: bool = is_everything(pattern)
        self.left: i64 = keep
        self.seq: i64 = last
        # The oldest message to keep; 0 if there are fewer.
        self.end: i64 = 0

    def step(self, pending: PendingDeletions, rows: i64) -> bool:
        """Visit up to ``rows`` rows; True when finished. Pending deletions do not count."""
        index = self.index
        n: i64 = index.segment_at(self.seq)
        while n >= 0:
            columns = index.segments[n]
            i: i64 = min(self.seq - columns.base, i64(len(columns.offsets)) - 1)
            while i >= 0:
                if rows <= 0:
                    self.seq = columns.base + i
                    return False
                rows -= 1
                if columns.offsets[i] != NOWHERE and self.counts(columns, i, pending):
                    self.left -= 1
                    if self.left <= 0:
                        self.end = columns.base + i
                        return True
                i -= 1
            n -= 1
        return True

    def counts(self, columns: Columns, i: i64, pending: PendingDeletions) -> bool:
        """Return whether the message of a row is one of those to keep."""
        index = self.index
        subject_id = i64(columns.subjects[i])
        if not self.everything and not index.flags_of(self.pattern).match(
            subject_id, index.entries
        ):
            return False
        if self.evicted is not None and int(columns.base + i) in self.evicted:
            return False
        return not (
            pending.any and pending.has(columns.base + i, index.entries[subject_id].subject)
        )
