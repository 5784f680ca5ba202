"""``consume``: a callback that is called with one message after the other, or several at a time.

One at a time is one task; several are a pool, whose messages count against the prefetch until the
work on them is done, so that no more is pulled than can be worked on.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import AckPolicy
from jetspark.client.arguments import function
from jetspark.client.callback_pool import CallbackPool, OrderedBy, check_concurrency
from jetspark.client.callback_tasks import call_back, is_calling
from jetspark.client.core import ClientCore
from jetspark.client.jetstream.consumer.endless import (
    CHUNK_MAX,
    ChunkSource,
    EndlessPull,
    give_back,
)
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.subscription import HELD_PER_WORKER
from jetspark.client.thread_callback import ThreadCallback
from jetspark.client.timeouts import Timeout
from jetspark.errors import ConnectionClosed, Error, RequestTimeout, SubscribeRefused

MessageCallback = Callable[[JetStreamMessage], Awaitable[None] | None]
MessageOrder = OrderedBy[JetStreamMessage]


@dataclass(frozen=True)
class CallbackPlan:
    """How many messages a callback works on at a time, in which order, with which signals."""

    concurrency: int = 1
    ordered_by: MessageOrder = None
    # Seconds between the signals that a message is still worked on; 0: none.
    signal_interval: float = 0.0

    @property
    def needs_pool(self) -> bool:
        """Whether one task that calls it again and again is not enough."""
        return self.concurrency > 1 or self.signal_interval > 0


def callback_plan(
    callback: MessageCallback | None,
    concurrency: int,
    ordered_by: MessageOrder,
    in_progress: bool,
    config: ConsumerConfig,
) -> CallbackPlan:
    """Check what was asked for against the consumer."""
    check_concurrency(concurrency, ordered_by, callback)
    if callback is not None:
        function(callback, "callback", "a message")
    if callback is None and in_progress:
        raise ValueError("in_progress is for a callback, and none was given")
    if concurrency > 1 and config.ack_policy is AckPolicy.ALL:
        raise SubscribeRefused(
            f"concurrency={concurrency}: with ack policy all, acknowledging one message "
            "acknowledges those before it that are still worked on; use ack policy explicit"
        )
    interval = 0.0
    if in_progress and config.ack_policy is not AckPolicy.NONE:
        interval = min((config.ack_wait, *config.backoff)) / 2e9
    return CallbackPlan(concurrency, ordered_by, interval)


class CallbackRun:
    """The task that takes messages of a source and calls a callback with them."""

    def __init__(
        self,
        core: ClientCore,
        source: ChunkSource,
        callback: MessageCallback,
        label: str,
        plan: CallbackPlan | None = None,
    ) -> None:
        plan = plan or CallbackPlan()
        self._core = core
        self._source = source
        self.label = label
        if isinstance(callback, ThreadCallback):
            callback = callback.for_one_reader()
        self._callback = callback
        self._thread = callback if isinstance(callback, ThreadCallback) else None
        self._stopping = False
        # Taken over from the source and not begun.
        self._taken: list[JetStreamMessage] = []
        self._pool: CallbackPool[JetStreamMessage] | None = None
        # Messages in hand at most; a pull is bounded by its prefetch.
        self._limit = HELD_PER_WORKER * plan.concurrency
        if plan.needs_pool:
            done = None
            if isinstance(source, EndlessPull):
                done, self._limit = source.done, sys.maxsize
            self._pool = CallbackPool(
                callback, plan.concurrency, plan.ordered_by, label, core.report, done
            )
            self._thread = None  # the pool has one per worker
        self._signal_interval = plan.signal_interval
        self._timer: asyncio.TimerHandle | None = None
        self._signal_later()
        self.task: Final = core.loop.create_task(self._run(callback), name=f"jetspark {label}")
        core.callbacks.add(self.task, self._pool or callback)
        # Consumption.wait raises what ended it to callers that ask; nobody has to.
        self.task.add_done_callback(_look_at_result)

    @property
    def is_calling_here(self) -> bool:
        """Whether the caller is the callback itself, which cannot wait for its own end."""
        return is_calling(self.task, self._pool or self._callback)

    async def stop(self, *, timeout: Timeout | None = None) -> None:
        """As ``Consumption.close``."""
        seconds = self._core.seconds(timeout)
        deadline = self._core.loop.time() + seconds
        self._stopping = True
        untaken = list(self._taken)
        self._taken.clear()
        if self._thread is not None:
            untaken += self._thread.stop()
        if self._pool is not None:
            untaken += self._pool.give_up()
        try:
            # The request ends first: what is given back under it would be sent here again.
            await self._source.settle(seconds)
        finally:
            give_back(untaken)
        with contextlib.suppress(Error):
            # The task would do it too, but it may be busy with a callback.
            while chunk := await self._source.next_chunk(CHUNK_MAX):
                give_back(chunk)
        if not self.is_calling_here:
            left = max(deadline - self._core.loop.time(), 0.0)
            _, late = await asyncio.wait([self.task], timeout=left)
            if late:
                await self._cut(seconds)

    async def _cut(self, seconds: float) -> None:
        """Cancel what did not end in time; a function on a thread cannot be, and goes on."""
        on_threads = isinstance(self._callback, ThreadCallback)
        cut = self._pool.running if self._pool is not None else []
        self.task.cancel()
        await asyncio.wait([self.task])
        if not on_threads:
            give_back(cut)
        raise RequestTimeout(
            f"{self.label}: the callback was not done within {seconds} s and was "
            f"{'left alone on its thread' if on_threads else 'cancelled'}; give close() a longer "
            "timeout, or let the callback end sooner"
        )

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """As ``Consumption.drain``."""
        seconds = self._core.seconds(timeout)
        deadline = self._core.loop.time() + seconds
        await self._source.settle(seconds)
        if not self.is_calling_here:
            await self.finish(seconds, deadline)

    async def finish(self, seconds: float, deadline: float) -> None:
        """Wait until the callback had everything, after the source was told to stop."""
        left = max(deadline - self._core.loop.time(), 0.0)
        if not await self._core.or_closed(self._done_within(left)):
            raise RequestTimeout(
                f"drain of {self.label}: the callback was not done within {seconds} s; call "
                "close() to give up what is left"
            )

    async def wait(self) -> None:
        """As ``Consumption.wait``."""
        await asyncio.wait([self.task])
        if self.task.cancelled():  # by the end of the client, which waits only so long
            raise self._core.closed_error()
        self.task.result()

    async def _done_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait([self.task], timeout=seconds)
        return bool(done)

    async def _run(self, callback: MessageCallback) -> None:
        try:
            while chunk := await self._source.next_chunk(CHUNK_MAX):
                if self._stopping:
                    give_back(chunk)
                elif self._pool is not None:
                    await self._add(self._pool, chunk)
                elif self._thread is not None:
                    give_back(await self._thread.run(chunk, self._core.report))
                else:
                    await self._call(callback, chunk)
            if self._pool is not None:
                await self._pool.finish()
        except Exception as error:
            # The closed callback tells of a connection that is closed.
            if not self._stopping and not isinstance(error, ConnectionClosed):
                self._core.report(error)
            await self._source.stop()
            if self._pool is not None:
                await self._pool.finish()
            if not self._stopping:
                raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._pool is not None:
                self._pool.close()
            if self._thread is not None:
                self._thread.close()

    async def _add(
        self, pool: CallbackPool[JetStreamMessage], chunk: list[JetStreamMessage]
    ) -> None:
        for index, message in enumerate(chunk):
            await pool.room(self._limit)
            if self._stopping:
                give_back(chunk[index:])
                return
            pool.add(message)

    def _signal_later(self) -> None:
        if self._signal_interval:
            self._timer = self._core.loop.call_later(self._signal_interval, self._signal)

    def _signal(self) -> None:
        """Ask for more time for everything in hand, also what waits for others of its key."""
        if self._pool is not None and self._core.link.connection is not None:
            for message in self._pool.in_hand:
                with contextlib.suppress(Error):
                    message.in_progress()
        self._signal_later()

    async def _call(
        self,
        callback: MessageCallback,
        chunk: list[JetStreamMessage],
    ) -> None:
        # The next one is at the end: what stop() gives back is what was not begun.
        chunk.reverse()
        self._taken = chunk
        while chunk and not self._stopping:
            await call_back(callback, chunk.pop(), self.label, self._core.report)
        # A callback that never awaits must not keep the loop from reading.
        await asyncio.sleep(0)


class Consumption:
    """Messages on their way to a callback. Made by ``consume`` and ended by ``close``."""

    def __init__(self, run: CallbackRun) -> None:
        self._run = run

    @property
    def is_closed(self) -> bool:
        """Whether the callback will not be called again."""
        return self._run.task.done()

    async def close(self, *, timeout: Timeout | None = None) -> None:
        """End now: after what the callback works on; what it did not begin is given back.

        Others get that at once (``nak``). After ``timeout`` seconds the callback is cancelled, its
        messages are given back too, and RequestTimeout is raised; one on a thread goes on alone.
        The callback may call it too; it then returns without waiting.
        """
        await self._run.stop(timeout=timeout)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """Ask for nothing more and wait until the callback had all that has arrived.

        The callback may call it too; it then returns without waiting.
        """
        await self._run.drain(timeout=timeout)

    async def wait(self) -> None:
        """Wait until it has ended; raises what ended it, if nobody stopped it."""
        await self._run.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Consumption({self._run.label!r}, {'ended' if self.is_closed else 'running'})"


def _look_at_result(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
