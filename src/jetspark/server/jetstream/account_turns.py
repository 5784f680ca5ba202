"""The turns of all accounts: as many in one turn of the loop as it has time for.

Each account has its own budget of reads and deliveries: thirty accounts that use all of it would
otherwise keep the clients of all others waiting for as many turns.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from jetspark.clock import Clock

# No other account begins when those before it took so long together.
LONGEST_NS: Final = 4_000_000


class AccountTurns:
    """The accounts that have something to do, each once, in the order in which they asked."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def add(self, turn: Callable[[], None]) -> None:
        """Give an account a turn, after those that wait already."""
        self._waiting.append(turn)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        """Give the accounts that wait now a turn, as long as there is time."""
        self._scheduled = False
        began = self._clock.monotonic_ns()
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft()()
                if self._clock.monotonic_ns() - began >= LONGEST_NS:
                    break
        finally:
            if self._waiting:
                self._schedule()
