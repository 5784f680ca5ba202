"""The cursor: which message a consumer gets next, and the exact number left.

No message is read here: the index identifies every subject by an id, and a filter is a byte per
id, computed when the id is first seen. New rows are counted on demand, removed ones as they are
removed, so an idle consumer costs nothing. What is left is counted with the counts of subjects and
of segments as far as possible, and otherwise row by row; very many of either, and a long search,
take several turns of the loop: until then nothing is delivered.
"""

from typing import Final

from librt.strings import BytesWriter
from librt.vecs import append, vec
from mypy_extensions import i64, u8

from jetspark.store.log.columns import NOWHERE, Columns
from jetspark.store.log.index import StreamIndex
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.subjects.match import matches
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.tokens import is_literal

SEARCHING: Final[i64] = -1
_UNKNOWN: Final[u8] = 0
_NO: Final[u8] = 1
_YES: Final[u8] = 2
FILTERS_TRIED_MAX: Final = 4
# Rows visited per turn: a few milliseconds if their subjects were not seen before.
ROWS_PER_TURN: Final[i64] = 32_768
# The rest is counted by subjects if at most this many of them match.
SUBJECTS_COUNTED: Final[i64] = 8_192
# This many subjects are added up per turn, if more than that match; it is worth it if they have
# this many messages each.
SUBJECTS_PER_TURN: Final[i64] = 16_384
SUBJECTS_WORTH: Final[i64] = 4
# More filters than this are not tried one after the other: this many subjects are compared with
# all of them in one turn, and more in steps.
FILTERS_LOOKED_UP_MAX: Final = 64
SUBJECTS_JUDGED_MAX: Final[i64] = 2_048
# Filters with this many nodes to search for a subject have weight 1, which the numbers above are
# for; each row or subject of others counts as several.
NODES_PER_ROW: Final[i64] = 8


def weight_of(patterns: PatternSet | None) -> i64:
    """Return how many times as long as usual it may take to compare a subject with filters."""
    if patterns is None:
        return 1
    return max(i64(1), patterns.longest_search() // NODES_PER_ROW)


class Cursor:
    """The position of one consumer in its stream."""

    def __init__(
        self, index: StreamIndex, filters: list[bytes], patterns: PatternSet | None = None
    ) -> None:
        self.index: StreamIndex = index
        self.filters: list[bytes] = []
        # All filters, if there are too many to try one after the other.
        self.patterns: PatternSet | None = None
        self.literal: bytes = b""
        # The cost of a row whose subject was not seen before; 1 unless the filters are unusual.
        self.weight: i64 = 1
        self.rows_per_turn: i64 = ROWS_PER_TURN
        self.flags: vec[u8] = vec[u8]()
        self.generation: i64 = 0
        # The next sequence to visit; matching messages from there to ``counted_to``.
        self.next: i64 = 1
        self.left: i64 = 0
        self.counted_to: i64 = 0
        # All messages up to this sequence are for this consumer, whatever its filter.
        self.whole_to: i64 = 0
        # Many subjects are being added up.
        self.subject_count: SubjectCount | None = None
        # What is left is unknown: many messages were removed, and it was not needed since.
        self.stale: bool = False
        # The last message found by a literal filter, whose chain leads to the next one.
        self.hint: i64 = 0
        # From the first of these to the second there is nothing for this consumer.
        self.nothing_from: i64 = 0
        self.nothing_to: i64 = 0
        # Last per subject: the sequences that are delivered first, how many of them are done, and
        # those before which one are part of ``left``.
        self.listed: vec[i64] = vec[i64]()
        self.listed_at: i64 = 0
        self.listed_to: i64 = 0
        # A long list, packed as in the journal: all of it, including what is done.
        self.packed: bytes = b""
        self.set_filters(filters, patterns)

    def place(self, following: i64) -> None:
        """Continue at a sequence; ``recount`` must follow."""
        self.next = following
        self.hint = 0

    def move(self, following: i64) -> None:
        """Continue at a sequence; what is left is adjusted, or counted again if that is less work.

        For readers that nothing was removed for since they counted.
        """
        first, last = min(self.next, following), max(self.next, following) - 1
        if (
            self.stale
            or self.subject_count is not None
            or len(self.listed) > 0
            or last > self.counted_to
            or last - first > self.rows_per_turn
        ):
            self.place(following)
            self.recount_later()
            return
        change = self.count(first, last)
        self.left += change if following < self.next else -change
        self.place(following)

    def list_first(self, sequences: vec[i64], packed: bytes) -> None:
        """Deliver these messages first, in this order; ``recount`` must follow.

        ``packed`` is a list that ends with them, if it is long.
        """
        self.listed = sequences
        self.packed = packed
        self.listed_at = 0
        self.listed_to = 0

    def set_filters(self, filters: list[bytes], patterns: PatternSet | None = None) -> None:
        """Change the filters; ``recount`` must follow. ``patterns`` is a set of all of them."""
        self.filters = filters
        self.patterns = patterns if filters else None
        if patterns is None and len(filters) > FILTERS_TRIED_MAX:
            self.patterns = PatternSet()
            for pattern in filters:
                self.patterns.add(pattern, pattern)
        self.weight = weight_of(self.patterns)
        self.rows_per_turn = max(i64(1), ROWS_PER_TURN // self.weight)
        self.literal = filters[0] if len(filters) == 1 and is_literal(filters[0]) else b""
        self.flags = vec[u8]()
        self.generation = self.index.generation
        self.hint = 0
        self.nothing_from = 0
        self.nothing_to = 0

    # Matching ----------------------------------------------------------------------------------

    def wants(self, subject_id: i64) -> bool:
        """Return whether messages of a subject, by its id, are for this consumer."""
        if not self.filters:
            return True
        if subject_id < i64(len(self.flags)):
            flag = self.flags[subject_id]
            if flag != _UNKNOWN:
                return flag == _YES
        return self.judge(subject_id)

    def judge(self, subject_id: i64) -> bool:
        """Compute and cache whether a subject matches."""
        while i64(len(self.flags)) <= subject_id:
            self.flags = append(self.flags, _UNKNOWN)
        found = self.matches(self.index.entries[subject_id].subject)
        if self.weight > 1:
            self.index.turn.spend(self.weight)
        self.flags[subject_id] = _YES if found else _NO
        return found

    def matches(self, subject: bytes) -> bool:
        """Return whether messages of a subject are for this consumer."""
        if not self.filters:
            return True
        if self.patterns is not None:
            return self.patterns.matches(subject)
        for pattern in self.filters:  # noqa: SIM110 - a loop is compiled, a generator is not
            if matches(subject, pattern):
                return True
        return False

    def check_generation(self) -> None:
        """Drop cached results if subject ids were reassigned."""
        if self.generation != self.index.generation:
            self.generation = self.index.generation
            self.flags = vec[u8]()

    def find(self, seq: i64) -> i64:
        """Return the first message at or after ``seq`` for this consumer; 0 if none."""
        if not self.filters:
            return self.index.next_seq(seq, b"")
        self.check_generation()
        if len(self.literal) > 0:
            entry = self.index.subjects.get(self.literal)
            if entry is None or entry.count == 0 or entry.last < seq:
                return 0
            if seq <= entry.first:
                return entry.first
            found = self.follow(seq, entry)
            if found > 0:
                return found
        return self.search(seq, self.index.last_seq)

    def search(self, seq: i64, last: i64) -> i64:
        """Return the first message from ``seq`` to ``last`` for this consumer; 0 if none."""
        index = self.index
        seq = max(seq, index.first_seq)
        n: i64 = max(i64(0), index.segment_at(seq))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            if columns.base > last:
                return 0
            i = self.scan(columns, max(i64(0), seq - columns.base), last - columns.base + 1)
            if i >= 0:
                return columns.base + i
            n += 1
        return 0

    def follow(self, seq: i64, entry: SubjectEntry) -> i64:
        """Follow the chain of the subject from the last message found; 0 if it is broken."""
        if self.hint == 0 or self.hint >= seq:
            return 0
        columns = self.index.segment_of(self.hint)
        if columns is None:
            return 0
        found = self.index.live_from(columns.nexts[self.hint - columns.base], entry)
        while 0 < found < seq:
            found = self.index.next_in_subject(found)
        return found

    def scan(self, columns: Columns, i: i64, end: i64) -> i64:
        """Return the first row from ``i`` on and before ``end`` that matches; -1 if none does."""
        end = min(end, i64(len(columns.offsets)))
        while i < end:
            if columns.offsets[i] != NOWHERE and self.wants(i64(columns.subjects[i])):
                return i
            i += 1
        return -1

    def count(self, first: i64, last: i64) -> i64:
        """Return how many messages from ``first`` to ``last`` are for this consumer."""
        self.check_generation()
        index = self.index
        first = max(first, index.first_seq)
        last = min(last, index.last_seq)
        if not self.filters and index.messages == index.last_seq - index.first_seq + 1:
            return max(i64(0), last - first + 1)
        whole_to = self.whole_to if self.filters else last
        count: i64 = 0
        n: i64 = max(i64(0), index.segment_at(first))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            if columns.base > last:
                break
            i: i64 = max(i64(0), first - columns.base)
            end: i64 = min(i64(len(columns.offsets)), last - columns.base + 1)
            if i == 0 and end == i64(len(columns.offsets)) and columns.base + end - 1 <= whole_to:
                count += columns.live
                i = end
            while i < end:
                if columns.offsets[i] != NOWHERE and self.wants(i64(columns.subjects[i])):
                    count += 1
                i += 1
            n += 1
        return count

    # Advancing ---------------------------------------------------------------------------------

    def catch_up(self) -> i64:
        """Count new messages; return how many are left now."""
        if self.stale:
            self.recount()
        self.subject_count = None  # so few rows are left that they are counted now
        self.count_listed(i64(len(self.listed)))
        last = self.index.last_seq
        if last > self.counted_to:
            self.left += self.count(max(self.counted_to + 1, self.next), last)
            self.counted_to = last
        return self.left

    def uncounted(self) -> i64:
        """Return how many rows ``catch_up`` would visit, each with its weight."""
        if self.stale:
            self.recount()
        index = self.index
        rows = index.last_seq - max(self.counted_to, self.next - 1)
        if not self.filters and index.messages == index.last_seq - index.first_seq + 1:
            rows = 0
        elif rows > self.rows_per_turn:
            rows = self.rows_to_visit()
        return max(i64(0), rows) * self.weight + i64(len(self.listed)) - self.listed_to

    def rows_to_visit(self) -> i64:
        """Return how many rows ``count`` would visit: of whole segments it adds the counts."""
        index = self.index
        first = max(self.counted_to + 1, self.next, index.first_seq)
        whole_to = self.whole_to if self.filters else index.last_seq
        if first > whole_to or not index.segments:
            return index.last_seq - first + 1
        n: i64 = max(i64(0), index.segment_at(first))
        last = max(n, index.segment_at(whole_to))
        rows = last - n
        if whole_to < index.last_seq:
            # The last whole segment may have grown since: its rows are visited.
            if n == last:
                return index.last_seq - first + 1
            rows += index.last_seq - index.segments[last].base + 1
        if first > index.segments[n].base:
            rows += max(i64(0), index.segments[n].last_seq() - first + 1)
        return rows

    def whole_end(self, first: i64) -> i64:
        """Return the end of the segment that starts here, if ``count`` does not visit its rows."""
        index = self.index
        columns = index.segment_of(first)
        if columns is None or columns.base < first:
            return 0
        end = columns.last_seq()
        return 0 if end > (self.whole_to if self.filters else index.last_seq) else end

    def count_some(self) -> bool:
        """Count as many as one turn allows; True when ``catch_up`` has hardly anything to do."""
        counting = self.subject_count
        if counting is not None:
            if counting.step():
                self.subject_count = None
                self.left += counting.total
                self.counted_to = counting.last
            return False
        if self.uncounted() <= ROWS_PER_TURN:
            return True
        if self.listed_to < i64(len(self.listed)):
            self.count_listed(self.listed_to + ROWS_PER_TURN)
            return False
        first = max(self.counted_to + 1, self.next, self.index.first_seq)
        first = self.index.after_gap(first)
        last = min(first + self.rows_per_turn - 1, self.index.last_seq)
        last = max(last, self.whole_end(first))
        self.left += self.count(first, last)
        self.counted_to = last
        return False

    def count_listed(self, end: i64) -> None:
        """Count listed messages, up to an index in the list."""
        end = min(end, i64(len(self.listed)))
        while self.listed_to < end:
            if self.exists(self.listed[self.listed_to]):
                self.left += 1
            self.listed_to += 1

    def recount_later(self) -> None:
        """Recount when it is needed: in a purge in steps, not after each of them."""
        self.stale = True
        self.left = 0
        self.listed_to = self.listed_at
        self.counted_to = self.next - 1
        self.whole_to = 0
        self.subject_count = None

    def recount(self) -> None:
        """Recount: now if few subjects match, otherwise on demand."""
        self.recount_later()
        self.stale = False
        index = self.index
        if index.last_seq - self.counted_to <= self.rows_per_turn or not self.filters:
            return
        if len(self.filters) == 1 and index.all_match(self.filters[0]):
            self.whole_to = index.last_seq
        elif not self.count_by_subjects() and self.next <= index.first_seq:
            rows = index.last_seq - index.first_seq
            if rows > SUBJECTS_WORTH * i64(len(index.entries)):
                self.subject_count = SubjectCount(self)

    def count_by_subjects(self) -> bool:
        """Count by the matching subjects; False if they or the messages to skip are many."""
        entries = self.few_entries()
        if entries is None:
            return False
        rows = ROWS_PER_TURN
        count: i64 = 0
        nearest: i64 = self.index.last_seq + 1
        for entry in entries:
            if entry.count == 0 or entry.last < self.next:
                continue
            seq = entry.first
            there = i64(entry.count)
            while seq < self.next:
                seq = self.index.next_in_subject(seq)
                there -= 1
                rows -= 1
                if rows < 0 or seq == 0:
                    return False
            count += there
            nearest = min(nearest, seq)
        self.left = count
        self.counted_to = max(self.index.last_seq, self.next - 1)
        self.nothing_from = self.next
        self.nothing_to = nearest
        return True

    def few_entries(self) -> list[SubjectEntry] | None:
        """Return the matching subjects; None if they are many, or finding them would take long."""
        index = self.index
        if len(self.filters) <= FILTERS_LOOKED_UP_MAX:
            return index.few_entries(self.filters, SUBJECTS_COUNTED)
        if len(index.entries) * self.weight > SUBJECTS_JUDGED_MAX:
            return None
        self.check_generation()
        return [entry for entry in index.entries if self.wants(i64(entry.id))]

    def exists(self, seq: i64) -> bool:
        """Return whether a message exists in the stream."""
        columns = self.index.segment_of(seq)
        return columns is not None and columns.offsets[seq - columns.base] != NOWHERE

    def peek(self) -> i64:
        """Return the next message; 0 if none, SEARCHING: ask again next turn."""
        while self.listed_at < i64(len(self.listed)):
            seq = self.listed[self.listed_at]
            if self.exists(seq):
                return seq
            self.listed_at += 1
        if self.left <= 0:
            return 0
        seq = self.next
        if self.nothing_from == seq:
            seq = max(seq, self.nothing_to)
        last = self.index.last_seq
        # Lengths: a compiled test of bytes for truth is a call.
        if len(self.filters) == 0 or last - seq <= self.rows_per_turn or len(self.literal) > 0:
            seq = self.find(seq)
            if seq == 0:
                self.left = 0  # cannot happen: the count is exact
            return seq
        self.check_generation()
        seq = self.index.after_gap(max(seq, self.index.first_seq))
        found = self.search(seq, seq + self.rows_per_turn)
        if found == 0:
            self.nothing_from = self.next
            self.nothing_to = seq + self.rows_per_turn + 1
            return SEARCHING
        return found

    def advance(self, seq: i64) -> None:
        """Advance past the message that was peeked at, which is delivered."""
        self.left -= 1
        if self.listed_at < i64(len(self.listed)):
            self.listed_at += 1
            if self.listed_at == i64(len(self.listed)):
                self.list_first(vec[i64](), b"")
            return
        self.next = seq + 1
        self.hint = seq

    def pass_counted(self) -> None:
        """Continue after what was counted: nothing of it is left."""
        self.next = max(self.next, self.counted_to + 1)

    def removed(self, seq: i64, subject_id: i64) -> None:
        """Note that a message was removed from the stream; ``subject_id`` is its subject's id."""
        if self.subject_count is not None:
            self.subject_count.removed(seq, subject_id)
        if self.next <= seq <= self.counted_to:
            if self.wants(subject_id):
                self.left -= 1
            return
        place = self.listed_place(seq)
        if 0 <= place < self.listed_to:
            self.left -= 1

    def removed_together(self, lowest: i64, highest: i64, count: i64, many: bool) -> bool:
        """Note that ``count`` messages of a range were removed; False: each must be noted."""
        if self.subject_count is None and len(self.listed) == 0:
            if highest < self.next or lowest > self.counted_to:
                return True
            if not self.filters and self.next <= lowest and highest <= self.counted_to:
                self.left -= count
                return True
        if many:
            self.recount_later()
        return many

    def is_listed(self, seq: i64) -> bool:
        """Return whether a message is in the list and was not delivered yet."""
        return self.listed_place(seq) >= 0

    def listed_left(self) -> list[int]:
        """Return the listed messages that were not delivered yet."""
        left: list[int] = []
        i = self.listed_at
        while i < i64(len(self.listed)):
            left.append(int(self.listed[i]))
            i += 1
        return left

    def listed_place(self, seq: i64) -> i64:
        """Return the index of a message in the list; -1 if it is not in it."""
        low = self.listed_at
        high: i64 = len(self.listed)
        while low < high:
            middle = (low + high) >> 1
            if self.listed[middle] < seq:
                low = middle + 1
            else:
                high = middle
        if low < i64(len(self.listed)) and self.listed[low] == seq:
            return low
        return -1


class SubjectCount:
    """Adds up the messages of the matching subjects of a consumer, some subjects in each turn.

    For a consumer of all messages of its subjects. Messages may be stored and removed meanwhile:
    the count of a subject includes those up to the end of the stream when it was visited. When all
    were visited, the rows stored since the start are visited: those that were stored after their
    subject was visited are added.
    """

    def __init__(self, cursor: Cursor) -> None:
        index = cursor.index
        self.cursor: Cursor = cursor
        self.total: i64 = 0
        self.subjects_per_turn: i64 = max(i64(1), SUBJECTS_PER_TURN // cursor.weight)
        # The next subject, by id; those after ``end`` have no message up to ``row``.
        self.at: i64 = 0
        self.end: i64 = len(index.entries)
        # The end of the stream at each step, and at the last one.
        self.ends: vec[i64] = vec[i64]()
        self.last: i64 = index.last_seq
        # Rows up to this one are included.
        self.row: i64 = index.last_seq

    def step(self) -> bool:
        """Visit some subjects, then some rows; True when ``total`` is right up to ``last``."""
        cursor = self.cursor
        cursor.check_generation()
        if self.at < self.end:
            self.add_subjects(cursor.index)
            return False
        row = cursor.index.after_gap(self.row + 1)
        stop = min(self.last, row + cursor.rows_per_turn)
        self.add_rows(cursor.index, row, stop)
        self.row = stop
        return stop >= self.last

    def add_subjects(self, index: StreamIndex) -> None:
        """Add the counts of some subjects."""
        self.last = index.last_seq
        self.ends = append(self.ends, self.last)
        at = self.at
        stop = at + self.subjects_per_turn
        # Ids at the end may have been given up, and others added since.
        self.end = min(self.end, i64(len(index.entries)))
        while at < min(stop, self.end):
            entry = index.entries[at]
            if entry.count > 0 and self.cursor.wants(at):
                self.total += i64(entry.count)
            at += 1
        self.at = stop

    def add_rows(self, index: StreamIndex, first: i64, last: i64) -> None:
        """Add the messages of some rows that their subjects did not include."""
        n: i64 = max(i64(0), index.segment_at(first))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            if columns.base > last:
                break
            i: i64 = max(i64(0), first - columns.base)
            stop: i64 = min(i64(len(columns.offsets)), last - columns.base + 1)
            while i < stop:
                if columns.offsets[i] != NOWHERE:
                    subject_id = i64(columns.subjects[i])
                    is_later = columns.base + i > self.end_of(subject_id)
                    if is_later and self.cursor.wants(subject_id):
                        self.total += 1
                i += 1
            n += 1

    def end_of(self, subject_id: i64) -> i64:
        """Return up to which sequence the messages of a subject were added with its count."""
        if subject_id >= min(self.at, self.end):
            return 0
        return self.ends[subject_id // self.subjects_per_turn]

    def removed(self, seq: i64, subject_id: i64) -> None:
        """Subtract a message that was removed, if it was added."""
        added = seq <= self.end_of(subject_id) or (self.at >= self.end and seq <= self.row)
        if added and self.cursor.wants(subject_id):
            self.total -= 1


class Packer:
    """Packs ascending sequences: the distance of each from the one before.

    Seven bits per byte, the lowest first; the highest bit says that more follow. A journal record
    of a million sequences is a megabyte, built as they are found and not in one turn.
    """

    def __init__(self) -> None:
        self.writer: BytesWriter = BytesWriter()
        self.last: i64 = 0

    def add(self, seq: i64) -> None:
        """Append a sequence."""
        step = seq - self.last
        self.last = seq
        while step > 127:
            self.writer.append(int((step & 127) | 128))
            step >>= 7
        self.writer.append(int(step))


def packed(sequences: vec[i64]) -> bytes:
    """Return a long list packed; nothing for a short one."""
    if i64(len(sequences)) <= SUBJECTS_COUNTED:
        return b""
    packer = Packer()
    for seq in sequences:
        packer.add(seq)
    return packer.writer.getvalue()


def unpacked(data: bytes) -> vec[i64]:
    """Return the sequences that a ``Packer`` wrote. Raises ValueError for other bytes."""
    found = vec[i64]()
    seq: i64 = 0
    step: i64 = 0
    shift: i64 = 0
    for byte in data:
        if shift > 56:
            raise ValueError("a list of sequences has a number that is too long")
        step |= (i64(byte) & 127) << shift
        shift += 7
        if byte < 128:
            seq += step
            found = append(found, seq)
            step = 0
            shift = 0
    if shift:
        raise ValueError("a list of sequences ends within a number")
    return found


class Listing:
    """Finds the last message of each subject up to a sequence, some rows in each turn.

    It finds what the stream had when it started, except for what was removed meanwhile.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor: Cursor = cursor
        self.last: i64 = cursor.index.last_seq
        self.at: i64 = cursor.index.first_seq
        self.found: vec[i64] = vec[i64]()
        self.packer: Packer = Packer()

    def step(self) -> bool:
        """Visit some rows; True when finished."""
        cursor = self.cursor
        cursor.check_generation()
        index = cursor.index
        self.at = index.after_gap(self.at)
        end = min(self.at + cursor.rows_per_turn, self.last + 1)
        n: i64 = max(i64(0), index.segment_at(self.at))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            if columns.base >= end:
                break
            i: i64 = max(i64(0), self.at - columns.base)
            stop = min(i64(len(columns.offsets)), end - columns.base)
            while i < stop:
                if columns.offsets[i] != NOWHERE and cursor.wants(i64(columns.subjects[i])):
                    seq = columns.base + i
                    following = index.next_in_subject(seq)
                    if following == 0 or following > self.last:
                        self.found = append(self.found, seq)
                        self.packer.add(seq)
                i += 1
            n += 1
        self.at = end
        return end > self.last
