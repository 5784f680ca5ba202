"""``consume``: a callback called with one message at a time, or with several concurrently.

One at a time is one task; several are a pool, whose messages count towards the prefetch until they
are processed, so that no more is pulled than can be processed.
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
from jetspark.client.callbacks.pool import CallbackPool, OrderedBy, check_concurrency
from jetspark.client.callbacks.tasks import call_back, is_calling
from jetspark.client.callbacks.thread import ThreadCallback
from jetspark.client.core import ClientCore
from jetspark.client.jetstream.consumer.endless import (
    CHUNK_MAX,
    ChunkSource,
    EndlessPull,
    give_back,
)
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.subscription import HELD_PER_WORKER
from jetspark.client.timeouts import Timeout
from jetspark.errors import ConnectionClosed, Error, RequestTimeout, SubscribeRefused

MessageCallback = Callable[[JetStreamMessage], Awaitable[None] | None]
MessageOrder = OrderedBy[JetStreamMessage]


@dataclass(frozen=True)
class CallbackPlan:
    """How many messages a callback processes concurrently, in which order, with which signals."""

    concurrency: int = 1
    ordered_by: MessageOrder = None
    # Seconds between in-progress signals for a message; 0: none.
    signal_interval: float = 0.0

    @property
    def needs_pool(self) -> bool:
        """Whether a single task is not enough."""
        return self.concurrency > 1 or self.signal_interval > 0


def callback_plan(
    callback: MessageCallback | None,
    concurrency: int,
    ordered_by: MessageOrder,
    in_progress: bool,
    config: ConsumerConfig,
) -> CallbackPlan:
    """Check the arguments against the consumer."""
    check_concurrency(concurrency, ordered_by, callback)
    if callback is not None:
        function(callback, "callback", "a message")
    if callback is None and in_progress:
        raise ValueError("in_progress requires a callback")
    if concurrency > 1 and config.ack_policy is AckPolicy.ALL:
        raise SubscribeRefused(
            f"concurrency={concurrency}: with ack policy all, acknowledging one message "
            "acknowledges earlier ones that are still being processed; use ack policy explicit"
        )
    interval = 0.0
    if in_progress and config.ack_policy is not AckPolicy.NONE:
        interval = min((config.ack_wait, *config.backoff)) / 2e9
    return CallbackPlan(concurrency, ordered_by, interval)


class CallbackRun:
    """The task that reads messages from a source and calls a callback with them."""

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
        # Taken from the source, not started.
        self._taken: list[JetStreamMessage] = []
        self._pool: CallbackPool[JetStreamMessage] | None = None
        # Maximum of messages held; a pull is limited by its prefetch.
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
        # Consumption.wait raises the error to callers that ask; no caller has to.
        self.task.add_done_callback(_retrieve_result)

    @property
    def is_calling_here(self) -> bool:
        """Whether the caller runs inside the callback, which cannot wait for its own end."""
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
            # End the request first: otherwise returned messages would be sent here again.
            await self._source.settle(seconds)
        finally:
            give_back(untaken)
        with contextlib.suppress(Error):
            # The task would do this too, but it may be busy with a callback.
            while chunk := await self._source.next_chunk(CHUNK_MAX):
                give_back(chunk)
        if not self.is_calling_here:
            left = max(deadline - self._core.loop.time(), 0.0)
            _, late = await asyncio.wait([self.task], timeout=left)
            if late:
                await self._cut(seconds)

    async def _cut(self, seconds: float) -> None:
        """Cancel what did not end in time; a function on a thread cannot be cancelled."""
        on_threads = isinstance(self._callback, ThreadCallback)
        cut = self._pool.running if self._pool is not None else []
        self.task.cancel()
        await asyncio.wait([self.task])
        if not on_threads:
            give_back(cut)
        raise RequestTimeout(
            f"{self.label}: the callback did not finish within {seconds} s and was "
            f"{'left running on its thread' if on_threads else 'cancelled'}; use a longer timeout "
            "for close(), or make the callback end sooner"
        )

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """As ``Consumption.drain``."""
        seconds = self._core.seconds(timeout)
        deadline = self._core.loop.time() + seconds
        await self._source.settle(seconds)
        if not self.is_calling_here:
            await self.finish(seconds, deadline)

    async def finish(self, seconds: float, deadline: float) -> None:
        """Wait until the callback has processed everything, after the source was stopped."""
        left = max(deadline - self._core.loop.time(), 0.0)
        if not await self._core.or_closed(self._done_within(left)):
            raise RequestTimeout(
                f"drain of {self.label}: the callback did not finish within {seconds} s; call "
                "close() to discard the rest"
            )

    async def wait(self) -> None:
        """As ``Consumption.wait``."""
        await asyncio.wait([self.task])
        if self.task.cancelled():  # by the closing client, which waits only so long
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
            # A closed connection is reported by the closed callback.
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
        """Extend the ack deadline of all messages held, including those waiting for their key."""
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
        # The next one is at the end: stop() returns the messages that were not started.
        chunk.reverse()
        self._taken = chunk
        while chunk and not self._stopping:
            await call_back(callback, chunk.pop(), self.label, self._core.report)
        # A callback that never awaits must not keep the loop from reading.
        await asyncio.sleep(0)


class Consumption:
    """Messages passed to a callback, created by ``consume``, ended by ``close`` or ``drain``."""

    def __init__(self, run: CallbackRun) -> None:
        self._run = run

    @property
    def is_closed(self) -> bool:
        """Whether the callback will not be called again."""
        return self._run.task.done()

    async def close(self, *, timeout: Timeout | None = None) -> None:
        """End now, after the running callback; messages not started are returned to the server.

        These are redelivered at once (``nak``). After ``timeout`` seconds the callback is
        cancelled, its messages are returned too, and RequestTimeout is raised; a callback on a
        thread keeps running. The callback may call it too; it then returns without waiting.
        """
        await self._run.stop(timeout=timeout)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """Request nothing more and wait until the callback has processed everything that arrived.

        The callback may call it too; it then returns without waiting.
        """
        await self._run.drain(timeout=timeout)

    async def wait(self) -> None:
        """Wait until it ends; raises the error that ended it, unless it was closed."""
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


def _retrieve_result(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
