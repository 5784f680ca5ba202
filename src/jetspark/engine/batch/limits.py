"""Limits of open batches: one count for all streams of a server."""

from typing import Final

# ADR-50: limits of atomic batches and of fast ingest; any batch ends after 10 s without a message.
ATOMIC_MESSAGES: Final = 1000
ATOMIC_PER_STREAM: Final = 50
ATOMIC_PER_SERVER: Final = 1000
HEADER_PER_STREAM: Final = 50
HEADER_PER_SERVER: Final = 1000
# The reply-subject dialect has the limits of released servers (decisions.md).
REPLY_PER_STREAM: Final = 1000
REPLY_PER_SERVER: Final = 50_000
IDLE_NS: Final = 10_000_000_000
# The memory of all open atomic batches together.
STAGED_BYTES: Final = 64 * 1024 * 1024
ID_MAX: Final = 64


class BatchLimits:
    """The limits of a server's batches, and their use.

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
        # Used: open batches, and bytes of atomic ones.
        self.atomic_open: int = 0
        self.fast_open: list[int] = [0, 0]
        self.staged: int = 0

    def atomic_opened(self) -> None:
        """Count an opened atomic batch."""
        self.atomic_open += 1

    def atomic_closed(self, granted: int) -> None:
        """Count an atomic batch that has ended: its memory is free."""
        self.atomic_open -= 1
        self.staged -= granted

    def grant(self, missing: int, piece: int) -> int:
        """Return memory granted to an atomic batch that needs some: a piece; 0 if none is left."""
        left = self.staged_bytes - self.staged
        if missing > left:
            return 0
        granted = min(max(missing, piece), left)
        self.staged += granted
        return granted

    def fast_opened(self, dialect: int) -> None:
        """Count an opened fast batch."""
        self.fast_open[dialect] += 1

    def fast_closed(self, dialect: int) -> None:
        """Count a fast batch that has ended."""
        self.fast_open[dialect] -= 1
