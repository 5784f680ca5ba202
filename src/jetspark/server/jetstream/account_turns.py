"""The turns of all accounts: as many in one turn of the loop as it has time for.

Each account has its own budget of reads and deliveries: thirty accounts that use all of it would
otherwise delay the clients of all others by thirty turns.

This is not the queue of the clients (``net/turn_queue.py``): the time of accounts and the time of
clients with unfinished input do not reduce each other, and an account asks for its next turn
itself instead of returning whether it has more to do.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from jetspark.clock import Clock

# Once the accounts before it have taken this long together, the next one waits for another turn.
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
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._call_soon(self._run)

    def _run(self) -> None:
        """Give the accounts that wait now a turn, as long as there is time."""
        self._scheduled = False
        if len(self._waiting) == 1:  # as usual: it asks itself whether it has another one
            self._waiting.popleft()()
            return
        began = self._clock.monotonic_ns()
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft()()
                if self._clock.monotonic_ns() - began >= LONGEST_NS:
                    break
        finally:
            if self._waiting and not self._scheduled:
                self._schedule()
