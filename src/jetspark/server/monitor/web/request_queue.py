"""A fair queue of the requests to the monitoring port: a few per turn of the loop, by address.

The loop also serves the clients of the server. A thousand requests that are complete at the same
time, or are sent in a row on their connections, would take it for seconds.

This is not the queue of the clients (``net/turn_queue.py``): that continues each entry until it is
done, and counts its time as theirs. Here a piece of work is started once, in the turn of its
address, and may be dropped while it waits.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

# A turn of the loop starts no more work after this much CPU time.
TURN_NS: Final = 4_000_000
# While this many requests of an address are being answered, no other one of it is started:
# unfinished answers need memory.
BEGUN_MAX: Final = 4


class _Waiting:
    """What waits for an address, by who wants it: urgent work first, the rest in order."""

    def __init__(self) -> None:
        self._urgent: dict[object, Callable[[], None]] = {}
        # Work that continues.
        self._begun: dict[object, Callable[[], None]] = {}
        self._other: dict[object, Callable[[], None]] = {}

    def add(
        self, owner: object, work: Callable[[], None], *, urgent: bool, continues: bool
    ) -> None:
        works = self._begun if continues else self._other
        (self._urgent if urgent else works)[owner] = work

    def take(self) -> tuple[Callable[[], None], bool]:
        """Return the next work, and whether it continues."""
        works = self._urgent or self._other
        if not self._urgent and (len(self._begun) >= BEGUN_MAX or not works):
            works = self._begun
        return works.pop(next(iter(works))), works is self._begun

    def drop(self, owner: object) -> Callable[[], None] | None:
        for works in (self._urgent, self._begun, self._other):
            if owner in works:
                return works.pop(owner)
        return None

    def __bool__(self) -> bool:
        return bool(self._urgent or self._begun or self._other)


class RequestQueue:
    """Starts at most ``count`` pieces of work per turn; addresses that wait take turns.

    An owner, such as a connection, has one piece of work at a time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._left = count
        self._spent_ns = 0
        self._waiting: dict[str, _Waiting] = {}
        self._timed = False

    def run(
        self,
        network: str,
        owner: object,
        work: Callable[[], None],
        *,
        urgent: bool = False,
        continues: bool = False,
    ) -> None:
        """Do some work now if there is room in this turn, otherwise in a later one.

        What ``continues`` earlier work is done in a later turn.
        """
        if not self._waiting and self._has_room() and not continues:
            self._do(work)
        else:
            queue = self._waiting.setdefault(network, _Waiting())
            queue.add(owner, work, urgent=urgent, continues=continues)
        self._begin_later()

    async def wait(
        self, network: str, owner: object, *, urgent: bool = False, continues: bool = False
    ) -> None:
        """Return when it is the turn of ``owner``, or when it is dropped."""
        granted = asyncio.get_running_loop().create_future()

        def grant() -> None:
            if not granted.done():
                granted.set_result(None)

        self.run(network, owner, grant, urgent=urgent, continues=continues)
        try:
            await granted
        finally:
            self.drop(network, owner)

    def drop(self, network: str, owner: object) -> Callable[[], None] | None:
        """Drop the work that waits for an owner, and return it."""
        queue = self._waiting.get(network)
        if queue is None:
            return None
        work = queue.drop(owner)
        if not queue:
            del self._waiting[network]
        return work

    def _has_room(self) -> bool:
        return self._left > 0 and self._spent_ns < TURN_NS

    def _do(self, work: Callable[[], None]) -> None:
        self._left -= 1
        began = time.thread_time_ns()
        try:
            work()
        finally:
            self._spent_ns += time.thread_time_ns() - began

    def _begin_later(self) -> None:
        if not self._timed:
            self._timed = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin another turn: of those that wait, one of each address after the other."""
        self._timed = False
        self._left, self._spent_ns = self._count, 0
        try:
            while self._waiting and self._has_room():
                network = next(iter(self._waiting))
                queue = self._waiting.pop(network)
                work, continues = queue.take()
                if queue:
                    self._waiting[network] = queue
                self._do(work)
                if continues:
                    # It is known to be long, and some of its steps are: sorting 40,000 clients.
                    self._left = 0
        finally:
            if self._left < self._count:
                self._begin_later()
