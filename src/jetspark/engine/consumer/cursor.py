"""Which message a consumer gets next, and how many are left: exact, and kept as it goes.

Nothing here reads a message: the index knows every subject by its number, and a filter is a byte
per number, worked out when the number is first seen (speed.md 4.6). New rows are counted when
somebody looks, removed ones as they are removed, so an idle consumer costs nothing.
"""

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64, u8

from jetspark.store.columns import NOWHERE, Columns
from jetspark.store.index import StreamIndex
from jetspark.store.subject_table import SubjectEntry
from jetspark.subjects.match import matches
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.tokens import is_literal

_UNKNOWN: Final[u8] = 0
_NO: Final[u8] = 1
_YES: Final[u8] = 2
FILTERS_TRIED_MAX: Final = 4


class Cursor:
    """The place of one consumer in its stream."""

    def __init__(self, index: StreamIndex, filters: list[bytes]) -> None:
        self.index: StreamIndex = index
        self.filters: list[bytes] = []
        # All filters, when there are more than are tried one after the other.
        self.patterns: PatternSet | None = None
        self.literal: bytes = b""
        self.flags: vec[u8] = vec[u8]()
        self.generation: i64 = 0
        # The next sequence to look at; matching messages from there to ``counted_to``.
        self.next: i64 = 1
        self.left: i64 = 0
        self.counted_to: i64 = 0
        # The message found last by a literal filter, whose chain leads to the next one.
        self.hint: i64 = 0
        # Last per subject: the sequences that come first, and how many of them are done.
        self.listed: vec[i64] = vec[i64]()
        self.listed_at: i64 = 0
        self.set_filters(filters)

    def set_filters(self, filters: list[bytes]) -> None:
        """Go by other filters; ``recount`` must follow."""
        self.filters = filters
        self.patterns = None
        if len(filters) > FILTERS_TRIED_MAX:
            self.patterns = PatternSet()
            for pattern in filters:
                self.patterns.add(pattern, pattern)
        self.literal = filters[0] if len(filters) == 1 and is_literal(filters[0]) else b""
        self.flags = vec[u8]()
        self.generation = self.index.generation
        self.hint = 0

    # Matching ----------------------------------------------------------------------------------

    def wants(self, number: i64) -> bool:
        """Say whether messages of a subject, by its number, are for this consumer."""
        if not self.filters:
            return True
        if number < i64(len(self.flags)):
            flag = self.flags[number]
            if flag != _UNKNOWN:
                return flag == _YES
        return self.judge(number)

    def judge(self, number: i64) -> bool:
        """Work out and keep whether a subject matches."""
        while i64(len(self.flags)) <= number:
            self.flags = append(self.flags, _UNKNOWN)
        found = self.matches(self.index.entries[number].subject)
        self.flags[number] = _YES if found else _NO
        return found

    def matches(self, subject: bytes) -> bool:
        """Say whether messages of a subject are for this consumer."""
        if not self.filters:
            return True
        if self.patterns is not None:
            return self.patterns.matches(subject)
        for pattern in self.filters:  # noqa: SIM110 - a loop is compiled, a generator is not
            if matches(subject, pattern):
                return True
        return False

    def check_generation(self) -> None:
        """Numbers may have changed hands: what is known of them is worth nothing then."""
        if self.generation != self.index.generation:
            self.generation = self.index.generation
            self.flags = vec[u8]()

    def find(self, seq: i64) -> i64:
        """The first message at or after ``seq`` for this consumer; 0 when there is none."""
        if not self.filters:
            return self.index.next_seq(seq, b"")
        self.check_generation()
        if self.literal:
            entry = self.index.subjects.get(self.literal)
            if entry is None or entry.count == 0 or entry.last < seq:
                return 0
            if seq <= entry.first:
                return entry.first
            found = self.follow(seq, entry)
            if found > 0:
                return found
        index = self.index
        seq = max(seq, index.first_seq)
        n: i64 = max(i64(0), index.segment_at(seq))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            i = self.scan(columns, max(i64(0), seq - columns.base))
            if i >= 0:
                return columns.base + i
            n += 1
        return 0

    def follow(self, seq: i64, entry: SubjectEntry) -> i64:
        """Follow the chain of the subject from the message found last; 0 when it is broken."""
        if self.hint == 0 or self.hint >= seq:
            return 0
        columns = self.index.segment_of(self.hint)
        if columns is None:
            return 0
        found = self.index.live_from(columns.nexts[self.hint - columns.base], entry)
        while 0 < found < seq:
            found = self.index.next_in_subject(found)
        return found

    def scan(self, columns: Columns, i: i64) -> i64:
        """The first row at or after ``i`` that matches; -1 when none does."""
        end: i64 = len(columns.offsets)
        while i < end:
            if columns.offsets[i] != NOWHERE and self.wants(i64(columns.subjects[i])):
                return i
            i += 1
        return -1

    def count(self, first: i64, last: i64) -> i64:
        """How many messages from ``first`` to ``last`` are for this consumer."""
        self.check_generation()
        index = self.index
        first = max(first, index.first_seq)
        last = min(last, index.last_seq)
        if not self.filters and index.messages == index.last_seq - index.first_seq + 1:
            return max(i64(0), last - first + 1)
        count: i64 = 0
        n: i64 = max(i64(0), index.segment_at(first))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            i: i64 = max(i64(0), first - columns.base)
            end: i64 = min(i64(len(columns.offsets)), last - columns.base + 1)
            while i < end:
                if columns.offsets[i] != NOWHERE and self.wants(i64(columns.subjects[i])):
                    count += 1
                i += 1
            n += 1
        return count

    # Going on ----------------------------------------------------------------------------------

    def catch_up(self) -> i64:
        """Count what came since the last time; how many messages are left now."""
        last = self.index.last_seq
        if last > self.counted_to:
            self.left += self.count(max(self.counted_to + 1, self.next), last)
            self.counted_to = last
        return self.left

    def recount(self) -> None:
        """Count everything again."""
        last = self.index.last_seq
        self.counted_to = max(last, self.next - 1)
        self.left = self.count(self.next, last)
        i = self.listed_at
        while i < i64(len(self.listed)):
            if self.is_there(self.listed[i]):
                self.left += 1
            i += 1

    def is_there(self, seq: i64) -> bool:
        """Say whether a message is in the stream."""
        columns = self.index.segment_of(seq)
        return columns is not None and columns.offsets[seq - columns.base] != NOWHERE

    def peek(self) -> i64:
        """The message that comes next; 0 when there is none."""
        while self.listed_at < i64(len(self.listed)):
            seq = self.listed[self.listed_at]
            if self.is_there(seq):
                return seq
            self.listed_at += 1
        if self.left <= 0:
            return 0
        seq = self.find(self.next)
        if seq == 0:
            self.left = 0  # cannot be: the count is exact
        return seq

    def advance(self, seq: i64) -> None:
        """The message that was peeked at is delivered."""
        self.left -= 1
        if self.listed_at < i64(len(self.listed)):
            self.listed_at += 1
            if self.listed_at == i64(len(self.listed)):
                self.listed = vec[i64]()
                self.listed_at = 0
            return
        self.next = seq + 1
        self.hint = seq

    def removed(self, seq: i64, number: i64) -> None:
        """A message was removed from the stream; ``number`` is its subject's."""
        if self.next <= seq <= self.counted_to:
            if self.wants(number):
                self.left -= 1
            return
        if self.is_listed(seq):
            self.left -= 1

    def is_listed(self, seq: i64) -> bool:
        """Say whether a message is one of those that come first and did not come yet."""
        low = self.listed_at
        high: i64 = len(self.listed)
        while low < high:
            middle = (low + high) >> 1
            if self.listed[middle] < seq:
                low = middle + 1
            else:
                high = middle
        return low < i64(len(self.listed)) and self.listed[low] == seq
