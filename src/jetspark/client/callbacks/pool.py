"""Run a callback on several messages concurrently, in order per key on request.

The task of a subscription or consumption adds messages and waits for room; up to ``concurrency``
workers, tasks of the same loop, call the callback. A blocking function gets a thread per worker.
Messages with the same key are processed one at a time, in order, while other keys continue.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, Literal, TypeVar

from jetspark.client.callbacks.tasks import call_back, mark_callback
from jetspark.client.callbacks.thread import Report, ThreadCallback

M = TypeVar("M")

# The key of messages that must be processed in order: a function, or their subject.
OrderedBy = Callable[[M], Hashable] | Literal["subject"] | None

# Messages whose key function failed keep their order among themselves.
_NO_KEY: Final = object()


def check_concurrency(concurrency: int, ordered_by: object, callback: object) -> None:
    """Refuse arguments that cannot work, and name them."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise TypeError(f"concurrency must be an int, not {type(concurrency).__name__}")
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency}: expected at least 1 callback at a time")
    if ordered_by is not None and ordered_by != "subject" and not callable(ordered_by):
        raise TypeError(
            f"ordered_by={ordered_by!r}: expected a function of the message, or 'subject'"
        )
    if callback is None and (concurrency > 1 or ordered_by is not None):
        raise ValueError("concurrency and ordered_by require a callback")


class CallbackPool(Generic[M]):
    """Calls ``callback`` for up to ``concurrency`` messages at a time.

    ``on_done`` is called with every message that the callback has finished. An exception of the
    callback is reported, and the other messages continue.
    """

    def __init__(
        self,
        callback: Callable[[M], Awaitable[None] | None],
        concurrency: int,
        ordered_by: OrderedBy[M],
        label: str,
        report: Report,
        on_done: Callable[[M], None] | None = None,
    ) -> None:
        self._callback = callback
        self._concurrency = concurrency
        self._key = _subject if ordered_by == "subject" else ordered_by
        self._label = label
        self._report = report
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._workers: dict[asyncio.Task[None], ThreadCallback[M] | None] = {}
        self._idle: list[asyncio.Future[None]] = []
        # To be processed next, at most one per key; further ones wait for their key.
        self._ready: deque[tuple[M, Hashable]] = deque()
        self._waiting: dict[Hashable, deque[M]] = {}
        self._running: set[M] = set()
        self._count = 0
        self._closing = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def is_here(self) -> bool:
        """Whether the caller runs inside the callback, on this thread or on one of its threads."""
        here = asyncio.current_task()
        return any(
            worker is here or (thread is not None and thread.is_here)
            for worker, thread in self._workers.items()
        )

    @property
    def running(self) -> list[M]:
        """The messages that the callback is processing."""
        return list(self._running)

    @property
    def in_hand(self) -> list[M]:
        """The messages that were added and are not finished."""
        return [*self._running, *self._not_started()]

    def add(self, message: M) -> None:
        """Process a message as soon as a worker and its key are free."""
        self._count += 1
        key: Hashable = None
        if self._key is not None:
            key = self._key_of(message)
            if key in self._waiting:
                self._waiting[key].append(message)
                return
            self._waiting[key] = deque()
        self._ready.append((message, key))
        self._wake_worker()

    async def room(self, limit: int) -> None:
        """Wait until fewer than ``limit`` messages are unfinished."""
        while self._count >= limit:
            await self._wait_change()

    async def finish(self) -> None:
        """Wait until every added message is finished."""
        await self.room(1)

    def give_up(self) -> list[M]:
        """Start no more messages; returns those that were not started."""
        given_up = self._not_started()
        self._count -= len(given_up)
        self._ready.clear()
        for waiting in self._waiting.values():
            waiting.clear()
        self._change()
        return given_up

    def close(self) -> None:
        """Stop the workers: idle ones now, busy ones at their next await."""
        self._closing = True
        for worker, thread in list(self._workers.items()):
            if thread is not None:
                thread.stop()
            worker.cancel()

    def _not_started(self) -> list[M]:
        waiting_here = [message for waiting in self._waiting.values() for message in waiting]
        return [*(message for message, _ in self._ready), *waiting_here]

    def _key_of(self, message: M) -> Hashable:
        assert self._key is not None
        try:
            key = self._key(message)
            hash(key)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            self._report(error)
            return _NO_KEY
        return key

    def _wake_worker(self) -> None:
        while self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(None)
                return
        if len(self._workers) < self._concurrency:
            self._start_worker()

    def _start_worker(self) -> None:
        callback, thread = self._callback, None
        if isinstance(callback, ThreadCallback):
            thread = callback.for_one_reader()
        worker = self._loop.create_task(self._work(thread), name=f"jetspark {self._label}")
        self._workers[worker] = thread
        mark_callback(worker)

    async def _work(self, thread: ThreadCallback[M] | None) -> None:
        try:
            while not self._closing:
                if not self._ready:
                    await self._wait_for_work()
                    continue
                message, key = self._ready.popleft()
                self._running.add(message)
                try:
                    if thread is not None:
                        await thread.run([message], self._report)
                    else:
                        await call_back(self._callback, message, self._label, self._report)
                finally:
                    self._done(message, key)
        finally:
            if thread is not None:
                thread.close()

    async def _wait_for_work(self) -> None:
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._idle.append(waiting)
        await waiting

    def _done(self, message: M, key: Hashable) -> None:
        self._running.discard(message)
        self._count -= 1
        if self._key is not None:
            waiting_here = self._waiting[key]
            if waiting_here:
                self._ready.append((waiting_here.popleft(), key))
            else:
                del self._waiting[key]
        if self._on_done is not None:
            self._on_done(message)
        self._change()

    async def _wait_change(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _change(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _subject(message: object) -> Hashable:
    subject: str = message.subject  # type: ignore[attr-defined]  # both kinds of messages have one
    return subject
