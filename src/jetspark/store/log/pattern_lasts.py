"""The last messages of several patterns, as decisions see them, found in steps.

An atomic batch may expect something of a thousand patterns, all of which hold at its commit.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.log.columns import NOWHERE
from jetspark.store.log.index import MATCHED_PER_UNIT
from jetspark.store.log.staged import Staged
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.subjects.match import matches

# So many comparisons of a subject with a pattern are made in one turn: about 3 ms.
COMPARED_AT_ONCE: Final[i64] = 65_536


class PatternLasts:
    """Finds the last message of each of some patterns that decisions see.

    It visits all subjects, then the messages that were stored meanwhile. With a thousand patterns
    the latter takes 40 us for each: the client waits until the stream is less busy.
    """

    def __init__(self, staged: Staged, patterns: set[bytes]) -> None:
        self.staged: Staged = staged
        self.patterns: set[bytes] = patterns
        self._ordered: list[bytes] = list(patterns)
        self._lasts: list[int] = []
        # The subjects of those messages.
        self._newest: list[SubjectEntry | None] = []
        # The subjects with lower ids were visited, and the durable messages up to there.
        self._id: i64 = 0
        self._as_of: i64 = 0
        # The lists of staged messages that were visited, and how far each of them was.
        self._visited: list[tuple[list[SubjectEntry], int]] = []
        self._generation: i64 = 0
        self._left: i64 = 0
        self._begin()

    def lasts(self) -> dict[bytes, int]:
        """Return the last sequences, 0 for none; exact until the next decision after a step."""
        return dict(zip(self._ordered, self._lasts, strict=True))

    def step(self, comparisons: i64) -> bool:
        """Compare about so often; True when everything was visited."""
        index = self.staged.index
        self.staged.look_up()
        if self._generation != index.generation or self._is_removed():
            self._begin()
        self._left = comparisons
        done = self._see_subjects() and self._see_durable() and self._see_staged()
        index.turn.spend((comparisons - self._left) // MATCHED_PER_UNIT)
        return done

    def _begin(self) -> None:
        index = self.staged.index
        self._lasts = [0] * len(self._ordered)
        self._newest = [None] * len(self._ordered)
        self._id = 0
        self._as_of = index.last_seq
        self._visited = []
        self._generation = index.generation

    def _is_removed(self) -> bool:
        """Return whether one of the messages was removed: another one is the last now."""
        for last, entry in zip(self._lasts, self._newest, strict=True):
            if entry is not None and entry.staged_last < last:
                return True
        return False

    def _see(self, entry: SubjectEntry) -> None:
        """Compare a subject with all patterns."""
        newest = int(entry.staged_last)
        self._left -= len(self._ordered)
        for n, last in enumerate(self._lasts):
            if newest > last and matches(entry.subject, self._ordered[n]):
                self._lasts[n] = newest
                self._newest[n] = entry

    def _see_subjects(self) -> bool:
        entries = self.staged.index.entries
        while self._id < i64(len(entries)):
            if self._left <= 0:
                return False
            self._see(entries[self._id])
            self._id += 1
        return True

    def _see_durable(self) -> bool:
        """Visit the messages that have become durable since."""
        index = self.staged.index
        end = index.last_seq
        n: i64 = max(i64(0), index.segment_at(self._as_of + 1))
        while n < i64(len(index.segments)):
            columns = index.segments[n]
            n += 1
            i: i64 = max(i64(0), self._as_of + 1 - columns.base)
            stop: i64 = min(i64(len(columns.offsets)), end - columns.base + 1)
            while i < stop:
                if self._left <= 0:
                    return False
                self._as_of = columns.base + i
                if columns.offsets[i] != NOWHERE:
                    self._see(index.entries[i64(columns.subjects[i])])
                i += 1
        self._as_of = end
        return True

    def _see_staged(self) -> bool:
        """Visit the messages that were staged since."""
        before = self._visited
        self._visited = []
        for entries in self.staged.staged_entries():
            at: i64 = 0
            for visited, place in before:
                if visited is entries:
                    at = place
            while at < i64(len(entries)) and self._left > 0:
                self._see(entries[at])
                at += 1
            self._visited.append((entries, int(at)))
        return self._left > 0
