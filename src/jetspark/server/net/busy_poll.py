"""Busy polling: the loop polls once more after small chunks, as the next often follows.

A client that waits for each answer sends again some microseconds after it got one. If the loop
sleeps meanwhile it is woken by the kernel, which takes longer than everything else that such a
message costs: polling once more before sleeping made publishing one at a time 1.7 times as fast,
with less CPU. If no client sends again in time, that is soon noticed and polling is tried only now
and then.
"""

from collections.abc import Callable
from typing import Final

POLL_NS: Final = 50_000
# Larger chunks come from clients that do not wait for answers.
CHUNK_MAX: Final = 4096
CREDIT_MAX: Final = 16
PROBE_EVERY: Final = 32


class BusyPoll:
    """``on_chunk`` is called at the end of each small chunk, ``call_soon`` is the loop's."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], monotonic_ns: Callable[[], int]
    ) -> None:
        self._call_soon = call_soon
        self._monotonic_ns = monotonic_ns
        self._credit = CREDIT_MAX // 2
        self._unprobed = 0
        self._awake = False
        self._came = False
        self._until = 0

    def on_chunk(self) -> None:
        """Note that a client that may wait for an answer has sent something."""
        self._came = True
        if self._awake:
            return
        if self._credit == 0:
            self._unprobed += 1
            if self._unprobed < PROBE_EVERY:
                return
            self._unprobed = 0
        self._awake = True
        self._call_soon(self._begin)

    def _begin(self) -> None:
        """Start polling: the answers of this turn were sent, unless a thread writes."""
        self._came = False
        self._until = self._monotonic_ns() + POLL_NS
        self._call_soon(self._look)

    def _look(self) -> None:
        if self._came:
            self._credit = min(self._credit + 1, CREDIT_MAX)
            # Input is answered by a turn that is scheduled after this call.
            self._call_soon(self._begin)
        elif self._monotonic_ns() < self._until:
            self._call_soon(self._look)
        else:
            self._credit = max(self._credit - 1, 0)
            self._awake = False
