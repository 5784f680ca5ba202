"""The newest staged message of a pattern, found in steps.

On a slow disk hundreds of thousands of messages may be staged. What was found is kept: the next
step visits the messages that were staged since.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.log.index import MATCHED_PER_UNIT
from jetspark.store.log.staged import Staged
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.subjects.match import matches

# So many staged messages are visited in one turn.
VISITED_AT_ONCE: Final[i64] = 16_384


class StagedSearch:
    """Finds the newest staged message of a pattern that decisions see.

    ``last`` is exact when ``step`` has returned True, until the next decision; 0: none.
    """

    def __init__(self, staged: Staged, pattern: bytes) -> None:
        self.staged: Staged = staged
        self.pattern: bytes = pattern
        self.last: i64 = 0
        # The subject of that message.
        self._newest: SubjectEntry | None = None
        # The lists of staged messages that were visited, and how far each of them was.
        self._visited: list[tuple[list[SubjectEntry], int]] = []

    def step(self, rows: i64) -> bool:
        """Visit up to so many messages; True when ``last`` is exact."""
        staged = self.staged
        staged.look_up()
        newest = self._newest
        if newest is not None and newest.staged_last < self.last:
            # It was removed, or is durable: which one is the newest now?
            newest = None
            self._visited = []
        last: i64 = 0 if newest is None else newest.staged_last
        if last <= staged.index.last_seq:
            newest = None
            last = staged.index.last_seq
        left = rows
        visited: list[tuple[list[SubjectEntry], int]] = []
        for entries in staged.staged_entries():
            at = self._place(entries)
            end = min(i64(len(entries)), at + left)
            left -= end - at
            while at < end:
                entry = entries[at]
                if entry.staged_last > last and matches(entry.subject, self.pattern):
                    last = entry.staged_last
                    newest = entry
                at += 1
            visited.append((entries, int(at)))
        self._visited = visited
        self._newest = newest
        self.last = 0 if newest is None else last
        staged.index.turn.spend((rows - left) // MATCHED_PER_UNIT)
        return left > 0

    def _place(self, entries: list[SubjectEntry]) -> i64:
        """Return how many messages of a list were visited."""
        for visited, at in self._visited:
            if visited is entries:
                return at
        return 0
