"""Read-after-write (ADR-53): reads that ask for a sequence the stream does not have yet.

Such a read is held and answered the moment the sequence arrives; only when the wait is over is it
refused with 412 (decisions.md). The number of held reads is bounded.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from jetspark.api.message import MsgGetRequest
from jetspark.engine.stream.stream import Stream


@dataclass(slots=True)
class HeldRead:
    """A read that waits for its stream. ``direct``: or else STREAM.MSG.GET."""

    stream: Stream
    request: MsgGetRequest
    reply: bytes
    deadline_ns: int
    direct: bool = True
    is_over: bool = False


@dataclass(slots=True)
class _Waiting:
    """The reads of one stream, those that ask for the lowest sequence first."""

    heap: list[tuple[int, int, HeldRead]] = field(default_factory=list)
    over: int = 0

    def forget_over(self) -> None:
        """Drop reads that waited too long, when they are more than half."""
        if self.over * 2 > len(self.heap):
            self.heap = [entry for entry in self.heap if not entry[2].is_over]
            heapify(self.heap)
            self.over = 0


class Gate:
    """The reads that wait. All wait equally long, so the order of arrival is deadline order."""

    def __init__(self, wait_ns: int, held_max: int) -> None:
        self._wait_ns = wait_ns
        self._held_max = held_max
        self._count = 0
        self._number = 0
        self._by_deadline: deque[HeldRead] = deque()
        self._by_stream: dict[Stream, _Waiting] = {}

    def hold(
        self, stream: Stream, request: MsgGetRequest, reply: bytes, now: int, *, direct: bool
    ) -> bool:
        """Let a read wait; False when too many do already."""
        if self._count >= self._held_max:
            return False
        held = HeldRead(stream, request, reply, now + self._wait_ns, direct)
        self._count += 1
        self._number += 1
        self._by_deadline.append(held)
        waiting = self._by_stream.setdefault(stream, _Waiting())
        heappush(waiting.heap, (request.min_last_seq, self._number, held))
        return True

    def released(self, stream: Stream) -> list[HeldRead]:
        """Take out the reads that this stream's last sequence satisfies now."""
        waiting = self._by_stream.get(stream)
        if waiting is None:
            return []
        last = stream.log.index.last_seq
        ready = []
        while waiting.heap and waiting.heap[0][0] <= last:
            _, _, held = heappop(waiting.heap)
            if held.is_over:
                waiting.over -= 1
            else:
                held.is_over = True
                ready.append(held)
        self._count -= len(ready)
        if not waiting.heap:
            del self._by_stream[stream]
        return ready

    def expired(self, now: int) -> list[HeldRead]:
        """Take out the reads that waited long enough."""
        late = []
        while self._by_deadline and (
            self._by_deadline[0].is_over or self._by_deadline[0].deadline_ns <= now
        ):
            held = self._by_deadline.popleft()
            if held.is_over:
                continue
            held.is_over = True
            late.append(held)
            waiting = self._by_stream[held.stream]
            waiting.over += 1
            waiting.forget_over()
            if not waiting.heap:
                del self._by_stream[held.stream]
        self._count -= len(late)
        return late

    def next_deadline(self) -> int | None:
        """When the next read has waited long enough."""
        while self._by_deadline and self._by_deadline[0].is_over:
            self._by_deadline.popleft()
        return self._by_deadline[0].deadline_ns if self._by_deadline else None
