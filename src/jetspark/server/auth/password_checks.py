"""Password checks in threads: a few at a time, in an order that a flood cannot abuse.

One bcrypt check takes tens of milliseconds of CPU by design. Addresses take turns, and so do the
users of an address: a client that guesses the password of one user, however often, delays others
by one check. A user that no client waited for comes first, and the newest client of a user: it
does not wait for a hundred attempts before it, and those who waited long have mostly given up.
While others wait, disconnected clients are dropped without a check (one that only half-closed
looks the same, and is served when no one else waits). Beyond `WAITING_MAX` the busiest user of the
busiest address loses its oldest client.
"""

import asyncio
import functools
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

log: logging.Logger = logging.getLogger("jetspark.server")

THREADS: Final = 2
WAITING_MAX: Final = 1024
# To find that a client disconnected, and to close it, takes about 25 microseconds.
DROPS_PER_TURN: Final = 64


class _Waiting:
    """A client that waits for its check."""

    def __init__(
        self,
        check: Callable[[], bool],
        left: Callable[[], bool],
        result: "asyncio.Future[bool | None]",
    ) -> None:
        self.check = check
        self.left = left
        self.result = result

    def drop(self) -> None:
        """Drop it."""
        if not self.result.done():
            self.result.set_result(None)


class _Address:
    """The clients of an address that wait."""

    def __init__(self) -> None:
        # Oldest first, by user; the user whose turn it is comes last.
        self._users: OrderedDict[str, list[_Waiting]] = OrderedDict()
        self.count = 0

    def add(self, user: str, waiting: _Waiting) -> None:
        self._users.setdefault(user, []).append(waiting)
        self.count += 1

    def take_next(self) -> _Waiting:
        """Return the newest client of the user whose turn it is; then it is that of the others."""
        user, clients = self._users.popitem()
        waiting = clients.pop()
        self.count -= 1
        if clients:
            self._users[user] = clients
            self._users.move_to_end(user, last=False)
        return waiting

    def take_oldest(self) -> _Waiting:
        """Return the oldest client of the user that most wait for."""
        user = max(self._users, key=lambda known: len(self._users[known]))
        waiting = self._users[user].pop(0)
        self.count -= 1
        if not self._users[user]:
            del self._users[user]
        return waiting


class PasswordChecks:
    """The checks of one server. ``close`` it when the server stops."""

    def __init__(self, waiting_max: int = WAITING_MAX) -> None:
        self._waiting_max = waiting_max
        # The addresses in the order of their turns.
        self._waiting: dict[str, _Address] = {}
        self._count = 0
        self._running = 0
        # The rest of those who may have left is looked at in the next turn.
        self._continues = False
        self._executor: ThreadPoolExecutor | None = None

    async def run(
        self, address: str, user: str, check: Callable[[], bool], left: Callable[[], bool]
    ) -> bool | None:
        """Return the result of ``check``; None if it was dropped.

        ``left`` is called just before the check would start: whether the client has disconnected.
        """
        waiting = _Waiting(check, left, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(address, _Address()).add(user, waiting)
        self._count += 1
        self._start()
        if self._count > self._waiting_max:
            self._drop_oldest()
        return await waiting.result

    def close(self) -> None:
        """Wait for running checks; the others are not started."""
        self._waiting.clear()
        self._count = 0
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _start(self) -> None:
        """Start checks while threads are free."""
        dropped = 0
        while self._running < THREADS and self._waiting and not self._continues:
            waiting = self._take_next()
            if waiting.result.done():
                continue  # the server is stopping
            if self._waiting and waiting.left():
                waiting.drop()
                dropped += 1
                if dropped == DROPS_PER_TURN:
                    self._continues = True
                    asyncio.get_running_loop().call_soon(self._continue)
                continue
            try:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(
                        THREADS, thread_name_prefix="jetspark-password"
                    )
                work = asyncio.get_running_loop().run_in_executor(self._executor, waiting.check)
            except RuntimeError as error:
                # No thread can be started. Later clients may have more luck.
                text = (
                    "A password cannot be checked: %s; raise the limit of processes "
                    "(ulimit -u, pids.max) or of memory for this server"
                )
                log.error(text, error)  # noqa: TRY400
                waiting.drop()
                continue
            self._running += 1
            work.add_done_callback(functools.partial(self._finished, waiting))

    def _continue(self) -> None:
        self._continues = False
        self._start()

    def _finished(self, waiting: _Waiting, done: "asyncio.Future[bool]") -> None:
        self._running -= 1
        if not waiting.result.done() and not done.cancelled():
            error = done.exception()
            if error is None:
                waiting.result.set_result(done.result())
            else:
                waiting.result.set_exception(error)
        self._start()

    def _take_next(self) -> _Waiting:
        """Return a client of the address whose turn it is; the address moves to the end."""
        name = next(iter(self._waiting))
        address = self._waiting.pop(name)
        waiting = address.take_next()
        self._count -= 1
        if address.count:
            self._waiting[name] = address
        return waiting

    def _drop_oldest(self) -> None:
        """Make room: the busiest address loses one."""
        name = max(self._waiting, key=lambda known: self._waiting[known].count)
        waiting = self._waiting[name].take_oldest()
        if not self._waiting[name].count:
            del self._waiting[name]
        self._count -= 1
        log.warning("More than %d clients wait for a password check", self._waiting_max)
        waiting.drop()
