"""Read-after-write (ADR-53): reads that ask for a sequence the stream does not have yet.

Such a read is held and answered the moment the sequence arrives; only when the wait is over is it
refused with 412 (decisions.md). The number of held reads is bounded.
"""

from dataclasses import dataclass

from jetspark.api.message import MsgGetRequest
from jetspark.engine.stream.stream import Stream


@dataclass(slots=True)
class HeldRead:
    """A read that waits for its stream."""

    stream: Stream
    request: MsgGetRequest
    reply: bytes
    deadline_ns: int


class Gate:
    """The reads that wait, oldest first; all wait equally long, so that is deadline order too."""

    def __init__(self, wait_ns: int, held_max: int) -> None:
        self._wait_ns = wait_ns
        self._held_max = held_max
        self._held: list[HeldRead] = []

    def hold(self, stream: Stream, request: MsgGetRequest, reply: bytes, now: int) -> bool:
        """Let a read wait; False when too many do already."""
        if len(self._held) >= self._held_max:
            return False
        self._held.append(HeldRead(stream, request, reply, now + self._wait_ns))
        return True

    def released(self, stream: Stream) -> list[HeldRead]:
        """Take out the reads that this stream's last sequence satisfies now."""
        if not self._held:
            return []
        last = stream.log.index.last_seq
        ready = [
            held
            for held in self._held
            if held.stream is stream and held.request.min_last_seq <= last
        ]
        if ready:
            self._held = [held for held in self._held if held not in ready]
        return ready

    def expired(self, now: int) -> list[HeldRead]:
        """Take out the reads that waited long enough."""
        count = 0
        while count < len(self._held) and self._held[count].deadline_ns <= now:
            count += 1
        over, self._held = self._held[:count], self._held[count:]
        return over

    def next_deadline(self) -> int | None:
        """When the next read has waited long enough."""
        return self._held[0].deadline_ns if self._held else None
