"""How many batches may be open, and what they may hold: one count for all streams of a server."""

from typing import Final

# ADR-50: limits of atomic batches and of fast ingest; 10 s without a message end any batch.
ATOMIC_MESSAGES: Final = 1000
ATOMIC_PER_STREAM: Final = 50
ATOMIC_PER_SERVER: Final = 1000
HEADER_PER_STREAM: Final = 50
HEADER_PER_SERVER: Final = 1000
# The reply-subject dialect has the limits of released servers (decisions.md).
REPLY_PER_STREAM: Final = 1000
REPLY_PER_SERVER: Final = 50_000
IDLE_NS: Final = 10_000_000_000
# What all open atomic batches together may hold in memory.
STAGED_BYTES: Final = 64 * 1024 * 1024
ID_MAX: Final = 64


class BatchLimits:
    """The limits of a server's batches, and how much of them is taken.

    ``fast_per_stream`` and ``fast_per_server`` 0: those of each dialect.
    """

    def __init__(
        self,
        *,
        atomic_messages: int = ATOMIC_MESSAGES,
        atomic_per_stream: int = ATOMIC_PER_STREAM,
        atomic_per_server: int = ATOMIC_PER_SERVER,
        fast_per_stream: int = 0,
        fast_per_server: int = 0,
        idle_ns: int = IDLE_NS,
        staged_bytes: int = STAGED_BYTES,
    ) -> None:
        self.atomic_messages: int = atomic_messages
        self.atomic_per_stream: int = atomic_per_stream
        self.atomic_per_server: int = atomic_per_server
        # By dialect: headers, reply subjects.
        self.fast_per_stream: list[int] = [
            fast_per_stream or HEADER_PER_STREAM,
            fast_per_stream or REPLY_PER_STREAM,
        ]
        self.fast_per_server: list[int] = [
            fast_per_server or HEADER_PER_SERVER,
            fast_per_server or REPLY_PER_SERVER,
        ]
        self.idle_ns: int = idle_ns
        self.staged_bytes: int = staged_bytes
        # Taken: open batches, and bytes that atomic ones hold.
        self.atomic_open: int = 0
        self.fast_open: list[int] = [0, 0]
        self.staged: int = 0

    def atomic_opened(self) -> None:
        """An atomic batch was opened."""
        self.atomic_open += 1

    def atomic_closed(self, granted: int) -> None:
        """An atomic batch is over: what it was granted is free."""
        self.atomic_open -= 1
        self.staged -= granted

    def grant(self, missing: int, piece: int) -> int:
        """Memory for an atomic batch that misses some: a piece at a time; 0 when none is left."""
        left = self.staged_bytes - self.staged
        if missing > left:
            return 0
        granted = min(max(missing, piece), left)
        self.staged += granted
        return granted

    def fast_opened(self, dialect: int) -> None:
        """A fast batch was opened."""
        self.fast_open[dialect] += 1

    def fast_closed(self, dialect: int) -> None:
        """A fast batch is over."""
        self.fast_open[dialect] -= 1
