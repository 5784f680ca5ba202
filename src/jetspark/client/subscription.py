"""Subscriptions: read them with ``async for`` or ``next``, or pass a callback.

A callback runs in **one task per subscription**, or in a pool of them (``concurrency``), never in
the socket reader: with one task messages keep their order, a slow callback delays no other
subscription, the pending limits apply to it as to any other reader, and it may be a plain function
or a coroutine function. Plain functions are called in a loop without awaiting anything, so the
cost over calling them inline is one queue append; a blocking function belongs in a ThreadCallback.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

from jetspark.client.callbacks.pool import CallbackPool, OrderedBy, check_concurrency
from jetspark.client.callbacks.tasks import callback_cancelled, is_calling, is_cancelled_here
from jetspark.client.callbacks.thread import ThreadCallback
from jetspark.client.header_input import HeaderInput
from jetspark.client.message import Message
from jetspark.client.receive import MessageQueue, Receiver
from jetspark.client.reprs import closed_mark
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import AlreadyClaimed, AlreadyEnded, Error, RequestTimeout, SlowConsumer

PENDING_MSGS_MAX: Final = 512 * 1024  # the default of nats-py and nats.go
PENDING_BYTES_MAX: Final = 128 * 1024 * 1024
# A plain callback yields to the loop after this many messages.
CALLBACK_RUN: Final = 256
# Seconds to inform the server of the end of a drain whose own time is up.
END_GRACE: Final = 0.5
# Before ending a subscription whose messages come through another server: seconds without a
# message after which none is assumed to be in flight, maximum seconds to wait, and poll interval.
ROUTED_QUIET: Final = 0.1
ROUTED_MAX: Final = 1.0
ROUTED_LOOK: Final = 0.005
# Messages that a pool of callbacks holds per worker, including the one being processed.
HELD_PER_WORKER: Final = 2

Callback = Callable[[Message], Awaitable[None] | None]


class SubscriptionOwner(Protocol):
    """The part of the client that a subscription needs."""

    def publish(self, subject: str, payload: bytes = b"", *, headers: HeaderInput = None) -> None:
        """Queue a message for the server: replies to messages received here."""

    def send_unsubscribe(self, sid: int, max_msgs: int) -> None:
        """Send UNSUB, effective at once (0) or after ``max_msgs`` deliveries."""

    def forget_subscription(self, sid: int) -> None:
        """Drop further messages of this subscription."""

    def report(self, error: Exception) -> None:
        """Call the error callback."""

    async def settle(self, *, timeout: float) -> None:
        """Wait until nothing that was sent to us before is in flight."""

    async def or_closed(self, waiting: Coroutine[Any, Any, bool]) -> bool:
        """The result of ``waiting``; ConnectionClosed if the client closes first."""

    @property
    def is_draining(self) -> bool:
        """Whether the client is draining."""

    def closed_error(self) -> Error:
        """Why the client is closed."""


class Taker(NamedTuple):
    """Takes messages from a subscription in chunks; a drain waits for it as well.

    ``wait_taken`` waits until they were handed out, and raises RequestTimeout after a deadline
    (in loop time; the second argument is the timeout of the drain). ``drained`` is called at the
    end of the drain, successful or not, with the remaining seconds.
    """

    wait_taken: Callable[[float, float], Coroutine[Any, Any, bool]]
    drained: Callable[[float], Awaitable[None]] | None = None


class SubscriptionCore:
    """The implementation of a subscription: its queue, its readers or callback, and its end.

    ``Subscription`` is the public class; other parts of the client read this one in chunks.
    """

    def __init__(
        self,
        owner: SubscriptionOwner,
        receiver: Receiver,
        sid: int,
        subject: str,
        queue: str,
        *,
        pending_msgs: int,
        pending_bytes: int,
        callback: Callback | None,
        timeout: float,
        concurrency: int = 1,
        ordered_by: OrderedBy[Message] = None,
        awaits: Callable[[], bool] | None = None,
    ) -> None:
        check_concurrency(concurrency, ordered_by, callback)
        _check_limit("pending_msgs", pending_msgs)
        _check_limit("pending_bytes", pending_bytes)
        if callback is not None and not callable(callback):
            raise TypeError(
                f"callback must be a function that takes a message, not {type(callback).__name__}"
            )
        self._owner = owner
        self._sid = sid
        self.subject: Final = subject
        self.queue: Final = queue
        self._timeout = timeout
        # Where the receive path appends messages.
        self.sink: Final = MessageQueue(
            receiver, owner, pending_msgs, pending_bytes, self._on_wake
        )
        self._reported = 0
        self.is_closed: bool = False
        self.is_draining: bool = False  # stopping: it still takes messages in flight
        self._error: Exception | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        # Drains that wait until everything was taken.
        self.drains: list[asyncio.Future[None]] = []
        if isinstance(callback, ThreadCallback):
            callback = callback.for_one_reader()
        self.callback: Final[Callback | None] = callback
        self._concurrency = concurrency
        self._pool: CallbackPool[Message] | None = None
        if callback is not None and concurrency > 1:
            self._pool = CallbackPool(
                callback, concurrency, ordered_by, f"callback {subject}", owner.report
            )
        # Runs the callback; None for a subscription that is read.
        self.callback_task: asyncio.Task[None] | None = None
        # If messages come through another server (a cluster): whether requested messages have not
        # arrived yet. The PONG of our server says nothing about what the other one is sending, and
        # messages that arrive after UNSUB would be lost until their ack_wait expires.
        self._awaits = awaits
        # JetStream deletes consumers once the subscription is drained and removed (ADR-15).
        self._taker: Taker | None = None
        if callback is not None:
            self.callback_task = asyncio.get_running_loop().create_task(
                self._run(callback), name=f"jetspark callback {subject}"
            )

    @property
    def caller(self) -> object:
        """The callback, or the pool that calls it."""
        return self._pool or self.callback

    @property
    def pending_msgs(self) -> int:
        """Messages received and not yet read."""
        return len(self.sink.messages)

    @property
    def delivered(self) -> int:
        """Messages that arrived, including dropped ones."""
        return self.sink.delivered

    @property
    def dropped(self) -> int:
        """Messages lost because a pending limit was reached."""
        return self.sink.dropped

    @property
    def deliveries_left(self) -> int:
        """Remaining messages until the automatic end; 0 if there is none."""
        pending = self.sink
        return pending.delivered_max - pending.delivered if pending.delivered_max else 0

    def seconds(self, timeout: Timeout | None) -> float:
        """The timeout of a call: its own, or the client's default."""
        return call_seconds(timeout, self._timeout)

    async def next_chunk(self, count: int) -> list[Message]:
        """Wait for a message, then return all pending ones up to ``count``; empty at the end."""
        self.check_unclaimed()
        if not self.sink.messages and not await self.wait():
            return []
        taken = self.sink.take_many(count)
        if self.drains and not self.sink.messages:
            self.end_drains()
        return taken

    def taken_by(self, taker: Taker | None) -> None:
        """Set who takes its messages: a drain waits for it; None: no reader any more."""
        self._taker = taker

    def hand_over(self, messages: list[Message]) -> None:
        """Let the reader have messages that came for another one."""
        self.sink.put(messages)
        self._wake_readers()

    async def unsubscribe(self, limit: int = 0) -> None:
        """As ``Subscription.unsubscribe``."""
        if limit != 0:
            _check_limit("limit", limit)
        if limit > self.sink.delivered:
            if not self.is_closed:
                self.sink.end_after(limit)
                self._owner.send_unsubscribe(self._sid, limit)
            return
        if not self.is_closed:
            self._owner.send_unsubscribe(self._sid, 0)
        if self.callback is not None:
            # Also on one that ended or is draining: its callback may still be busy.
            self.sink.take_many(self.pending_msgs)
            if self._pool is not None:
                self._pool.give_up()
            elif isinstance(self.callback, ThreadCallback):
                self.callback.stop()
        self.end(None)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """As ``Subscription.drain``."""
        seconds = self.seconds(timeout)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        taker, self._taker = self._taker, None
        try:
            await self.stop(seconds)
            if self._is_busy and not is_calling(self.callback_task, self.caller):
                async with asyncio.timeout_at(deadline):
                    await self._owner.or_closed(self._idle())
            if taker is not None:
                await self._owner.or_closed(taker.wait_taken(deadline, seconds))
        except RequestTimeout:
            self.end(None)
            raise
        except TimeoutError:
            raise RequestTimeout(
                f"drain of {self.subject!r}: {self.pending_msgs} messages were not read within "
                f"{seconds} s; read them, or call unsubscribe() to discard them"
            ) from None
        finally:
            if taker is not None and taker.drained is not None:
                await taker.drained(max(deadline - loop.time(), END_GRACE))

    async def stop(self, seconds: float) -> None:
        """Stop the subscription, and take the messages that are in flight.

        Continues if the caller is cancelled, or gives up after ``seconds``: messages that the
        server has already sent would otherwise be lost to all readers until their ack_wait
        expires.
        """
        self.begin_stop(seconds)
        if self._stopping is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._stopping)
        except RequestTimeout:
            raise
        except TimeoutError:
            raise RequestTimeout(
                f"subscription to {self.subject!r}: the server did not confirm UNSUB within "
                f"{seconds} s"
            ) from None

    def begin_stop(self, seconds: float) -> None:
        """Start ``stop`` without waiting for it."""
        if self.is_closed or self._stopping is not None:
            return
        self.is_draining = True
        if self._awaits is None:
            self._owner.send_unsubscribe(self._sid, 0)
        self._stopping = asyncio.get_running_loop().create_task(self._settle(seconds))
        self._stopping.add_done_callback(_retrieve_result)

    async def _settle(self, seconds: float) -> None:
        try:
            if self._awaits is not None:
                await self._quiet(self._awaits, min(seconds, ROUTED_MAX))
                if not self.is_closed:
                    self._owner.send_unsubscribe(self._sid, 0)
            await self._owner.settle(timeout=seconds)
        finally:
            self.end(None)

    async def _quiet(self, awaits: Callable[[], bool], seconds: float) -> None:
        """Wait until everything requested has arrived, or nothing arrived for a while."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        end, quiet, seen = now + seconds, now + ROUTED_QUIET, self.sink.delivered
        while awaits() and not self.is_closed and now < min(end, quiet):
            await asyncio.sleep(ROUTED_LOOK)
            now = loop.time()
            if self.sink.delivered != seen:
                quiet, seen = now + ROUTED_QUIET, self.sink.delivered

    def end(self, error: Exception | None) -> None:
        """No more messages will arrive; readers get ``error`` after the pending ones.

        Called by the client when the connection is lost.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._error = error
        self._owner.forget_subscription(self._sid)
        self._wake_readers()

    async def wait(self) -> bool:
        """Wait for a pending message; False at the end, or raises the error that ended it."""
        pending = self.sink
        while not pending.messages:
            if self.is_closed:
                if self._error is not None:
                    raise self._error.with_traceback(None)  # it may be raised several times
                return False
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            pending.wake_on_delivery()
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return True

    @property
    def _is_busy(self) -> bool:
        """Whether messages have not been taken yet, or the callback is not done."""
        if self.callback_task is not None:
            return not self.callback_task.done()
        return bool(self.sink.messages)

    async def _idle(self) -> bool:
        if self.callback_task is not None:
            await asyncio.wait([self.callback_task])
        elif self.sink.messages:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.drains.append(idle)
            await idle
        return True

    def end_drains(self) -> None:
        """Everything was taken: complete the drains that wait for it."""
        waiting, self.drains = self.drains, []
        for idle in waiting:
            if not idle.done():
                idle.set_result(None)

    def ended_error(self) -> Error:
        """Why there is no next message: the client or the subscription ended."""
        if self._owner.is_draining:
            return self._owner.closed_error()
        return AlreadyEnded(
            f"the subscription to {self.subject!r} has ended: no more messages will arrive"
        )

    def check_unclaimed(self) -> None:
        """Refuse a reader if a callback takes the messages."""
        if self.callback is not None:
            raise AlreadyClaimed(
                f"the subscription to {self.subject!r} has a callback, which takes its messages: "
                "subscribe without one to read them"
            )

    def _on_wake(self) -> None:
        """After a chunk that contained messages for this subscription."""
        pending = self.sink
        if pending.dropped > self._reported:
            self._reported = pending.dropped
            self._owner.report(SlowConsumer(self.subject, pending.dropped))
        if 0 < pending.delivered_max <= pending.delivered:
            self.end(None)
        self._wake_readers()

    def _wake_readers(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _run(self, callback: Callback) -> None:
        with contextlib.suppress(Error):  # already reported where it ended
            if self._pool is not None:
                await self._run_pool(self._pool)
            elif isinstance(callback, ThreadCallback):
                await self._run_in_thread(callback)
            else:
                await self._run_here(callback)

    async def _run_pool(self, pool: CallbackPool[Message]) -> None:
        # Messages waiting for others of their key count too, so more are held than processed.
        limit = HELD_PER_WORKER * self._concurrency
        try:
            with contextlib.suppress(Error):  # the client has ended: process what was received
                while await self.wait():
                    await pool.room(limit)
                    if self.sink.messages:  # it may have been unsubscribed meanwhile
                        pool.add(self.sink.take())
            await pool.finish()
        finally:
            pool.close()

    async def _run_in_thread(self, callback: ThreadCallback[Message]) -> None:
        try:
            while await self.wait():
                taken = self.sink.take_many(CALLBACK_RUN)
                await callback.run(taken, self._owner.report)
        finally:
            callback.close()

    async def _run_here(self, callback: Callback) -> None:
        pending = self.sink
        while await self.wait():
            for _ in range(CALLBACK_RUN):
                if not pending.messages:
                    break
                try:
                    result = callback(pending.take())
                    if result is not None and inspect.isawaitable(result):
                        await result
                except asyncio.CancelledError as error:
                    if is_cancelled_here():
                        raise
                    self._owner.report(
                        callback_cancelled(f"subscription to {self.subject!r}", error)
                    )
                except Exception as error:  # noqa: BLE001 - a user's callback may raise anything
                    self._owner.report(error)
            else:
                # A callback that never awaits must not keep the loop from reading.
                await asyncio.sleep(0)


class Subscription:
    """Messages of one subject, in order. Created by ``Client.subscribe``."""

    def __init__(self, core: SubscriptionCore) -> None:
        self._core = core
        self._sink = core.sink

    @property
    def subject(self) -> str:
        """The subject, including wildcards."""
        return self._core.subject

    @property
    def queue(self) -> str:
        """The queue group; empty for an ordinary subscription."""
        return self._core.queue

    @property
    def pending_msgs(self) -> int:
        """Messages received and not yet read."""
        return self._core.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """Size of the pending messages."""
        return self._sink.bytes

    @property
    def delivered(self) -> int:
        """Messages that arrived, including dropped ones."""
        return self._core.delivered

    @property
    def dropped(self) -> int:
        """Messages lost because a pending limit was reached."""
        return self._core.dropped

    @property
    def is_closed(self) -> bool:
        """Whether no more messages will arrive; pending ones can still be read."""
        return self._core.is_closed

    def __aiter__(self) -> Self:
        self._core.check_unclaimed()
        return self

    async def __anext__(self) -> Message:
        sink, core = self._sink, self._core
        if not sink.messages and not await core.wait():
            raise StopAsyncIteration
        message = sink.take()
        if core.drains and not sink.messages:
            core.end_drains()
        return message

    async def next(self, *, timeout: Timeout | None = None) -> Message:
        """Wait for the next message.

        Raises RequestTimeout if none arrives within ``timeout`` seconds (default: the client's),
        and ConnectionClosed or AlreadyEnded if none can arrive any more.
        """
        sink, core = self._sink, self._core
        core.check_unclaimed()
        if not sink.messages:
            seconds = core.seconds(timeout)
            try:
                async with asyncio.timeout(seconds):
                    more = await core.wait()
            except TimeoutError:
                raise RequestTimeout(
                    f"no message on {core.subject!r} within {seconds} s"
                ) from None
            if not more:
                raise core.ended_error()
        message = sink.take()
        if core.drains and not sink.messages:
            core.end_drains()
        return message

    async def unsubscribe(self, limit: int = 0) -> None:
        """Unsubscribe: at once, or after ``limit`` messages since the start.

        Pending messages can still be read; a callback is no longer called with them (``drain``
        passes them to it). Harmless on a subscription that has ended.
        """
        await self._core.unsubscribe(limit)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """Unsubscribe, wait for messages in flight, and until all of them were read.

        Raises RequestTimeout if the reader has not read everything within ``timeout``. The
        callback may call it too: it then returns before the callback gets the rest.
        """
        await self._core.drain(timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.unsubscribe()

    async def _next_chunk(self, count: int) -> list[Message]:
        """Wait for a message and return all pending ones; the blocking twin iterates with it."""
        return await self._core.next_chunk(count)

    def __repr__(self) -> str:
        return f"Subscription({self._core.subject!r}{closed_mark(self.is_closed)})"


def _retrieve_result(task: asyncio.Task[None]) -> None:
    """Retrieve the result: waiters get the error, but there may be none."""
    if not task.cancelled():
        task.exception()


def _check_limit(name: str, value: object) -> None:
    """Refuse a limit that is no int; the compiled receive path counts up to 2**63 - 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 0 < value < 2**63:
        raise ValueError(f"{name}={value}: expected a limit above 0 and below 2**63")
