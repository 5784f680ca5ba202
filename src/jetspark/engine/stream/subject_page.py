"""One page of the subjects of a stream with their message counts, collected in steps.

Each count is from some time between the request and its answer.
"""

from typing import Final

import msgspec

from jetspark.store.log.index import StreamIndex
from jetspark.subjects.tokens import is_literal

# In units of a turn (turn.py); this includes encoding the subjects.
UNITS_PER_STEP: Final = 4096


class SubjectPage:
    """The subjects that match a pattern, in order, from the one at ``offset`` on."""

    def __init__(self, index: StreamIndex, pattern: bytes, offset: int, limit: int) -> None:
        self._index = index
        self._pattern = pattern
        self._first = offset
        self._end = offset + limit
        self._next = b""
        self._encoded: list[bytes] = []
        # The total number of matches.
        self.total: int = 0

    def step(self) -> bool:
        """Visit some subjects; True when finished."""
        index = self._index
        if is_literal(self._pattern):
            self._add([self._pattern])
            return True
        if not index.order_made():
            index.order_step()
            return False
        found: list[bytes] = []
        self._next = index.order.matching(self._pattern, self._next, UNITS_PER_STEP, found)
        self._add(found)
        index.turn.spend(2 * len(found))
        if self.total >= self._end and index.all_match(self._pattern):
            # The page is full, and the others need not be visited to know how many there are.
            self.total = max(self.total, int(index.subject_count))
            return True
        return not self._next

    def _add(self, subjects: list[bytes]) -> None:
        shown: dict[str, int] = {}
        for entry in self._index.entries_of(subjects):
            if entry.count > 0:
                if self._first <= self.total < self._end:
                    shown[entry.subject.decode("utf-8", "replace")] = int(entry.count)
                self.total += 1
        if shown:
            self._encoded.append(msgspec.json.encode(shown)[1:-1])

    def counts(self) -> msgspec.Raw | None:
        """Return the page as a JSON object; None if it is empty."""
        return msgspec.Raw(b"{" + b",".join(self._encoded) + b"}") if self._encoded else None
