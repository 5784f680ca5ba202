"""Pauses between attempts of a reader."""

from typing import Final


class Pauses:
    """No pause before the first attempt, then ``first`` seconds, then each twice the last.

    None is longer than ``longest``.
    """

    def __init__(self, first: float, longest: float) -> None:
        self.first: Final = first
        self._longest = longest
        self.seconds: float = 0.0

    def take(self) -> float:
        """Return the next pause; the one after it is longer."""
        taken = self.seconds
        self.seconds = min(max(2 * taken, self.first), self._longest)
        return taken

    def reset(self) -> None:
        """Start again: an attempt succeeded."""
        self.seconds = 0.0
