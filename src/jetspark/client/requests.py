"""Requests that wait for replies: one reply, many replies, and one timer for all deadlines."""

import asyncio

from jetspark.client.inbox import Mux, ReplySink
from jetspark.client.message import Message, Publisher
from jetspark.client.receive import read_message
from jetspark.frame import Frame


class Deadlines:
    """One timer for all requests of a connection.

    It is armed for the earliest known deadline; requests nearly always end before it, so arming,
    cancelling and firing are rare, and a request costs one comparison.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, mux: Mux) -> None:
        self._loop = loop
        self._mux = mux
        self._armed_for = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, deadline: float) -> None:
        """Ensure that the timer fires no later than ``deadline`` (loop time)."""
        if self._timer is None or deadline < self._armed_for:
            self._arm(deadline)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = deadline
        self._timer = self._loop.call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._loop.time()
        waiting = list(self._mux.pending.values())
        for sink in waiting:
            if sink.deadline <= now and not sink.renew(now):
                self._mux.discard(sink)
                sink.fail(TimeoutError())
        if self._mux.pending:
            self._arm(min(sink.deadline for sink in self._mux.pending.values()))


class SingleReply(ReplySink):
    """A request with one reply."""

    def __init__(self, loop: asyncio.AbstractEventLoop, publisher: Publisher) -> None:
        super().__init__()
        self.future: asyncio.Future[Message] = loop.create_future()
        self._publisher = publisher

    def on_reply(self, frame: Frame) -> bool:
        """Resolve the future with the reply."""
        if not self.future.done():
            self.future.set_result(read_message(frame, self._publisher))
        return True

    def fail(self, error: Exception) -> None:
        """Raise ``error`` in the waiting caller."""
        if not self.future.done():
            self.future.set_exception(error)


class ManyReplies(ReplySink):
    """A request that collects replies until its owner has enough."""

    def __init__(self, loop: asyncio.AbstractEventLoop, publisher: Publisher) -> None:
        super().__init__()
        self._loop = loop
        self._publisher = publisher
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._error: Exception | None = None
        self._replies: list[Message] = []

    def on_reply(self, frame: Frame) -> bool:
        """Queue the reply and wake the owner."""
        self._replies.append(read_message(frame, self._publisher))
        self._wake()
        return False

    def fail(self, error: Exception) -> None:
        """End the replies; a timeout is the normal end, any other error is raised."""
        self._over = True
        if not isinstance(error, TimeoutError):
            self._error = error
        self._wake()

    async def wait(self, stall: float | None) -> bool:
        """Wait for a reply; False if time is up, or ``stall`` seconds passed without one."""
        if not self._replies and not self._over:
            self._waiter = self._loop.create_future()
            timer = None if stall is None else self._loop.call_later(stall, self._wake)
            try:
                await self._waiter
            finally:
                if timer is not None:
                    timer.cancel()
                self._waiter = None
        if not self._replies and self._error is not None:
            raise self._error
        return bool(self._replies)

    def take(self) -> list[Message]:
        """Return the replies since the last call."""
        taken, self._replies = self._replies, []
        return taken

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
