"""The newest message of a pattern, and the next one after a sequence, found in steps.

Most searches end at once, by the newest messages or by the order of the subjects
(``StreamIndex.quick_last`` and ``quick_next``). A pattern that no order helps with, ``*.*.x``
where all first tokens differ, is compared with every subject: some of them in each turn.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.log.columns import NOWHERE
from jetspark.store.log.index import PatternFlags, StreamIndex
from jetspark.subjects.match import matches

UNKNOWN: Final[i64] = -1
# Units of a turn (turn.py) for the subjects that are visited in one step, and rows likewise.
SUBJECT_UNITS: Final[i64] = 8_192
ROWS: Final[i64] = 16_384


class LastSearch:
    """Finds the newest message of a pattern.

    ``last`` is exact for the messages up to ``as_of``, once ``step`` has returned True, until one
    of them is removed. Later calls of ``step`` follow the stream.
    """

    def __init__(self, index: StreamIndex, pattern: bytes) -> None:
        self.pattern: bytes = pattern
        self.last: i64 = 0
        self.as_of: i64 = index.last_seq
        self._index: StreamIndex = index
        self._following: bytes = b""
        self._is_searched: bool = False

    def step(self) -> bool:
        """Visit as many subjects as a turn allows; True when ``last`` is exact."""
        index = self._index
        if not self._is_searched:
            if not index.order_made():
                index.order_step()
                return False
            subjects: list[bytes] = []
            self._following = index.order.matching(
                self.pattern, self._following, SUBJECT_UNITS, subjects
            )
            for entry in index.entries_of(subjects):
                if entry.count > 0 and entry.last > self.last:
                    self.last = entry.last
            if self._following:
                return False
            self._is_searched = True
        return self.catch_up(ROWS)

    def catch_up(self, rows: i64) -> bool:
        """Visit the messages stored since, up to so many rows; True when ``last`` is exact."""
        index = self._index
        if not self._is_searched:
            return False
        end = index.last_seq
        n: i64 = max(i64(0), index.segment_at(self.as_of + 1))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            n += 1
            i: i64 = max(i64(0), self.as_of + 1 - columns.base)
            stop: i64 = min(i64(len(columns.offsets)), end - columns.base + 1)
            while i < stop:
                if rows <= 0:
                    return False
                rows -= 1
                self.as_of = columns.base + i
                if columns.offsets[i] != NOWHERE and matches(
                    index.entries[i64(columns.subjects[i])].subject, self.pattern
                ):
                    self.last = max(self.last, self.as_of)
                i += 1
        self.as_of = end
        if self.last > 0 and not self._exists(self.last):
            # It was removed: which one is the newest now?
            self.last = 0
            self._following = b""
            self._is_searched = False
            return False
        return True

    def _exists(self, seq: i64) -> bool:
        columns = self._index.segment_of(seq)
        return columns is not None and columns.offsets[seq - columns.base] != NOWHERE


class NextSearch:
    """Finds the first message of a pattern at or after a sequence."""

    def __init__(self, index: StreamIndex, seq: i64, pattern: bytes) -> None:
        self._index: StreamIndex = index
        self._seq: i64 = seq
        self._flags: PatternFlags = PatternFlags(pattern)
        self._generation: i64 = index.generation

    def step(self) -> i64:
        """Visit as many rows as a turn allows; return the message, 0: none, UNKNOWN: continue."""
        index = self._index
        if self._generation != index.generation:
            # Subjects have other ids.
            self._generation = index.generation
            self._flags = PatternFlags(self._flags.pattern)
        rows = ROWS
        seq = index.after_gap(max(self._seq, index.first_seq))
        n: i64 = max(i64(0), index.segment_at(seq))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            n += 1
            i: i64 = max(i64(0), seq - columns.base)
            end: i64 = len(columns.offsets)
            while i < end:
                self._seq = columns.base + i
                if rows <= 0:
                    return UNKNOWN
                rows -= 1
                if columns.offsets[i] != NOWHERE and self._flags.match(
                    i64(columns.subjects[i]), index.entries
                ):
                    return self._seq
                i += 1
        return 0
