"""Limits the memory for output and for input of all clients together.

``max_pending`` limits the unread output of each client; a thousand clients that do not read would
still need a thousand times as much. Beyond the limit of the server the clients with the most are
closed as slow consumers, one after the other, until an eighth of the limit is free again.

The same holds for input that cannot be processed yet: payloads that are not complete, and reads
that wait for their turn.

A client is counted when something is written to it while its transport is full, and until it has
read that. What it reads in between is noticed when the limit is reached: only then are all of
them asked, which is once for each eighth of the limit that is written.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jetspark.server.close_reason import CloseReason
from jetspark.units import format_bytes

if TYPE_CHECKING:
    from jetspark.server.net.connection import Connection

# This part of the limit is freed when it is reached.
_FREED: Final = 8


class SharedMemory:
    """What connections keep in memory.

    ``measure`` returns how much one has now; ``close`` gets those with the most, with that number
    and the limit.
    """

    def __init__(
        self,
        limit: int,
        measure: "Callable[[Connection], int]",
        close: "Callable[[Connection, int, int], None]",
    ) -> None:
        self.limit: int = limit
        self._measure = measure
        self._close = close
        self.total: int = 0
        # How many clients were closed because of the limit.
        self.closed: int = 0
        self._sizes: dict[Connection, int] = {}

    def follow(self, limit: int) -> None:
        """Apply another limit."""
        self.limit = limit
        self._check()

    def note(self, connection: "Connection", size: int) -> None:
        """Note how much a client has; the largest may be closed now."""
        self.total += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size
        if self.total > self.limit:
            self._check()

    def forget(self, connection: "Connection") -> None:
        """Remove a client that has nothing any more, or disconnected."""
        size = self._sizes.pop(connection, 0)
        self.total -= size

    def _check(self) -> None:
        if self.total <= self.limit:
            return
        self._sizes = {each: self._measure(each) for each in self._sizes}
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
            self._close(connection, size, self.limit)


def unread_output(limit: int) -> SharedMemory:
    """Limit the unread output of the connections whose transport is full."""
    return SharedMemory(limit, lambda each: each.waiting_bytes(), _close_unread)


def _close_unread(connection: "Connection", size: int, limit: int) -> None:
    if connection.client.closing:
        connection.abort(CloseReason.SLOW_CONSUMER_PENDING_BYTES)
        return
    connection.disconnect_slow(
        f"pending {format_bytes(size)}, the most of all clients, which together exceed "
        f"the server's limit of {format_bytes(limit)} (jetspark.memory.pending)",
        CloseReason.SLOW_CONSUMER_PENDING_BYTES,
    )


def kept_input(limit: int) -> SharedMemory:
    """Limit the input that cannot be processed yet."""
    return SharedMemory(limit, lambda each: each.kept_bytes(), _close_keeping)


def _close_keeping(connection: "Connection", size: int, limit: int) -> None:
    connection.refuse_input(
        f"{format_bytes(size)} of its input wait to be completed or processed, the most of all "
        f"clients, which together exceed the server's limit of {format_bytes(limit)} "
        "(jetspark.memory.input)"
    )
