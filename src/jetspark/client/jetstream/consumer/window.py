"""The request window of a continuous pull: decides about the next request. Pure.

Counted in messages, or in bytes if a byte limit was given. A message counts until the reader takes
it, so messages in flight and buffered ones together stay below the limit; or, for readers that
process several at once, until it was processed.
"""

from typing import Final

# Requests limited by bytes ask for this many messages, as in nats.go.
UNBOUNDED_BATCH: Final = 1_000_000


class PullWindow:
    """Outstanding messages (or bytes) of one reader."""

    def __init__(self, messages: int, max_bytes: int, threshold: float) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            raise TypeError(f"threshold={threshold!r}: expected a number above 0 and up to 1")
        if not 0 < threshold <= 1:
            raise ValueError(
                f"threshold={threshold}: expected a fraction of the prefetch, above 0 and up to 1"
            )
        self._limit = messages
        self._max_bytes = max_bytes
        self._threshold = threshold
        # Request more when less than this is outstanding.
        self._low = max(1, int(messages * threshold))
        self._low_bytes = max(1, int(max_bytes * threshold))
        self.messages: int = 0
        self.bytes: int = 0
        # Of these, the messages being processed.
        self._kept = 0
        self._kept_bytes = 0

    @property
    def awaited(self) -> int:
        """Messages requested and not handed out."""
        return self.messages - self._kept

    def widen(self, messages: int) -> None:
        """Allow more messages in flight."""
        self._limit = max(self._limit, messages)
        self._low = max(1, int(self._limit * self._threshold))

    def add(self, count: int, size: int) -> None:
        """Messages arrived that were not requested for this reader."""
        self.messages += count
        self.bytes += size

    def took(self, count: int, size: int) -> None:
        """Messages of ``size`` bytes were handed to the reader."""
        self.messages = max(self.messages - count, 0)
        self.bytes = max(self.bytes - size, 0)

    def keep(self, count: int, size: int) -> None:
        """Messages were handed to a reader that calls ``done`` for them."""
        self._kept += count
        self._kept_bytes += size

    def done(self, count: int, size: int) -> None:
        """Messages that were kept have been processed."""
        self._kept -= count
        self._kept_bytes -= size
        self.took(count, size)

    def ended(self, messages: int, size: int) -> None:
        """A request ended with this much unserved."""
        self.messages = max(self.messages - messages, 0)
        self.bytes = max(self.bytes - size, 0)

    def reset(self) -> None:
        """Only messages being processed are outstanding: all requests are lost."""
        self.messages = self._kept
        self.bytes = self._kept_bytes

    def next_request(self) -> tuple[int, int] | None:
        """Batch and bytes to request now; None while enough is outstanding."""
        if self._max_bytes:
            if self.bytes >= self._low_bytes and self.messages:
                return None
            size = self._max_bytes - self.bytes
            batch = min(self._limit, UNBOUNDED_BATCH)
            self.bytes += size
            self.messages = batch
            return batch, size
        if self.messages >= self._low:
            return None
        batch = self._limit - self.messages
        self.messages += batch
        return batch, 0
