"""The output of large messages: all clients together write so much of it per turn of the loop.

A write of 256 KiB to a socket takes 0.1 to 0.2 ms. If each of a hundred clients that wait for the
same large message wrote its own share in one turn, the others would wait for half a second.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

# Large payloads are written in pieces of this size; the last one may exceed a limit.
PIECE: Final = 256 * 1024
# One client writes this much of them per turn of the loop, and all clients together twice that.
ONE: Final = 2 * 1024 * 1024
TOGETHER: Final = 2 * ONE


class Writer(Protocol):
    """A connection with large output."""

    def write_on(self, size: int) -> None:
        """Write about so much; ask for another turn if something is left."""

    def fail(self, error: Exception) -> None:
        """Close the connection after an unexpected error."""


class LargeWrites:
    """What is left of this turn, and who waits for another one."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._left = TOGETHER
        self._waiting: deque[Writer] = deque()
        self._due = False

    def share(self) -> int:
        """Return how much a client may write that has not waited; 0 if it has to."""
        return 0 if self._waiting else max(min(self._left, ONE), 0)

    def count(self, size: int) -> None:
        """Count what a client wrote."""
        self._left -= size
        self._begin_later()

    def add(self, writer: Writer) -> None:
        """Continue a client in another turn, after those that wait already."""
        self._waiting.append(writer)
        self._begin_later()

    def _begin_later(self) -> None:
        if not self._due:
            self._due = True
            self._call_soon(self._begin)

    def _begin(self) -> None:
        """Begin another turn: continue those that wait, each as much as the others."""
        self._due = False
        self._left = TOGETHER
        waiting = len(self._waiting)
        each = min(max(TOGETHER // max(waiting, 1), PIECE), ONE)
        for _ in range(waiting):
            writer = self._waiting.popleft()
            try:
                writer.write_on(each)
            except Exception as error:  # noqa: BLE001 - one client, not all that wait
                writer.fail(error)
            if self._left <= 0:
                break
        if self._waiting:
            self._begin_later()
