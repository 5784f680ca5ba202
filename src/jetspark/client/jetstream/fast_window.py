"""How much a fast batch may send before it hears from the server again (ADR-50). Pure.

The server acknowledges every so many messages (or bytes) and may change how many; at most
``max_outstanding_acks`` such acks may be missing. An ack for a later sequence settles all
earlier ones, so a lost ack costs nothing.
"""

from collections import deque


class FastWindow:
    """Sequences of one batch: what was sent, what is stored, how much more may be sent."""

    def __init__(self, flow: int, flow_bytes: int, max_outstanding_acks: int) -> None:
        self._flow = flow
        self._flow_bytes = flow_bytes
        self._max_acks = max_outstanding_acks
        self._bytes = 0
        # Bytes up to and including a sequence, for the ones that are not acknowledged.
        self._sizes: deque[tuple[int, int]] = deque()
        self._acked_bytes = 0
        self.sent: int = 0
        self.acked: int = 0

    @property
    def flow(self) -> int:
        """Messages per ack that are in force; 0 when bytes are counted."""
        return 0 if self._flow_bytes else self._flow

    def room(self) -> int:
        """Messages that may be sent now; with bytes at most one at a time."""
        if self._flow_bytes:
            return int(self._bytes - self._acked_bytes < self._flow_bytes * self._max_acks)
        return max(self._flow * self._max_acks - (self.sent - self.acked), 0)

    def send(self, size: int) -> int:
        """Count a message of ``size`` bytes; returns its sequence in the batch."""
        self.sent += 1
        if self._flow_bytes:
            self._bytes += size
            self._sizes.append((self.sent, self._bytes))
        return self.sent

    def send_many(self, count: int) -> None:
        """Count messages, where messages are what is counted."""
        self.sent += count

    def on_ack(self, seq: int, flow: int, flow_bytes: int = 0) -> None:
        """Everything up to ``seq`` is settled; the next ack comes after so much more."""
        self.acked = max(self.acked, min(seq, self.sent))
        if flow > 0:
            self._flow = flow
        if flow_bytes > 0 and self._flow_bytes:
            self._flow_bytes = flow_bytes
        while self._sizes and self._sizes[0][0] <= self.acked:
            self._acked_bytes = self._sizes.popleft()[1]
