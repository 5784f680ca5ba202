"""The rows of an index, and finding messages in them.

Per message 20 bytes: where it lies and what it counts, the number of its subject, and the next
sequence of the same subject (speed.md 4.6). ``Search`` answers what readers ask; ``index.py``
keeps the rows.
"""

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i32, i64

from jetspark.store.subject_order import (
    DEALING,
    DEALT,
    LOOKED_AT,
    MADE,
    NOT_MADE,
    SAMPLED,
    SORTING,
    SubjectOrder,
)
from jetspark.store.subject_table import SubjectEntry, SubjectTable
from jetspark.subjects.match import matches
from jetspark.subjects.tokens import is_literal
from jetspark.turn import UNITS_PER_TURN, Turn

NOWHERE: Final[i64] = 0  # no record lies at offset 0: the head of the segment does
# No segment is longer than 64 GiB, no message counts 128 MiB (record.py): one word holds both.
OFFSET_BITS: Final[i64] = 36
OFFSET_MASK: Final[i64] = (1 << 36) - 1
# More skipped sequences than these begin new columns instead of a long run of holes: that many
# rows weigh more than an object does, and compaction leaves few messages far apart.
HOLES_MAX: Final[i64] = 64
# A search over more sequences than these is counted as work (turn.py).
LONG_SEARCH: Final[i64] = 1024
# With fewer subjects an order is not worth it; with more than the second it is made in steps.
ORDER_FROM: Final[i64] = 1024
ORDER_AT_ONCE: Final[i64] = 8192
# A pattern that matches more than one subject in so many is compared with all of them.
FEW: Final[i64] = 8
# So many patterns, and so many subjects of each, are kept for who asks next.
KEPT_PATTERNS: Final = 4
KEPT_ENTRIES: Final = 2048
# Whoever looks for the newest message of a pattern tries so many messages first.
TRIED: Final[i64] = 1024


class Times:
    """Who can say when a durable message was stored (the log, which can read it)."""

    def time_of(self, seq: i64) -> i64:
        """When a message was stored; -1 when that cannot be read."""
        raise NotImplementedError


class Columns:
    """The rows of messages that lie one behind the other in one segment."""

    def __init__(self, handle: i64, base: i64, start: i64, name: str) -> None:
        self.handle: i64 = handle
        self.base: i64 = base
        # Where the file begins in the whole log: the lengths of all segments before it.
        self.start: i64 = start
        self.name: str = name
        self.live: i64 = 0
        # What its messages count: those that are there, and all that lie in the file.
        self.weight: i64 = 0
        self.held: i64 = 0
        # Length of a file that is full, how often it was rewritten, and whether compressed.
        self.length: i64 = 0
        self.generation: i64 = 0
        self.packed: bool = False
        # Messages lie in the file before these rows, and are gone.
        self.forgotten: bool = False
        # Bytes in it are damaged: the file stays for whoever wants to look.
        self.pinned: bool = False
        # Offset in the file and, above OFFSET_BITS, what the message counts; or NOWHERE.
        self.offsets: vec[i64] = vec[i64]()
        self.subjects: vec[i32] = vec[i32]()
        self.nexts: vec[i64] = vec[i64]()

    def add_holes(self, count: i64) -> None:
        """Append rows of sequences that were skipped."""
        while count > 0:
            self.offsets = append(self.offsets, NOWHERE)
            self.subjects = append(self.subjects, i32(-1))
            self.nexts = append(self.nexts, i64(0))
            count -= 1

    def add(self, offset: i64, subject_number: i32, size: i64) -> None:
        """Append the next message."""
        self.offsets = append(self.offsets, offset | (size << OFFSET_BITS))
        self.subjects = append(self.subjects, subject_number)
        self.nexts = append(self.nexts, i64(0))
        self.live += 1
        self.weight += size
        self.held += size

    def offset_at(self, i: i64) -> i64:
        """Where the record of a row lies in the file; NOWHERE when its message is gone."""
        return self.offsets[i] & OFFSET_MASK

    def size_at(self, i: i64) -> i64:
        """What the message of a row counts; 0 when it is gone."""
        return self.offsets[i] >> OFFSET_BITS

    def forget(self, base: i64) -> None:
        """Drop all rows; the next message has at least this sequence."""
        self.live = 0
        self.weight = 0
        self.forgotten = True
        self.base = base
        self.offsets = vec[i64]()
        self.subjects = vec[i32]()
        self.nexts = vec[i64]()


class Search:
    """Finds messages by sequence and subject; everything in it is durable."""

    def __init__(self) -> None:
        self.subjects: SubjectTable = SubjectTable()
        self.entries: list[SubjectEntry] = self.subjects.entries
        # In their order, once a wildcard was asked about; who could not wait for it says so.
        self.order: SubjectOrder = SubjectOrder()
        self.ordered: bool = False
        self.order_wanted: bool = False
        # Moves when numbers change hands: what was found before is worth nothing then.
        self.generation: i64 = 0
        # What was found by the order for some patterns, while no subject comes or goes.
        self.kept: dict[bytes, list[SubjectEntry]] = {}
        self.kept_used: i64 = 0
        self.kept_generation: i64 = 0
        self.order_end: i64 = 0
        # Where long searches are counted as work.
        self.turn: Turn = Turn()
        self.segments: list[Columns] = []
        self.messages: i64 = 0
        self.first_seq: i64 = 0
        self.last_seq: i64 = 0

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
                    number = i64(columns.subjects[i])
                    if not mask or (number < len(mask) and mask[number] != 0):
                        if columns.base + i > seq + LONG_SEARCH:
                            self.turn.spend((columns.base + i - seq) >> 5)
                        return columns.base + i
                i += 1
        if self.last_seq > seq + LONG_SEARCH:
            self.turn.spend((self.last_seq - seq) >> 5)
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
                    number = i64(columns.subjects[i])
                    if not mask or (number < len(mask) and mask[number] != 0):
                        count += 1
                i += 1
        return count

    def next_match(self, seq: i64, pattern: bytes) -> i64:
        """First message at or after ``seq`` whose subject matches; 0 when there is none."""
        seq = max(seq, self.first_seq)
        if not is_literal(pattern):
            found = self.nearest_match(seq, pattern, TRIED)
            if found > 0 or self.last_seq - seq < TRIED:
                return found
        nearest: i64 = 0
        within = False  # some have messages on both sides
        like = self.entries_like(pattern)
        for entry in like:
            if entry.count > 0 and entry.last >= seq:
                if entry.first < seq:
                    within = True
                elif nearest == 0 or entry.first < nearest:
                    nearest = entry.first
        return self.next_seq(seq, self.mask_of(like)) if within else nearest

    def nearest_match(self, seq: i64, pattern: bytes, rows: i64) -> i64:
        """First message whose subject matches, of so many from ``seq`` on; 0: none of them."""
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
        """One byte per subject number: 1 where the subject matches; never empty."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return b"\0"
            return b"\0" * int(found.number) + b"\1"
        return self.mask_of(self.entries_like(pattern))

    def mask_of(self, entries: list[SubjectEntry]) -> bytes:
        """One byte per subject number: 1 for these that have messages; never empty."""
        flags = bytearray(max(1, len(self.entries)))
        for entry in entries:
            if entry.count > 0:
                flags[int(entry.number)] = 1
        return bytes(flags)

    def entries_like(self, pattern: bytes) -> list[SubjectEntry]:
        """The entries whose subjects match a pattern, in no order, with or without messages."""
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
        """The entries that match, of patterns that do not overlap; None when they are many.

        Also None when finding them would take long.
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
        """The entries that match, by the order; None when more than so many looks are needed.

        Kept for who asks next: one request asks more than once, and nothing came in between.
        """
        if self.kept_used != self.subjects.used or self.kept_generation != self.generation:
            self.kept = {}
            self.kept_used = self.subjects.used
            self.kept_generation = self.generation
        known = self.kept.get(pattern)
        if known is not None:
            return known
        subjects: list[bytes] = []
        if self.order.matching(pattern, b"", looks * LOOKED_AT, subjects):
            return None
        like = self.entries_of(subjects)
        if len(like) <= KEPT_ENTRIES:
            if len(self.kept) >= KEPT_PATTERNS:
                self.kept = {}
            self.kept[pattern] = like
        return like

    def entries_of(self, subjects: list[bytes]) -> list[SubjectEntry]:
        """The entries of those of the subjects that have one."""
        self.turn.spend(len(subjects) << 2)
        like: list[SubjectEntry] = []
        for subject in subjects:
            found = self.subjects.get(subject)
            if found is not None:
                like.append(found)
        return like

    def needs_order(self) -> bool:
        """Say whether who asks with a wildcard should have the order made first, in steps."""
        return len(self.entries) > ORDER_AT_ONCE and self.order.state != MADE

    def order_made(self) -> bool:
        """Say whether all subjects are in their order; that of few subjects is made at once."""
        if self.order.state != MADE and len(self.entries) <= ORDER_AT_ONCE:
            self.make_order()
        return self.order.state == MADE

    def make_order(self) -> None:
        """Make the order here and now."""
        while not self.order_step():
            pass

    def order_step(self) -> bool:
        """Make the order, as far as one turn allows; True when it is made."""
        order = self.order
        entries = self.entries
        if order.state == NOT_MADE:
            self.ordered = True
            self.order_wanted = False
            self.order_end = len(entries)
            order.begin([entry.subject for entry in entries[::SAMPLED] if entry.number >= 0])
        elif order.state == DEALING:
            # What came meanwhile was told to the order.
            end = min(self.order_end, i64(len(entries)))
            stop = min(end, order.at + UNITS_PER_TURN // DEALT)
            i = order.at
            while i < stop:
                entry = entries[i]
                if entry.number >= 0:
                    order.deal(entry.subject)
                i += 1
            order.at = i
            if i >= end:
                order.at = 0
                order.state = SORTING
        elif order.state == SORTING:
            return order.sort_some(UNITS_PER_TURN)
        return order.state == MADE

    def last_match(self, pattern: bytes) -> i64:
        """Sequence of the newest message whose subject matches; 0 when there is none."""
        if is_literal(pattern):
            found = self.subjects.get(pattern)
            if found is None or found.count == 0:
                return 0
            return found.last
        # Most often one of the newest messages matches.
        last = self.newest_match(pattern, TRIED)
        if last > 0:
            return last
        for entry in self.entries_like(pattern):
            if entry.count > 0 and entry.last > last:
                last = entry.last
        return last

    def newest_match(self, pattern: bytes, rows: i64) -> i64:
        """The newest message whose subject matches, if it is one of the last so many; else 0."""
        n: i64 = len(self.segments) - 1
        while n >= 0 and rows > 0:
            columns = self.segments[n]
            n -= 1
            i: i64 = len(columns.offsets) - 1
            while i >= 0 and rows > 0:
                rows -= 1
                if columns.offsets[i] != NOWHERE and matches(
                    self.entries[i64(columns.subjects[i])].subject, pattern
                ):
                    return columns.base + i
                i -= 1
        return 0
