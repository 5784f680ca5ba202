"""Deadlines: one heap for streams, one for consumers (contracts.md, Commit)."""

from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

from mypy_extensions import i64


class Timed(Protocol):
    """Something with deadlines. ``deadline`` is the one that is queued here; 0: none."""

    deadline: i64
    dropped: bool

    def next_deadline(self) -> i64:
        """Return when something is due; 0 if nothing."""
        ...

    def queue_deadline(self, deadline: i64) -> None:
        """Set the deadline that is queued here; 0: none."""
        ...


# Very many may have the same deadline, and each may cost some twenty microseconds.
DUE_MAX: Final = 128

_Timed = TypeVar("_Timed", bound=Timed)


class Deadlines(Generic[_Timed]):
    """The next deadline of each object that has one.

    A stale entry is skipped when its time comes: nothing is searched for.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Timed]] = []
        self._numbers = count()  # so that two objects are never compared
        # Entries since the heap was last cleaned, and how many were left then.
        self._more = 0
        self._left = 0

    def note(self, timed: _Timed) -> None:
        """Queue the deadline of an object if it is earlier than the queued one."""
        deadline = int(timed.next_deadline())
        if deadline > 0 and (timed.deadline == 0 or deadline < timed.deadline):
            timed.queue_deadline(deadline)
            self._more += 1
            heappush(self._heap, (deadline, next(self._numbers), timed))

    def forget(self) -> None:
        """Note that an object was dropped: the heap must not keep objects alive.

        Cleaning all entries is worth it when there may be twice as many as were left last time.
        """
        self._more += 1
        if self._more > self._left:
            self._heap = [
                entry
                for entry in self._heap
                if not entry[2].dropped and entry[2].deadline == entry[0]
            ]
            heapify(self._heap)
            self._more = 0
            self._left = len(self._heap)

    def next(self) -> int | None:
        """Return when the first one is due."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> list[_Timed]:
        """Remove and return those that are due, some at a time; the rest follow next time."""
        found: list[_Timed] = []
        self._drop_stale()
        while self._heap and self._heap[0][0] <= now and len(found) < DUE_MAX:
            timed = heappop(self._heap)[2]
            timed.queue_deadline(0)
            found.append(timed)
            self._drop_stale()
        return found

    def _drop_stale(self) -> None:
        while self._heap and (
            self._heap[0][2].dropped or self._heap[0][2].deadline != self._heap[0][0]
        ):
            heappop(self._heap)
