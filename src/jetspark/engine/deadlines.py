"""When which stream has something to do: one heap for all streams (contracts.md 1)."""

from heapq import heappop, heappush
from itertools import count

from jetspark.engine.stream.stream import Stream


class Deadlines:
    """The next deadline of each stream that has one.

    An entry that is no longer true is passed over when its time comes: nothing is searched for.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Stream]] = []
        self._numbers = count()  # so that two streams are never compared

    def note(self, stream: Stream) -> None:
        """A stream may have an earlier deadline than the one that is known."""
        deadline = int(stream.next_deadline())
        if deadline > 0 and (stream.deadline == 0 or deadline < stream.deadline):
            stream.deadline = deadline
            heappush(self._heap, (deadline, next(self._numbers), stream))

    def next(self) -> int | None:
        """When the first stream has something to do."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> list[Stream]:
        """Take the streams whose time has come."""
        streams: list[Stream] = []
        self._drop_stale()
        while self._heap and self._heap[0][0] <= now:
            stream = heappop(self._heap)[2]
            stream.deadline = 0
            streams.append(stream)
            self._drop_stale()
        return streams

    def _drop_stale(self) -> None:
        while self._heap and (
            self._heap[0][2].dropped or self._heap[0][2].deadline != self._heap[0][0]
        ):
            heappop(self._heap)
