"""The subjects of a stream in their order: a wildcard looks at those that begin like it.

One sorted list of all subjects and a short unsorted tail of new ones, merged when it is full
(contracts.md 4). Made when a wildcard is first asked about: streams whose readers never use one
pay nothing. Not compiled: what takes time here is sorting.
"""

from bisect import bisect_left
from typing import Final

TAIL_MAX: Final = 4096


class SubjectOrder:
    """Finds the subjects that begin as a pattern does."""

    def __init__(self, tail_max: int = TAIL_MAX) -> None:
        self.ordered: list[bytes] = []
        self.tail: list[bytes] = []
        self.tail_max = tail_max

    def make(self, subjects: list[bytes]) -> None:
        """Begin with these subjects."""
        self.ordered = sorted(subjects)
        self.tail = []

    def add(self, subject: bytes) -> None:
        """A subject is new."""
        self.tail.append(subject)
        if len(self.tail) > self.tail_max:
            # Two runs that are sorted already: merged in one pass.
            self.tail.sort()
            self.ordered.extend(self.tail)
            self.ordered.sort()
            self.tail = []

    def forget(self) -> None:
        """Subjects went: begin anew when somebody asks."""
        self.ordered = []
        self.tail = []

    def beginning_with(self, prefix: bytes) -> list[bytes]:
        """The subjects that begin with ``prefix``, which ends with a dot, and all of the tail."""
        low, high = self._range(prefix)
        return self.ordered[low:high] + self.tail

    def count(self, prefix: bytes) -> int:
        """How many ``beginning_with`` finds."""
        low, high = self._range(prefix)
        return high - low + len(self.tail)

    def _range(self, prefix: bytes) -> tuple[int, int]:
        low = bisect_left(self.ordered, prefix)
        # The character behind a dot in the order of bytes is a slash.
        return low, bisect_left(self.ordered, prefix[:-1] + b"/", low)
