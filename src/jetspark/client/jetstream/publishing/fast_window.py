"""The send window of a fast batch (ADR-50). Pure.

The server acknowledges every N messages (or bytes) and may change N; at most
``max_outstanding_acks`` such acks may be outstanding. An ack for a later sequence covers all
earlier ones, so a lost ack does no harm.
"""

from collections import deque


class FastWindow:
    """Sequences of one batch: what was sent, what is stored, how much more may be sent."""

    def __init__(self, flow: int, flow_bytes: int, max_outstanding_acks: int) -> None:
        self._flow = flow
        self._flow_bytes = flow_bytes
        self._max_acks = max_outstanding_acks
        self._bytes = 0
        # Bytes up to and including a sequence, for those not acknowledged.
        self._sizes: deque[tuple[int, int]] = deque()
        self._acked_bytes = 0
        self.sent: int = 0
        self.acked: int = 0

    @property
    def flow(self) -> int:
        """Current messages per ack; 0 if bytes are counted."""
        return 0 if self._flow_bytes else self._flow

    def room(self) -> int:
        """Messages that may be sent now; when counting bytes, at most one at a time."""
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
        """Count messages, if the flow is in messages."""
        self.sent += count

    def on_ack(self, seq: int, flow: int, flow_bytes: int = 0) -> None:
        """Everything up to ``seq`` is acknowledged; the next ack follows after this much more."""
        self.acked = max(self.acked, min(seq, self.sent))
        if flow > 0:
            self._flow = flow
        if flow_bytes > 0 and self._flow_bytes:
            self._flow_bytes = flow_bytes
        while self._sizes and self._sizes[0][0] <= self.acked:
            self._acked_bytes = self._sizes.popleft()[1]
