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
"""About four milliseconds."""
UNIT_NS: Final = 250


class Turn:
    """The remaining budget, and how to stop the client that is being served."""

    def __init__(self) -> None:
        self.left: i64 = UNITS_PER_TURN
        self._stop: Callable[[], None] | None = None

    def begin(self, stop: Callable[[], None]) -> None:
        """Serve one client from now on; ``stop`` is called when its share is used up."""
        self.left = UNITS_PER_TURN
        self._stop = stop

    def end(self) -> None:
        """Serve no client from now on."""
        self._stop = None
        self.left = UNITS_PER_TURN

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
