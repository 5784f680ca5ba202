"""A queue for work that needs more than one turn of the loop: some of it runs in each turn."""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

log: logging.Logger = logging.getLogger("jetspark.server")

# All of them together take at most this long per turn of the loop.
TURN_NS: Final = 4_000_000
# The large reads of all clients and this queue together take at most this much CPU time per turn
# of the loop, and one read more.
READS_NS: Final = 8_000_000
# The smallest part of a turn that is worth continuing a client for, in units (turn.py).
SHARE_MIN: Final = 512


class Resumable(Protocol):
    """Something that works in steps."""

    def resume(self) -> bool:
        """Do as much as one turn allows; True if something is left."""


class TurnQueue:
    """Runs its entries in turn; short ones do not wait for long ones."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        monotonic_ns: Callable[[], int],
        crowd: Callable[[bool], None],
    ) -> None:
        """``crowd`` is called with whether the turn is used up."""
        self._call_soon = call_soon
        self._crowd = crowd
        self._monotonic_ns = monotonic_ns
        # What clients wait for, and those that sent little, run before clients with large reads,
        # however many of those wait.
        self._first: deque[Resumable] = deque()
        self._rest: deque[Resumable] = deque()
        self._due = False
        # The CPU time of large reads and of this queue in this turn; that of the queue alone.
        self._reads_ns = 0
        self._ran_ns = 0
        self._ends_turn = False

    def add(self, resumable: Resumable, *, first: bool = False) -> None:
        """Continue something in the following turns; ``first``: before large reads."""
        (self._first if first else self._rest).append(resumable)
        if not self._due:
            self._due = True
            self._call_soon(self._run)

    def share(self, units: int) -> int:
        """Return the part of a turn for each of those that come first.

        If some dozens had a whole turn each, one that wants to do little would wait for all.
        """
        return max(units // max(len(self._first), 1), min(units, SHARE_MIN))

    def is_late(self) -> bool:
        """Whether large reads have used up this turn: further ones have to wait for another.

        Hundreds of clients that send much at the same time would otherwise have a share each in
        one turn, and clients with small requests would wait for all of them.
        """
        return self._reads_ns > READS_NS

    def count_read(self, cpu_ns: int) -> None:
        """Count a large read."""
        if not self._ends_turn:
            self._ends_turn = True
            self._call_soon(self._begin_turn)
        self._reads_ns += cpu_ns
        self._crowd(self.is_late())

    def _begin_turn(self) -> None:
        """Start over; the queue may have had its share of this turn before."""
        self._ends_turn = False
        self._reads_ns, self._ran_ns = self._ran_ns, 0
        self._crowd(self.is_late())
        if self._reads_ns:
            self.count_read(0)

    def _run(self) -> None:
        began_ns = time.thread_time_ns()
        self._run_some()
        self._ran_ns = time.thread_time_ns() - began_ns
        self.count_read(self._ran_ns)

    def _run_some(self) -> None:
        began = self._monotonic_ns()
        self._run_of(self._first, began + TURN_NS // 2)
        self._run_of(self._rest, began + TURN_NS)
        if self._first or self._rest:
            self._call_soon(self._run)
        else:
            self._due = False

    def _run_of(self, waiting: deque[Resumable], until: int) -> None:
        """Continue some of them: at least one."""
        # An unfinished one continues in another turn of the loop, not in this one.
        for _ in range(len(waiting)):
            resumable = waiting.popleft()
            try:
                if resumable.resume():
                    waiting.append(resumable)
            except Exception:  # one of them, not all
                log.exception("A request that runs in steps failed unexpectedly and was abandoned")
            if self._monotonic_ns() >= until:
                break


class FanOuts:
    """The server's own messages to very many receivers, as one of the entries of the queue."""

    def __init__(self, fan_out: Callable[[], bool], flush: Callable[[], object]) -> None:
        self._fan_out = fan_out
        self._flush = flush

    def resume(self) -> bool:
        """Deliver messages to some of their receivers."""
        more = self._fan_out()
        self._flush()
        return more
