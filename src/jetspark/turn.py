"""The budget of one turn of the loop.

A turn serves one client at a time. Work that costs more than a typical message is counted here, in
units of about a quarter of a microsecond; when the budget of the turn is spent, the current client
is stopped, and the rest of its input is processed in later turns. Work that belongs to no client
(deadlines, reports from the disk) is counted and stops no client.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

UNITS_PER_TURN: Final[i64] = 16_384
"""About four milliseconds: of one client."""
UNITS_OF_ALL: Final[i64] = 2 * UNITS_PER_TURN
"""Of all clients together, in one turn; each of them may still do one thing of any cost."""
UNIT_NS: Final = 250


class Turn:
    """The remaining budget, and how to stop the client that is being served."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        """``call_soon``: limit what all clients together do in one turn of this loop."""
        self.left: i64 = UNITS_PER_TURN
        self._stop: Callable[[], None] | None = None
        # What the current client got, what the next one gets, and what is left for all.
        self._given: i64 = UNITS_PER_TURN
        self._share: i64 = UNITS_PER_TURN
        self._left_of_all: i64 = UNITS_OF_ALL
        self._call_soon: Callable[[Callable[[], None]], object] | None = call_soon
        self._counting: bool = False
        # Large reads have used up this turn of the loop.
        self.crowded: bool = False

    def crowd(self, crowded: bool) -> None:
        """Note whether large reads have used up this turn of the loop."""
        self.crowded = crowded

    def begin(self, stop: Callable[[], None]) -> None:
        """Serve one client from now on; ``stop`` is called when its share is used up."""
        self.left = self._given = self._share
        self._stop = stop

    def begin_again(self, stop: Callable[[], None]) -> None:
        """Serve a client that waited for its turn: it has a whole share."""
        self.left = self._given = UNITS_PER_TURN
        self._stop = stop

    def begin_own(self) -> None:
        """Work for the server itself from now on, with a whole share."""
        self.left = UNITS_PER_TURN

    def end(self) -> None:
        """Serve no client from now on."""
        self._stop = None
        if self.left < self._given:
            self._count(self._given - self.left)
        self.left = self._given = UNITS_PER_TURN

    def _count(self, units: i64) -> None:
        """Count what a client did."""
        if self._call_soon is None:
            return
        if not self._counting:
            self._counting = True
            self._call_soon(self._start_over)
        self._left_of_all -= units
        if self._left_of_all < UNITS_PER_TURN:
            self._share = max(self._left_of_all, 1)

    def _start_over(self) -> None:
        """Begin another turn of the loop."""
        self._counting = False
        self._left_of_all = UNITS_OF_ALL
        self._share = UNITS_PER_TURN

    def spend(self, units: i64) -> None:
        """Count work that was done."""
        self.left -= units
        if self.left <= 0:
            self.stop()

    def take(self, units: i64) -> None:
        """Count work of a client that checks itself whether budget is left."""
        self.left -= units

    def stop(self) -> None:
        """Stop the current client: its share is used up."""
        stop = self._stop
        if stop is not None:
            self._stop = None
            stop()
