"""The in-memory index of a stream: columns by sequence and one entry per subject.

Columns, not objects: per message an offset, its subject id, its accounted size, and the next
sequence of the same subject, kept per segment so that they are dropped with the segment.
Everything here is durable state except ``SubjectEntry.staged_last``, which decisions read before
the disk has confirmed; ``Staged`` sets it, and here it only moves off a message that is removed.

A removed message leaves a hole: its offset becomes ``NOWHERE``. The rest of its row is kept, so
that the chain of its subject still leads across it.
"""

from typing import Final

from librt.vecs import append, extend, pop, vec
from mypy_extensions import i32, i64, u8

from jetspark.store.log.columns import HOLES_MAX, NOWHERE, Columns
from jetspark.store.log.subject_order import (
    DEALING,
    DEALT,
    LOOKED_AT,
    MADE,
    NOT_MADE,
    SAMPLE_MAX,
    SubjectOrder,
)
from jetspark.store.log.subject_table import SubjectEntry, SubjectTable
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal
from jetspark.turn import UNITS_PER_TURN, Turn

__all__ = ["NOWHERE", "Columns", "StreamIndex", "SubjectEntry"]

# Ids of subjects without messages are reused when there are at least this many.
EMPTY_SUBJECTS_MIN: Final[i64] = 4096
# This many subjects are checked per turn for whether they have no message; a stream with fewer
# does it when a group is committed.
RECYCLED_PER_TURN: Final[i64] = 16_384
# A search over more sequences than this is counted as work (turn.py).
LONG_SEARCH: Final[i64] = 1024
# With fewer subjects an order is not worth it; with more than the second it is built in steps.
ORDER_FROM: Final[i64] = 1024
ORDER_AT_ONCE: Final[i64] = 8192
# A pattern that matches more than one subject in this many is compared with all of them.
FEW: Final[i64] = 8
# This many patterns, and this many subjects of each, are cached for the next query.
KEPT_PATTERNS: Final = 4
KEPT_ENTRIES: Final = 2048
# A search for the newest message of a pattern tries this many messages first.
TRIED: Final[i64] = 1024
# So many messages are compared with a pattern for a unit of a turn (turn.py).
MATCHED_PER_UNIT: Final[i64] = 8
# A quick search visits at most this many subjects, of the order or of a small stream, or rows.
QUICK_SUBJECTS: Final[i64] = 4096
QUICK_ROWS: Final[i64] = 262_144
_LONG: Final[i64] = -1
# Everything else is removed at once if at most this many messages are left.
CLEARED_BUT: Final[i64] = 1024
# Forgetting this many subjects at once takes as long as removing one message individually.
CLEARED_SUBJECTS: Final[i64] = 16
# Subjects are guessed while at most one guess in so many is wrong.
GUESSES_PER_WRONG: Final[i64] = 4
_UNKNOWN: Final[u8] = 0
_NO: Final[u8] = 1
_YES: Final[u8] = 2


class PatternFlags:
    """Which subject ids match a pattern, determined when an id is first asked for.

    A purge by sequence meets subjects in any order, most of them more than once, and reading one
    takes longer than everything else.
    """

    def __init__(self, pattern: bytes) -> None:
        self.pattern: bytes = pattern
        self.flags: vec[u8] = vec[u8]()

    def match(self, subject_id: i64, entries: list[SubjectEntry]) -> bool:
        """Return whether the subject with an id matches."""
        if subject_id < i64(len(self.flags)):
            flag = self.flags[subject_id]
            if flag != _UNKNOWN:
                return flag == _YES
        while i64(len(self.flags)) <= subject_id:
            self.flags = append(self.flags, _UNKNOWN)
        found = matches(entries[subject_id].subject, self.pattern)
        self.flags[subject_id] = _YES if found else _NO
        return found


class StreamIndex:
    """The durable messages of one stream."""

    def __init__(self) -> None:
        self.subjects: SubjectTable = SubjectTable()
        self.entries: list[SubjectEntry] = self.subjects.entries
        # In order, once a wildcard was queried; a query that could not wait for it requests it.
        self.order: SubjectOrder = SubjectOrder()
        self.ordered: bool = False
        self.order_wanted: bool = False
        # Results of the order for some patterns, until a subject is added or removed.
        self.kept: dict[bytes, list[SubjectEntry]] = {}
        # Patterns for which the order has more candidates than this, until ids are reassigned.
        self.many: dict[bytes, int] = {}
        self.kept_used: i64 = 0
        self.kept_generation: i64 = 0
        self.order_end: i64 = 0
        # Where long searches are counted as work.
        self.turn: Turn = Turn()
        self.segments: list[Columns] = []
        # The position of the last durable record.
        self.position: i64 = 0
        self.messages: i64 = 0
        self.first_seq: i64 = 0
        self.last_seq: i64 = 0
        # Unused ids. A sweep for more of them: whether one is needed, whether a caller still has
        # to start it, and the id it has reached, downwards (-1: none is running).
        self.free: vec[i64] = vec[i64]()
        self.sweeping: bool = False
        self.sweep_wanted: bool = False
        self.sweep_at: i64 = -1
        self.sweep_end: i64 = 0
        # The ids it found so far, and the id from which on all were unused when it passed.
        self.swept: vec[i64] = vec[i64]()
        self.swept_from: i64 = 0
        self.blank: SubjectEntry = SubjectEntry(b"", -1)
        # The entry of the last query.
        self.newest: SubjectEntry | None = None
        # The message with the subject that `find_many` found last.
        self.followed: i64 = 0
        # Incremented when ids are reassigned: earlier results are invalid then.
        self.generation: i64 = 0
        self.bytes: i64 = 0
        # The bytes removed so far: decides when looking for garbage is worth it.
        self.removed_bytes: i64 = 0
        # How often a message other than the oldest was removed: counts of later ones are invalid.
        self.removals_inside: i64 = 0
        self.last_time: i64 = 0
        self.subject_count: i64 = 0
        # When the message of that sequence was stored, which was the first one, as far as known.
        self.first_time_known: i64 = 0
        self.first_time_of: i64 = 0
        # For callers that keep their own counts: with `tracking`, the removed messages, or that so
        # many were removed at once, or subjects got other ids, that they must count again.
        self.tracking: bool = False
        self.removed_seqs: vec[i64] = vec[i64]()
        self.removed_subjects: vec[i64] = vec[i64]()
        self.recount: bool = False
        # What purges visited so far, in units of a turn (turn.py).
        self.visited: i64 = 0
        # The last purged pattern, and the sequence below which it has no messages.
        self.purged_pattern: bytes = b""
        # Which subjects match the pattern of the current purge.
        self.flags: PatternFlags = PatternFlags(b"")
        self.purged_end: i64 = 0

    def known(self, subject: bytes) -> SubjectEntry | None:
        """Return the entry of a subject; None if it has none."""
        # Many streams have one subject, and many publishers use one for a while.
        newest = self.newest
        if newest is not None and newest.subject == subject:
            return newest
        return self.subjects.get(subject)

    def entry(self, subject: bytes) -> SubjectEntry:
        """Return the entry of a subject, created if it is new."""
        found = self.known(subject)
        if found is None:
            if len(self.free) > 0:
                self.free, subject_id = pop(self.free)
                found = SubjectEntry(subject, i32(subject_id))
                self.entries[subject_id] = found
            else:
                found = SubjectEntry(subject, len(self.entries))
                self.entries.append(found)
            self.subjects.add(found)
            if self.ordered:
                self.order.add(subject)
        self.newest = found
        return found

    def entries_for(self, subjects: list[bytes]) -> list[SubjectEntry]:
        """Return the entries of many subjects, created for those that are new."""
        found: list[SubjectEntry] = []
        for i, entry in enumerate(self.find_many(subjects)):
            found.append(self.entry(subjects[i]) if entry is None else entry)
        return found

    def find_many(self, subjects: list[bytes]) -> list[SubjectEntry | None]:
        """Return the entries of subjects of consecutive messages, None for those that have none.

        Publishers repeat orders of subjects, so the one that followed a subject the last time is
        tried first: its row and its entry are mostly next to the previous ones in memory, where a
        hash leads anywhere. Few wrong guesses end that.
        """
        count: i64 = len(subjects)
        found: list[SubjectEntry | None] = []
        columns = self.segment_of(self.followed)
        row: i64 = 0
        if columns is not None:
            row = self.followed - columns.base
        wrong: i64 = 0
        n: i64 = 0
        while n < count and wrong * GUESSES_PER_WRONG <= n + GUESSES_PER_WRONG:
            entry: SubjectEntry | None = None
            if columns is not None:
                row += 1
                if row >= i64(len(columns.subjects)):
                    seq = columns.base + row
                    columns = self.segment_of(seq)
                    if columns is not None:
                        row = seq - columns.base
            if columns is not None:
                # The row of a removed message may have an id that is not used any more.
                subject_id = i64(columns.subjects[row])
                if 0 <= subject_id < i64(len(self.entries)):
                    likely = self.entries[subject_id]
                    if likely.id >= 0 and likely.subject == subjects[n]:
                        entry = likely
            if entry is None:
                wrong += 1
                entry = self.subjects.get(subjects[n])
                columns = None
                if entry is not None and entry.count > 0:
                    columns = self.segment_of(entry.last)
                    if columns is not None:
                        row = entry.last - columns.base
            found.append(entry)
            n += 1
        self.followed = 0
        if columns is not None:
            self.followed = columns.base + row
        if n < count:
            found += self.subjects.get_many(subjects[n:])
        return found

    def add_segment(self, handle: i64, base: i64, start: i64, name: str = "") -> None:
        """Add a file: messages added from now on are in it."""
        self.segments.append(Columns(handle, base, start, name))

    def drop_rows(self, count: int) -> None:
        """Drop the oldest rows of a file of which later ones are kept."""
        self.segments[count].follow_removed()
        self.segments = self.segments[count:]

    def drop_file(self, count: int) -> None:
        """Drop the oldest rows, which are all of a file."""
        self.segments = self.segments[count:]

    def replace_rows(self, first: int, count: int, rows: list[Columns]) -> None:
        """Replace the rows of a run of segments that was rewritten."""
        self.segments = [*self.segments[:first], *rows, *self.segments[first + count :]]

    def count_work(self, turn: Turn) -> None:
        """Count long searches as work of this loop."""
        self.turn = turn

    def close(self) -> None:
        """Drop everything: the files were closed."""
        self.segments = []

    def add_message(
        self, seq: i64, entry: SubjectEntry, offset: i64, time_ns: i64, size: i64
    ) -> None:
        """Add a message that became durable."""
        columns = self.segments[-1]
        skipped: i64 = seq - columns.base - len(columns.offsets)
        if skipped > HOLES_MAX:
            before = columns
            self.add_segment(columns.handle, seq, columns.start, columns.name)
            columns = self.segments[-1]
            columns.apply_head(before.generation, before.packed)
        elif skipped > 0:
            columns.add_holes(skipped)
        columns.add(offset, entry.id, size)
        if self.messages == 0:
            self.first_seq = seq
            self.first_time_of = seq
            self.first_time_known = time_ns
        self.messages += 1
        self.bytes += size
        self.last_seq = seq
        self.last_time = time_ns
        if entry.count == 0:
            self.subject_count += 1
        else:
            self.chain(columns, entry.last, seq)
        entry.add(seq)

    def chain(self, newest: Columns, seq: i64, following: i64) -> None:
        """Link a message to the next one of its subject."""
        i: i64 = seq - newest.base
        if i >= 0:
            newest.nexts[i] = following
            return
        columns = self.segment_of(seq)
        if columns is not None:
            columns.nexts[seq - columns.base] = following

    def skip_to(self, last_seq: i64) -> None:
        """Mark sequences up to this one as used without a message."""
        self.last_seq = max(self.last_seq, last_seq)
        if self.messages == 0 and self.last_seq > 0:
            self.first_seq = self.last_seq + 1

    def reach(self, position: i64) -> None:
        """Note that records up to a position are durable."""
        self.position = max(self.position, position)

    def note_time(self, time_ns: i64) -> None:
        """Note that nothing stored later is older than this."""
        self.last_time = max(self.last_time, time_ns)

    def note_first_time(self, time_ns: i64) -> None:
        """Note when the oldest message was stored (``LogReader.first_time`` read it)."""
        self.first_time_of = self.first_seq
        self.first_time_known = time_ns

    def end_replay(self, last_time: i64, records: i64) -> None:
        """End the replay of an index file, which has no times: the last message was stored then.

        The time of the first message is read when it is needed.
        """
        self.last_time = last_time
        self.first_time_of = -1
        self.position += records

    # Search ------------------------------------------------------------------------------------

    def segment_at(self, seq: i64) -> i64:
        """Return the last segment that starts at or before a sequence; -1 if none does.

        Segments without messages share their base with the one after them: the last one counts.
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
        """Return the segment that contains a sequence, if the index has it."""
        i = self.segment_at(seq)
        if i < 0:
            return None
        columns = self.segments[i]
        if seq - columns.base < len(columns.offsets):
            return columns
        return None

    def after_gap(self, seq: i64) -> i64:
        """Return ``seq``, or the start of the next segment if none has it; past the end if none.

        A gap between segments may be too long to count through; this is for callers that iterate
        over sequences.
        """
        n = self.segment_at(seq)
        if n >= 0 and seq - self.segments[n].base < len(self.segments[n].offsets):
            return seq
        n += 1
        while n < i64(len(self.segments)):
            if len(self.segments[n].offsets) > 0:
                return max(seq, self.segments[n].base)
            n += 1
        return max(seq, self.last_seq + 1)

    def next_seq(self, seq: i64, mask: bytes) -> i64:
        """Return the first message at or after ``seq`` whose subject is in the mask; 0 if none.

        An empty mask means every subject.
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
                    subject_id = i64(columns.subjects[i])
                    if not mask or (subject_id < len(mask) and mask[subject_id] != 0):
                        if columns.base + i > seq + LONG_SEARCH:
                            self.turn.spend((columns.base + i - seq) >> 5)
                        return columns.base + i
                i += 1
        if self.last_seq > seq + LONG_SEARCH:
            self.turn.spend((self.last_seq - seq) >> 5)
        return 0

    def count_from(self, seq: i64, mask: bytes) -> i64:
        """Return how many messages at or after ``seq`` have a subject of the mask.

        An empty mask means every subject: then the rows of whole segments are not visited.
        """
        return self.count_between(seq, self.last_seq, mask)

    def count_between(self, first: i64, last: i64, mask: bytes) -> i64:
        """Return how many messages from ``first`` to ``last`` have a subject of the mask."""
        first = max(first, self.first_seq)
        last = min(last, self.last_seq)
        if not mask and self.messages == self.last_seq - self.first_seq + 1:
            return max(i64(0), last - first + 1)
        count: i64 = 0
        n: i64 = max(i64(0), self.segment_at(first))
        while n < i64(len(self.segments)):
            columns = self.segments[n]
            n += 1
            if columns.base > last:
                break
            i: i64 = max(i64(0), first - columns.base)
            end: i64 = min(i64(len(columns.offsets)), last - columns.base + 1)
            if not mask and i == 0 and end == i64(len(columns.offsets)):
                count += columns.live
                i = end
            while i < end:
                if columns.offsets[i] != NOWHERE:
                    subject_id = i64(columns.subjects[i])
                    if not mask or (subject_id < len(mask) and mask[subject_id] != 0):
                        count += 1
                i += 1
        return count

    def missing(self) -> list[int]:
        """Return the sequences between the first and the last message that have none.

        The rows of segments without holes are not visited.
        """
        found: list[int] = []
        at = max(self.first_seq, i64(1))
        for columns in self.segments:
            end = min(columns.last_seq(), self.last_seq)
            if end < at:
                continue
            if columns.base > at:
                found.extend(range(int(at), int(columns.base)))
                at = columns.base
            if columns.live < i64(len(columns.offsets)):
                while at <= end:
                    if columns.offsets[at - columns.base] == NOWHERE:
                        found.append(int(at))
                    at += 1
            at = end + 1
        found.extend(range(int(at), int(self.last_seq) + 1))
        return found

    def next_match(self, seq: i64, pattern: bytes) -> i64:
        """Return the first message at or after ``seq`` whose subject matches; 0 if none."""
        seq = max(seq, self.first_seq)
        if not is_literal(pattern):
            found = self.nearest_match(seq, pattern, TRIED)
            if found > 0 or self.last_seq - seq < TRIED:
                return found
        nearest: i64 = 0
        within = False  # some have messages on both sides of ``seq``
        like = self.entries_like(pattern)
        for entry in like:
            if entry.count > 0 and entry.last >= seq:
                if entry.first < seq:
                    within = True
                elif nearest == 0 or entry.first < nearest:
                    nearest = entry.first
        return self.next_seq(seq, self.mask_of(like)) if within else nearest

    def quick_next(self, seq: i64, pattern: bytes) -> i64:
        """Return what ``next_match`` does; -1 if that takes long."""
        seq = max(seq, self.first_seq)
        like: list[SubjectEntry] | None
        if is_literal(pattern):
            entry = self.subjects.get(pattern)
            like = [] if entry is None else [entry]
        else:
            found = self.nearest_match(seq, pattern, TRIED)
            if found > 0 or self.last_seq - seq < TRIED:
                return found
            like = self._quick_entries(pattern)
            if like is None:
                return _LONG
        nearest: i64 = 0
        within = False
        for entry in like:
            if entry.count > 0 and entry.last >= seq:
                if entry.first < seq:
                    within = True
                elif nearest == 0 or entry.first < nearest:
                    nearest = entry.first
        if not within:
            return nearest
        end = nearest if nearest > 0 else self.last_seq
        return _LONG if end - seq > QUICK_ROWS else self.next_seq(seq, self.mask_of(like))

    def quick_last(self, pattern: bytes) -> i64:
        """Return what ``last_match`` does; -1 if that takes long."""
        if is_literal(pattern):
            return self.last_match(pattern)
        last = self.newest_match(pattern, TRIED)
        if last > 0:
            return last
        like = self._quick_entries(pattern)
        if like is None:
            return _LONG
        for entry in like:
            if entry.count > 0 and entry.last > last:
                last = entry.last
        return last

    def _quick_entries(self, pattern: bytes) -> list[SubjectEntry] | None:
        """Return the entries whose subjects match; None if finding them takes long."""
        count: i64 = len(self.entries)
        if count <= QUICK_SUBJECTS:
            return self.entries_like(pattern)
        if self.order.state != MADE:
            if count > ORDER_AT_ONCE:
                self.order_wanted = True
                return None
            self.make_order()
        return self.ordered_like(pattern, QUICK_SUBJECTS)

    def nearest_match(self, seq: i64, pattern: bytes, rows: i64) -> i64:
        """Return the first of ``rows`` messages from ``seq`` on whose subject matches; 0: none."""
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < i64(len(self.segments)) and rows > 0:
            columns = self.segments[n]
            n += 1
            i: i64 = max(i64(0), seq - columns.base)
            end: i64 = len(columns.offsets)
            while i < end and rows > 0:
                rows -= 1
                if columns.offsets[i] != NOWHERE and matches(
                    self.entries[i64(columns.subjects[i])].subject, pattern
                ):
                    return columns.base + i
                i += 1
        return 0

    def mask_for(self, pattern: bytes) -> bytes:
        """Return one byte per subject id: 1 where the subject matches; never empty."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return b"\0"
            return b"\0" * int(found.id) + b"\1"
        return self.mask_of(self.entries_like(pattern))

    def mask_of(self, entries: list[SubjectEntry]) -> bytes:
        """Return one byte per subject id: 1 for these that have messages; never empty."""
        flags = bytearray(max(1, len(self.entries)))
        for entry in entries:
            if entry.count > 0:
                flags[int(entry.id)] = 1
        return bytes(flags)

    def entries_like(self, pattern: bytes) -> list[SubjectEntry]:
        """Return the entries whose subjects match, unordered, with or without messages."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            return [] if found is None else [found]
        count: i64 = len(self.entries)
        if count > ORDER_FROM and self.order.state != MADE:
            if count > ORDER_AT_ONCE:
                self.order_wanted = True
            else:
                self.make_order()
        if self.order.state == MADE:
            found_in_order = self.ordered_like(pattern, count // FEW)
            if found_in_order is not None:
                return found_in_order
        self.turn.spend(count >> 1)
        return [entry for entry in self.entries if matches(entry.subject, pattern)]

    def few_entries(self, patterns: list[bytes], most: i64) -> list[SubjectEntry] | None:
        """Return the matching entries of patterns that do not overlap; None if they are many.

        Also None if finding them would take long.
        """
        found: list[SubjectEntry] = []
        for pattern in patterns:
            if is_literal(pattern):
                entry = self.subjects.get(pattern)
                if entry is not None:
                    found.append(entry)
            elif self.needs_order():
                return None
            elif self.order.state == MADE:
                like = self.ordered_like(pattern, most)
                if like is None:
                    return None
                found += like
            else:
                found += self.entries_like(pattern)
            if i64(len(found)) > most:
                return None
        return found

    def ordered_like(self, pattern: bytes, looks: i64) -> list[SubjectEntry] | None:
        """Return the matching entries from the order; None if that takes more than ``looks``.

        Cached for the next query: one request queries more than once, with no change in between.
        """
        if self.kept_used != self.subjects.used or self.kept_generation != self.generation:
            self.kept = {}
            self.kept_used = self.subjects.used
            self.kept_generation = self.generation
        known = self.kept.get(pattern)
        if known is not None:
            return known
        # Subjects are only added to the order: many candidates stay many.
        if looks <= i64(self.many.get(pattern, -1)):
            return None
        subjects: list[bytes] = []
        if self.order.matching(pattern, b"", looks * LOOKED_AT, subjects):
            if len(self.many) >= KEPT_PATTERNS:
                self.many = {}
            self.many[pattern] = int(looks)
            return None
        like = self.entries_of(subjects)
        if len(like) <= KEPT_ENTRIES:
            if len(self.kept) >= KEPT_PATTERNS:
                self.kept = {}
            self.kept[pattern] = like
        return like

    def entries_of(self, subjects: list[bytes]) -> list[SubjectEntry]:
        """Return the entries of the subjects that have one."""
        self.turn.spend(len(subjects) << 1)
        return [entry for entry in self.subjects.get_many(subjects) if entry is not None]

    def all_match(self, pattern: bytes) -> bool:
        """Return whether all subjects match a pattern; False if finding out would take long."""
        if pattern == b">":
            return True
        return self.order.state == MADE and self.order.all_match(pattern)

    def needs_order(self) -> bool:
        """Return whether the order should be built, in steps, before a wildcard query."""
        return len(self.entries) > ORDER_AT_ONCE and self.order.state != MADE

    def want_order(self) -> None:
        """Request that the order is built in the background."""
        self.order_wanted = True

    def take_order_wanted(self) -> bool:
        """Return whether a query could not wait for the order since the last call."""
        wanted = self.order_wanted
        self.order_wanted = False
        return wanted

    def take_sweep_wanted(self) -> bool:
        """Return whether a sweep is needed and must be started with ``sweep_step``."""
        wanted = self.sweep_wanted
        self.sweep_wanted = False
        return wanted

    def order_made(self) -> bool:
        """Return whether all subjects are in the order; for few subjects it is built at once."""
        if self.order.state != MADE and len(self.entries) <= ORDER_AT_ONCE:
            self.make_order()
        return self.order.state == MADE

    def make_order(self) -> None:
        """Build the order now."""
        while not self.order_step():
            pass

    def order_step(self) -> bool:
        """Build the order, as far as one turn allows; True when it is complete."""
        order = self.order
        entries = self.entries
        if order.state == NOT_MADE:
            self.ordered = True
            self.order_wanted = False
            self.order_end = len(entries)
            apart = 1 + len(entries) // int(SAMPLE_MAX)
            order.begin([entry.subject for entry in entries[::apart] if entry.id >= 0])
        elif order.state == DEALING:
            # Subjects added meanwhile were added to the order.
            end = min(self.order_end, i64(len(entries)))
            stop = min(end, order.at + UNITS_PER_TURN // DEALT)
            i = order.at
            while i < stop:
                entry = entries[i]
                if entry.id >= 0:
                    order.deal(entry.subject)
                i += 1
            order.dealt(i, i >= end)
        else:
            return order.build_some(UNITS_PER_TURN)
        return False

    def last_match(self, pattern: bytes) -> i64:
        """Return the newest message whose subject matches; 0 if none."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return 0
            return found.last
        # Usually one of the newest messages matches.
        last = self.newest_match(pattern, TRIED)
        if last > 0:
            return last
        for entry in self.entries_like(pattern):
            if entry.count > 0 and entry.last > last:
                last = entry.last
        return last

    def newest_match(self, pattern: bytes, rows: i64) -> i64:
        """Return the newest of the last ``rows`` messages whose subject matches; else 0."""
        n: i64 = len(self.segments) - 1
        left = rows
        found: i64 = 0
        while n >= 0 and left > 0 and found == 0:
            columns = self.segments[n]
            n -= 1
            i: i64 = len(columns.offsets) - 1
            while i >= 0 and left > 0 and found == 0:
                left -= 1
                if columns.offsets[i] != NOWHERE and matches(
                    self.entries[i64(columns.subjects[i])].subject, pattern
                ):
                    found = columns.base + i
                i -= 1
        self.turn.spend((rows - left) // MATCHED_PER_UNIT)
        return found

    # Removal -----------------------------------------------------------------------------------

    def remove(self, seq: i64) -> bool:
        """Remove a message; False if it does not exist."""
        columns = self.segment_of(seq)
        if columns is None:
            return False
        i: i64 = seq - columns.base
        size = columns.remove(i)
        if size == 0:
            return False
        self.removed_bytes += size
        entry = self.entries[i64(columns.subjects[i])]
        if self.tracking:
            self.removed_seqs = append(self.removed_seqs, seq)
            self.removed_subjects = append(self.removed_subjects, i64(entry.id))
        self.messages -= 1
        self.bytes -= size
        if entry.count == 1:
            self.subject_count -= 1
            entry.remove(seq, 0, 0)
        elif seq == entry.first:
            entry.remove(seq, self.live_from(columns.nexts[i], entry), entry.last)
        elif seq == entry.last:
            entry.remove(seq, entry.first, self.previous_in_subject(entry, seq))
        else:
            entry.remove(seq, entry.first, entry.last)
        if seq == self.first_seq:
            if self.messages == 0:
                self.first_seq = self.last_seq + 1
            else:
                self.first_seq = self.next_seq(seq + 1, b"")
        else:
            self.removals_inside += 1
        return True

    def rows(self) -> i64:
        """Return how many rows a scan of all messages visits."""
        count: i64 = 0
        for columns in self.segments:
            count += i64(len(columns.offsets))
        return count

    def note_purge(self, pattern: bytes, end: i64) -> None:
        """Note that a pattern has no messages below a sequence."""
        self.purged_pattern = pattern
        # A purge may name a sequence beyond the end: messages stored below it later are not
        # purged.
        self.purged_end = min(end, self.last_seq + 1)

    def count_visited(self, units: i64) -> None:
        """Count what a purge visits."""
        self.visited += units

    def flags_of(self, pattern: bytes) -> PatternFlags:
        """Return which subjects match a pattern; kept for the next query."""
        if self.flags.pattern != pattern:
            self.flags = PatternFlags(pattern)
        return self.flags

    def purged_below(self, pattern: bytes) -> i64:
        """Return the sequence below which a pattern has no messages, as far as known."""
        return self.purged_end if pattern == self.purged_pattern else i64(0)

    def track(self, tracking: bool) -> None:
        """Record, or stop recording, which messages are removed, for callers with own counts."""
        self.tracking = tracking
        if not tracking:
            self.forget_removed()

    def want_recount(self) -> None:
        """Request that callers with their own counts count again."""
        self.recount = True

    def forget_removed(self) -> None:
        """Clear the record: the caller with its own counts has applied it."""
        self.removed_seqs = vec[i64]()
        self.removed_subjects = vec[i64]()
        self.recount = False

    def clear(self) -> None:
        """Remove every message."""
        self.recount = self.tracking
        self.removals_inside += 1
        for entry in self.entries:
            if entry.count > 0:
                entry.clear()
        for columns in self.segments:
            columns.forget(self.last_seq + 1)
        self.removed_bytes += self.bytes
        self.messages = 0
        self.bytes = 0
        self.subject_count = 0
        self.first_seq = self.last_seq + 1

    def clear_below(self, end: i64) -> bool:
        """Remove every message below a sequence at once; False, unchanged, if many are left.

        For rollups of everything, which keep the newest message.
        """
        end = min(end, self.last_seq + 1)
        if not self.segments or self.last_seq - end > CLEARED_BUT:
            return False
        if self.messages * CLEARED_SUBJECTS < i64(len(self.entries)):
            return False  # it visits all subjects
        columns = self.segments[-1]
        if end <= columns.base:
            return False
        kept: list[tuple[i64, SubjectEntry, i64]] = []
        seq = self.next_seq(end, b"")
        while seq > 0:
            entry = self.entries[i64(columns.subjects[seq - columns.base])]
            kept.append((seq, entry, entry.staged_last))
            seq = self.next_seq(seq + 1, b"")
        size = self.bytes
        for each in self.entries:
            if each.count > 0:
                each.clear()
        for others in self.segments[:-1]:
            others.forget(end)
        columns.forget_before(end)
        self.subject_count = 0
        for seq, entry, staged_last in kept:
            if entry.count == 0:
                self.subject_count += 1
            entry.add(seq)
            entry.stage(staged_last)
        self.recount = self.tracking
        self.removals_inside += 1
        self.messages = len(kept)
        self.bytes = columns.weight
        self.removed_bytes += size - self.bytes
        self.first_seq = kept[0][0] if kept else self.last_seq + 1
        return True

    def live_from(self, seq: i64, entry: SubjectEntry) -> i64:
        """Follow the chain of a subject from ``seq`` to the first message that exists; 0: none.

        Rows of removed messages are part of the chain until their segment is removed or rewritten;
        then the rows after it are searched. That is rare: limits remove the oldest of a subject,
        so only a removal by sequence leaves a message that points at a hole.
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
        """Return the first message of a subject at or after ``seq``, by a full scan; 0: none."""
        subject_id = entry.id
        n: i64 = max(i64(0), self.segment_at(seq))
        while n < len(self.segments) and seq <= entry.last:
            columns = self.segments[n]
            i: i64 = max(i64(0), seq - columns.base)
            while i < len(columns.offsets):
                if columns.subjects[i] == subject_id and columns.offsets[i] != NOWHERE:
                    return columns.base + i
                i += 1
            n += 1
        return 0

    def next_in_subject(self, seq: i64) -> i64:
        """Return the next message of the same subject after an existing one; 0 if none."""
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
        columns.nexts[i] = following  # the next walk skips the holes
        return following

    def previous_in_subject(self, entry: SubjectEntry, seq: i64) -> i64:
        """Return the message of a subject before ``seq``; 0 if none."""
        if entry.count <= 1 or seq <= entry.first:
            return entry.first if entry.first < seq else 0
        n: i64 = self.segment_at(seq - 1)
        subject_id = entry.id
        while n >= 0:
            columns = self.segments[n]
            i: i64 = min(seq - 1 - columns.base, i64(len(columns.offsets)) - 1)
            while i >= 0:
                if columns.subjects[i] == subject_id and columns.offsets[i] != NOWHERE:
                    return columns.base + i
                i -= 1
            n -= 1
        return 0

    # Subjects without messages -----------------------------------------------------------------

    def wants_recycling(self) -> bool:
        """Return whether enough subjects have no message that their ids should be freed."""
        used: i64 = i64(len(self.entries)) - len(self.free)
        empty = used - self.subject_count
        return empty > EMPTY_SUBJECTS_MIN and empty * 2 > used and not self.sweeping

    def want_sweep(self) -> bool:
        """Request ``sweep_step`` until done; False: so few that it can be done now."""
        if i64(len(self.entries)) <= RECYCLED_PER_TURN:
            return False
        self.sweeping = True
        self.sweep_wanted = True
        return True

    def recycle(self, staged: list[SubjectEntry]) -> None:
        """Forget subjects without messages, stored or staged, now."""
        while not self.sweep_step(staged, RECYCLED_PER_TURN):
            pass

    def sweep_step(self, staged: list[SubjectEntry], count: i64) -> bool:
        """Visit up to ``count`` subjects and forget those without messages; True when finished.

        From the highest id down, so that the ids at the end are dropped altogether. ``staged``
        are the subjects of staged messages.
        """
        if self.sweep_at < 0:
            self.sweeping = True
            self.sweep_at = self.sweep_end = self.swept_from = len(self.entries)
            # The sweep reaches those too; new subjects get new ids meanwhile.
            self.free = vec[i64]()
        elif self.sweep_at > 0:
            self.sweep_some(staged, count)
            if self.sweep_at == 0:
                self.hand_out_swept()
        elif self.order.release_some() and self.subjects.move(count):
            self.sweeping = False
            self.sweep_at = -1
            return True
        return False

    def sweep_some(self, staged: list[SubjectEntry], count: i64) -> None:
        """Visit some of the subjects; those without messages can no longer be found."""
        kept = {int(entry.id) for entry in staged}
        stop = max(i64(0), self.sweep_at - count)
        at = self.sweep_at
        while at > stop:
            at -= 1
            entry = self.entries[at]
            if entry.id >= 0:
                if entry.count > 0 or (kept and int(at) in kept):
                    continue
                self.subjects.remove(entry)
                self.entries[at] = self.blank
            self.swept = append(self.swept, at)
            if self.swept_from == at + 1:
                self.swept_from = at
        self.sweep_at = at
        self.newest = None
        self.kept = {}
        # Removed messages that were not counted yet are identified by subject id.
        self.recount = self.recount or len(self.removed_seqs) > 0

    def hand_out_swept(self) -> None:
        """Make the ids that a finished sweep found available."""
        swept = self.swept
        if i64(len(self.entries)) == self.sweep_end:
            # It visited those at the end first.
            del self.entries[int(self.swept_from) :]
            swept = swept[self.sweep_end - self.swept_from :]
        self.free = extend(swept, self.free)
        self.swept = vec[i64]()
        self.ids_changed()
        # At least half of the order is stale.
        self.ordered = False
        self.order.forget()
        self.subjects.shrink()

    def give_up(self, subject_id: i64) -> None:
        """Free an id."""
        self.entries[subject_id] = self.blank
        if subject_id >= self.sweep_at:  # otherwise the sweep reaches it
            self.free = append(self.free, subject_id)

    def ids_changed(self) -> None:
        """Invalidate earlier results: ids may have other subjects from now on."""
        self.recount = self.recount or len(self.removed_seqs) > 0
        self.generation += 1
        self.newest = None
        self.many = {}
        self.flags = PatternFlags(b"")

    def forget_staged(self, staged: list[SubjectEntry]) -> None:
        """Drop entries that exist only because of messages that did not become durable."""
        for entry in staged:
            subject_id = i64(entry.id)
            # It may occur more than once.
            there = subject_id < i64(len(self.entries)) and self.entries[subject_id] is entry
            if there and entry.count == 0:
                self.subjects.remove(entry)
                self.give_up(subject_id)
        self.ids_changed()

    def begin_staging(self) -> None:
        """Start staging after the replay: decisions start from what is durable."""
        for entry in self.entries:
            entry.unstage()
