"""A queue for work that needs more than one turn of the loop: some of it runs in each turn."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

log: logging.Logger = logging.getLogger("jetspark.server")

# All of them together take at most this long per turn of the loop.
TURN_NS: Final = 4_000_000


class Resumable(Protocol):
    """Something that works in steps."""

    def resume(self) -> bool:
        """Do as much as one turn allows; True if something is left."""


class TurnQueue:
    """Gives each its turn, in order."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], monotonic_ns: Callable[[], int]
    ) -> None:
        self._call_soon = call_soon
        self._monotonic_ns = monotonic_ns
        self._waiting: deque[Resumable] = deque()
        self._due = False

    def add(self, resumable: Resumable) -> None:
        """Continue something in the following turns."""
        self._waiting.append(resumable)
        if not self._due:
            self._due = True
            self._call_soon(self._run)

    def _run(self) -> None:
        until = self._monotonic_ns() + TURN_NS
        # An unfinished one continues in another turn of the loop, not in this one.
        for _ in range(len(self._waiting)):
            resumable = self._waiting.popleft()
            try:
                if resumable.resume():
                    self._waiting.append(resumable)
            except Exception:  # one of them, not all
                log.exception("A request that runs in steps failed unexpectedly and was abandoned")
            if self._monotonic_ns() >= until:
                break
        if self._waiting:
            self._call_soon(self._run)
        else:
            self._due = False


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
