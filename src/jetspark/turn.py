"""How much one turn of the loop may do before others have theirs.

One client is worked for at a time. Whatever costs more than a message usually does is counted
here, in units of about a quarter of a microsecond; when the turn has no more of them, the client
at hand is stopped, and what it sent is worked on in later turns. Work that belongs to no client
(deadlines, what the disk confirmed) is counted and stops nobody.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

UNITS_PER_TURN: Final[i64] = 16_384
"""About four milliseconds."""
UNIT_NS: Final = 250


class Turn:
    """What may still be done now, and how to stop who is worked for."""

    def __init__(self) -> None:
        self.left: i64 = UNITS_PER_TURN
        self._stop: Callable[[], None] | None = None

    def begin(self, stop: Callable[[], None]) -> None:
        """Work for one client from now on; ``stop`` is called when it had its share."""
        self.left = UNITS_PER_TURN
        self._stop = stop

    def end(self) -> None:
        """Nobody is worked for any more."""
        self._stop = None
        self.left = UNITS_PER_TURN

    def spend(self, units: i64) -> None:
        """Count work that was done."""
        self.left -= units
        if self.left <= 0:
            self.stop()

    def stop(self) -> None:
        """The client at hand had its share."""
        stop = self._stop
        if stop is not None:
            self._stop = None
            stop()
