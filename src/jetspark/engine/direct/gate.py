"""Read-after-write (ADR-53): reads that request a sequence the stream does not have yet.

Such a read is held and answered as soon as the sequence arrives; only after a timeout is it
refused with 412 (decisions.md). The number of held reads is limited.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from jetspark.api.message import MsgGetRequest
from jetspark.engine.limits import HELD_READS_MAX, HELD_READS_PER_CLIENT
from jetspark.engine.stream.stream import Stream


@dataclass(slots=True)
class HeldRead:
    """A read that waits for its stream. ``direct``: or else STREAM.MSG.GET."""

    stream: Stream
    request: MsgGetRequest
    reply: bytes
    deadline_ns: int
    direct: bool = True
    requester: object = None
    is_over: bool = False

    def end(self) -> None:
        """Note that it was answered, or is not waited for any more."""
        self.is_over = True


@dataclass(slots=True)
class _Waiting:
    """The reads of one stream, those with the lowest sequence first."""

    heap: list[tuple[int, int, HeldRead]] = field(default_factory=list)
    over: int = 0

    def forget_over(self) -> None:
        """Drop reads that have ended, if they are more than half."""
        if self.over * 2 > len(self.heap):
            self.heap = [entry for entry in self.heap if not entry[2].is_over]
            heapify(self.heap)
            self.over = 0


class HeldReads:
    """The number of held reads, in the whole server and per client."""

    def __init__(
        self, most: int = HELD_READS_MAX, per_client: int = HELD_READS_PER_CLIENT
    ) -> None:
        self.most: int = most
        self.per_client = per_client
        self.count: int = 0
        self._by_requester: dict[object, int] = {}

    def limit(self, most: int) -> None:
        """Change how many may be held in the whole server."""
        self.most = most

    def take(self, requester: object) -> bool:
        """Count one more; False if that would be too many."""
        held = self._by_requester.get(requester, 0)
        if self.count >= self.most or held >= self.per_client:
            return False
        self.count += 1
        self._by_requester[requester] = held + 1
        return True

    def give_back(self, requester: object) -> None:
        """Release one that was answered."""
        self.count -= 1
        held = self._by_requester[requester] - 1
        if held:
            self._by_requester[requester] = held
        else:
            del self._by_requester[requester]


class Gate:
    """The held reads.

    The order of arrival is deadline order: all have the same timeout, or the timeout was changed
    and a few are refused somewhat late.
    """

    def __init__(self, wait_ns: int, held: HeldReads) -> None:
        self.wait_ns: int = wait_ns
        self._held = held
        self._number = 0
        self._by_deadline: deque[HeldRead] = deque()
        self.by_stream: dict[Stream, _Waiting] = {}

    def change_wait(self, wait_ns: int) -> None:
        """Change the timeout."""
        self.wait_ns = wait_ns

    def hold(
        self,
        stream: Stream,
        request: MsgGetRequest,
        reply: bytes,
        now: int,
        *,
        direct: bool,
        requester: object = None,
    ) -> bool:
        """Hold a read; False if there are too many already."""
        if not self._held.take(requester):
            return False
        held = HeldRead(stream, request, reply, now + self.wait_ns, direct, requester)
        self._number += 1
        self._by_deadline.append(held)
        waiting = self.by_stream.setdefault(stream, _Waiting())
        heappush(waiting.heap, (request.min_last_seq, self._number, held))
        return True

    def released(self, stream: Stream) -> list[HeldRead]:
        """Remove and return the reads that this stream's last sequence satisfies now."""
        waiting = self.by_stream.get(stream)
        if waiting is None:
            return []
        last = stream.log.index.last_seq
        ready = []
        while waiting.heap and waiting.heap[0][0] <= last:
            _, _, held = heappop(waiting.heap)
            if held.is_over:
                waiting.over -= 1
            else:
                self._end(held)
                ready.append(held)
        if not waiting.heap:
            del self.by_stream[stream]
        return ready

    def expired(self, now: int) -> list[HeldRead]:
        """Remove and return the reads whose timeout is over."""
        late = []
        while self._by_deadline and (
            self._by_deadline[0].is_over or self._by_deadline[0].deadline_ns <= now
        ):
            held = self._by_deadline.popleft()
            if held.is_over:
                continue
            self._end(held)
            late.append(held)
            waiting = self.by_stream[held.stream]
            waiting.over += 1
            waiting.forget_over()
            if not waiting.heap:
                del self.by_stream[held.stream]
        return late

    def dropped(self, stream: Stream) -> list[HeldRead]:
        """Remove and return the reads of a deleted stream."""
        waiting = self.by_stream.pop(stream, _Waiting())
        left = [entry[2] for entry in waiting.heap if not entry[2].is_over]
        for held in left:
            self._end(held)
        return left

    def _end(self, held: HeldRead) -> None:
        held.end()
        self._held.give_back(held.requester)

    def next_deadline(self) -> int | None:
        """Return the next timeout."""
        while self._by_deadline and self._by_deadline[0].is_over:
            self._by_deadline.popleft()
        return self._by_deadline[0].deadline_ns if self._by_deadline else None
