"""Deleting and purging: the records, what they do to an index, and what decisions see of them.

Bodies, in 64-bit words. The first word of each is the last sequence given out when the record was
staged: a copy of an old record that turns up elsewhere does not fit there (``replay.py``).

- delete range: as of, first sequence, last sequence
- purge: as of, before sequence (0: no bound), how many to keep, pattern (the rest; may be empty)

Both are applied at commit, and again at recovery. Until then they are an *overlay*: what is
about to go counts for no decision, and still shows to readers.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from jetspark.store.format.record import FIXED
from jetspark.store.log.columns import NOWHERE, Columns
from jetspark.store.log.index import StreamIndex
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal

# A search for the newest messages of a pattern looks at so many rows in a turn.
ROWS_PER_STEP: Final[i64] = 16_384


def delete_body(as_of: i64, first: i64, last: i64) -> bytes:
    """The body of a delete range record, with its CRLF."""
    body = BytesWriter()
    write_i64_le(body, as_of)
    write_i64_le(body, first)
    write_i64_le(body, last)
    body.write(b"\r\n")
    return body.getvalue()


def is_of_newest(data: bytes, at: i64) -> bool:
    """Say whether a delete range record is about the newest sequence alone.

    Then its time is that of the sequence: of a message that was deleted, or that nobody wanted.
    """
    as_of = read_i64_le(data, at + FIXED)
    first, last = read_i64_le(data, at + FIXED + 8), read_i64_le(data, at + FIXED + 16)
    return first == as_of and last == as_of


def purge_body(as_of: i64, before: i64, keep: i64, pattern: bytes) -> bytes:
    """The body of a purge record, with its CRLF."""
    body = BytesWriter()
    write_i64_le(body, as_of)
    write_i64_le(body, before)
    write_i64_le(body, keep)
    body.write(pattern)
    body.write(b"\r\n")
    return body.getvalue()


def is_everything(pattern: bytes) -> bool:
    """Say whether a purge has no filter (nats-server takes a full wildcard for none)."""
    return pattern == b"" or pattern == b">"  # noqa: PLR1714 - a set would be boxed


def delete_range(index: StreamIndex, first: i64, last: i64) -> None:
    """Take out every message from ``first`` to ``last``."""
    seq = index.next_seq(first, b"")
    while 0 < seq <= last:
        index.remove(seq)
        seq = index.next_seq(seq + 1, b"")


def purge(index: StreamIndex, before: i64, keep: i64, pattern: bytes) -> None:
    """Take out what matches: everything below ``before``, but the newest ``keep``."""
    end: i64 = before if before > 0 else index.last_seq + 1
    if keep > 0:
        end = min(end, keep_from(index, pattern, keep, PendingDeletions()))
    elif is_everything(pattern) and end > index.last_seq:
        index.clear()
        index.skip_to(end - 1)
        return
    seq = matching_row(index, index.purged_below(pattern), end, pattern)
    while seq > 0:
        index.remove(seq)
        seq = matching_row(index, seq + 1, end, pattern)
    index.note_purge(pattern, end)


def matching_row(index: StreamIndex, seq: i64, end: i64, pattern: bytes) -> i64:
    """The first message from ``seq`` on and before ``end`` of a purge's pattern; 0: none.

    It looks at each row in between: a purge of very many is cut into steps by sequence.
    """
    everything = is_everything(pattern)
    only: i64 = -1
    if not everything and is_literal(pattern):
        entry = index.subjects.get(pattern)
        if entry is None:
            return 0
        only = i64(entry.number)
    seq = max(seq, index.first_seq)
    n: i64 = max(i64(0), index.segment_at(seq))
    while n < i64(len(index.segments)):
        columns = index.segments[n]
        n += 1
        i: i64 = max(i64(0), seq - columns.base)
        stop: i64 = min(i64(len(columns.offsets)), end - columns.base)
        while i < stop:
            if columns.offsets[i] != NOWHERE:
                number = i64(columns.subjects[i])
                if everything or (
                    number == only
                    if only >= 0
                    else matches(index.entries[number].subject, pattern)
                ):
                    return columns.base + i
            i += 1
    return 0


class PendingDeletions:
    """What staged deletes and purges will take out; few at a time, and gone with their commit."""

    def __init__(self) -> None:
        self.any: bool = False
        self.deletes: dict[int, int] = {}  # sequence -> position of the record
        self.ranges: list[tuple[int, int, int]] = []  # position, first and last sequence
        self.purges: list[tuple[int, int, bytes]] = []  # position, everything below, pattern

    def copy(self) -> "PendingDeletions":
        """The same, to go another way from here."""
        other = PendingDeletions()
        other.any = self.any
        other.deletes = dict(self.deletes)
        other.ranges = list(self.ranges)
        other.purges = list(self.purges)
        return other

    def delete(self, position: i64, seq: i64) -> None:
        """A message goes with the record at a position."""
        self.any = True
        self.deletes[int(seq)] = int(position)

    def delete_range(self, position: i64, first: i64, last: i64) -> None:
        """Messages go with the record at a position."""
        self.any = True
        self.ranges.append((int(position), int(first), int(last)))

    def purge(self, position: i64, end: i64, pattern: bytes) -> None:
        """Matching messages below ``end`` go with the record at a position."""
        self.any = True
        self.purges.append((int(position), int(end), pattern))

    def has(self, seq: i64, subject: bytes) -> bool:
        """Say whether a message is about to go."""
        if int(seq) in self.deletes:
            return True
        for _, first, last in self.ranges:
            if first <= seq <= last:
                return True
        for _, end, pattern in self.purges:
            if seq < end and (is_everything(pattern) or matches(subject, pattern)):
                return True
        return False

    def settle(self, position: i64) -> None:
        """Records up to a position were applied."""
        self.deletes = {seq: at for seq, at in self.deletes.items() if at > position}
        self.ranges = [deletion for deletion in self.ranges if deletion[0] > position]
        self.purges = [deletion for deletion in self.purges if deletion[0] > position]
        self.any = len(self.deletes) > 0 or len(self.ranges) > 0 or len(self.purges) > 0


def keep_from(index: StreamIndex, pattern: bytes, keep: i64, pending: PendingDeletions) -> i64:
    """Sequence of the oldest of the newest ``keep`` matching messages; 0 when they are fewer.

    Messages of pending removals do not count.
    """
    search = KeepSearch(index, pattern, keep, index.last_seq)
    while not search.step(pending, ROWS_PER_STEP):
        pass
    return search.end


class KeepSearch:
    """Finds from which sequence on a stream has so many messages of a pattern, newest first.

    Some rows at a time, from ``last`` down: what comes meanwhile is not counted, and neither is
    what goes before it comes by.
    """

    def __init__(self, index: StreamIndex, pattern: bytes, keep: i64, last: i64) -> None:
        self.index: StreamIndex = index
        self.pattern: bytes = pattern
        self.everything: bool = is_everything(pattern)
        self.left: i64 = keep
        self.seq: i64 = last
        # The oldest message to keep; 0 when there are fewer.
        self.end: i64 = 0

    def step(self, pending: PendingDeletions, rows: i64) -> bool:
        """Look at so many rows; True when it is known. Pending removals do not count."""
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
        """Say whether the message of a row is one of those to keep."""
        subject = self.index.entries[i64(columns.subjects[i])].subject
        if not self.everything and not matches(subject, self.pattern):
            return False
        return not (pending.any and pending.has(columns.base + i, subject))
