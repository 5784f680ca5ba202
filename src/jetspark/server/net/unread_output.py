"""Limits the output that all clients together have not read yet.

``max_pending`` limits it for each client; a thousand clients that do not read would still need a
thousand times as much. Beyond the limit of the server the clients with the most unread output are
closed as slow consumers, one after the other, until an eighth of the limit is free again.

A client is counted when something is written to it while its transport is full, and until it has
read that. What it reads in between is noticed when the limit is reached: only then are all of
them asked, which is once for each eighth of the limit that is written.
"""

from typing import TYPE_CHECKING, Final

from jetspark.server.close_reason import CloseReason
from jetspark.units import format_bytes

if TYPE_CHECKING:
    from jetspark.server.net.connection import Connection

# This part of the limit is freed when it is reached.
_FREED: Final = 8


class UnreadOutput:
    """The unread output of the connections whose transport is full."""

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.total: int = 0
        # How many clients were closed because of the limit.
        self.closed: int = 0
        self._sizes: dict[Connection, int] = {}

    def follow(self, limit: int) -> None:
        """Apply another limit."""
        self.limit = limit
        self._check()

    def note(self, connection: "Connection", size: int) -> None:
        """Note how much a client has not read; the largest may be closed now."""
        self.total += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size
        if self.total > self.limit:
            self._check()

    def forget(self, connection: "Connection") -> None:
        """Remove a client that has caught up or disconnected."""
        size = self._sizes.pop(connection, 0)
        self.total -= size

    def _check(self) -> None:
        if self.total <= self.limit:
            return
        self._sizes = {each: each.waiting_bytes() for each in self._sizes}
        self.total = sum(self._sizes.values())
        left = self.limit - self.limit // _FREED
        if self.total <= left:
            return
        for connection in sorted(self._sizes, key=lambda each: -self._sizes[each]):
            if self.total <= left:
                break
            size = self._sizes[connection]
            self.forget(connection)
            self.closed += 1
            if connection.client.closing:
                connection.abort(CloseReason.SLOW_CONSUMER_PENDING_BYTES)
                continue
            connection.disconnect_slow(
                f"pending {format_bytes(size)}, the most of all clients, which together exceed "
                f"the server's limit of {format_bytes(self.limit)} (jetspark.memory.pending)",
                CloseReason.SLOW_CONSUMER_PENDING_BYTES,
            )
