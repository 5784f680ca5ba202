"""A subscription: read it with ``async for``, with ``next``, or give it a callback.

A callback runs from **one task per subscription**, or from a pool of them (``concurrency``), never
from the socket reader: with one task messages keep their order, a slow callback holds up nobody
else, the pending limits apply to it as to any other reader, and it may be a plain function or a
coroutine function. Plain functions are called in a loop without awaiting anything, so the price
over calling them inline is one queue append; a function that blocks goes into a ThreadCallback.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

from jetspark.client.callback_pool import CallbackPool, OrderedBy, check_concurrency
from jetspark.client.callback_tasks import callback_cancelled, is_calling, is_cancelled_here
from jetspark.client.header_input import HeaderInput
from jetspark.client.message import Message
from jetspark.client.receive import MessageQueue, Receiver
from jetspark.client.reprs import closed_mark
from jetspark.client.thread_callback import ThreadCallback
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import AlreadyClaimed, AlreadyEnded, Error, RequestTimeout, SlowConsumer

PENDING_MSGS_MAX: Final = 512 * 1024  # what nats-py and nats.go allow by default
PENDING_BYTES_MAX: Final = 128 * 1024 * 1024
# A plain callback gives the loop a turn after so many messages.
CALLBACK_RUN: Final = 256
# Seconds for the server to hear of the end of a drain whose own time is up.
LAST_WORD: Final = 0.5
# Before the end of a subscription whose messages come through another server: seconds without a
# message that mean that none is on its way, seconds to wait at most, and between two looks.
ROUTED_QUIET: Final = 0.1
ROUTED_MAX: Final = 1.0
ROUTED_LOOK: Final = 0.005
# Messages that a pool of callbacks holds per worker, the one that it works on included.
HELD_PER_WORKER: Final = 2

Callback = Callable[[Message], Awaitable[None] | None]


class SubscriptionOwner(Protocol):
    """What a subscription needs of its client."""

    def publish(self, subject: str, payload: bytes = b"", *, headers: HeaderInput = None) -> None:
        """Queue a message for the server: what answers the messages received here."""

    def send_unsubscribe(self, sid: int, max_msgs: int) -> None:
        """Tell the server to stop, at once (0) or after ``max_msgs`` deliveries."""

    def forget_subscription(self, sid: int) -> None:
        """Take no further messages of this subscription."""

    def report(self, error: Exception) -> None:
        """Tell the error callback."""

    async def settle(self, *, timeout: float) -> None:
        """Wait until nothing that was sent before is on its way to us any more."""

    async def or_closed(self, waiting: Coroutine[Any, Any, bool]) -> bool:
        """The result of ``waiting``; ConnectionClosed when the client closes first."""

    @property
    def is_draining(self) -> bool:
        """Whether the client is being drained."""

    def closed_error(self) -> Error:
        """Why nothing can come any more."""


class Taker(NamedTuple):
    """Who takes messages over from a subscription in chunks: a drain waits for it as well.

    ``wait_taken`` waits until they were handed out, and raises RequestTimeout after a deadline
    (loop time; and the seconds that the drain was given). ``drained`` is called when the drain is
    over, however it went, with the seconds that are left.
    """

    wait_taken: Callable[[float, float], Coroutine[Any, Any, bool]]
    drained: Callable[[float], Awaitable[None]] | None = None


class SubscriptionCore:
    """The inside of a subscription: its queue, its readers or its callback, and its end.

    ``Subscription`` is what users see; consumers and other parts of the client read it in chunks.
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
        # Where the receive path puts the messages.
        self.sink: Final = MessageQueue(
            receiver, owner, pending_msgs, pending_bytes, self._on_wake
        )
        self._reported = 0
        self.is_closed: bool = False
        self.is_draining: bool = False  # it was told to stop and takes what is still on its way
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
        # What runs the callback; None for a subscription that is read.
        self.callback_task: asyncio.Task[None] | None = None
        # For one whose messages come through another server (a cluster): whether something was
        # asked for that is not here. The PONG of our server says nothing about what that other
        # one is sending, and what comes after UNSUB would be lost until its ack_wait is over.
        self.awaits: Callable[[], bool] | None = None
        # JetStream deletes consumers once the subscription is drained and removed (ADR-15).
        self.taker: Taker | None = None
        if callback is not None:
            self.callback_task = asyncio.get_running_loop().create_task(
                self._run(callback), name=f"jetspark callback {subject}"
            )

    @property
    def caller(self) -> object:
        """What calls the callback: the callback itself, or a pool around it."""
        return self._pool or self.callback

    @property
    def pending_msgs(self) -> int:
        """Messages received and not yet taken."""
        return len(self.sink.messages)

    @property
    def delivered(self) -> int:
        """Messages that arrived, dropped ones included."""
        return self.sink.delivered

    @property
    def dropped(self) -> int:
        """Messages lost because a pending limit was reached."""
        return self.sink.dropped

    @property
    def deliveries_left(self) -> int:
        """Messages until it ends by itself; 0 when it does not."""
        pending = self.sink
        return pending.delivered_max - pending.delivered if pending.delivered_max else 0

    def seconds(self, timeout: Timeout | None) -> float:
        """The timeout of a call: its own, or the default of the client."""
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

    def hand_over(self, messages: list[Message]) -> None:
        """Let the reader have messages that came for another one."""
        pending = self.sink
        pending.messages.extend(messages)
        pending.bytes += sum(message.size for message in messages)
        self._wake_readers()

    async def unsubscribe(self, limit: int = 0) -> None:
        """As ``Subscription.unsubscribe``."""
        if limit != 0:
            _check_limit("limit", limit)
        if limit > self.sink.delivered:
            if not self.is_closed:
                self.sink.delivered_max = limit
                self._owner.send_unsubscribe(self._sid, limit)
            return
        if not self.is_closed:
            self._owner.send_unsubscribe(self._sid, 0)
        if self.callback is not None:
            # On one that ended or is being drained too: its callback may still be busy.
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
        taker, self.taker = self.taker, None
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
                f"drain of {self.subject!r}: {self.pending_msgs} messages were not taken within "
                f"{seconds} s; read them, or call unsubscribe() to give them up"
            ) from None
        finally:
            if taker is not None and taker.drained is not None:
                await taker.drained(max(deadline - loop.time(), LAST_WORD))

    async def stop(self, seconds: float) -> None:
        """Tell the server to stop, and take what is still on its way.

        It goes on when the caller is cancelled, or gives up after ``seconds``: what the server
        has sent already would be lost to everybody until its ack_wait is over.
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
                f"subscription to {self.subject!r}: the server did not confirm its end within "
                f"{seconds} s"
            ) from None

    def begin_stop(self, seconds: float) -> None:
        """As ``stop``, which waits for it."""
        if self.is_closed or self._stopping is not None:
            return
        self.is_draining = True
        if self.awaits is None:
            self._owner.send_unsubscribe(self._sid, 0)
        self._stopping = asyncio.get_running_loop().create_task(self._settle(seconds))
        self._stopping.add_done_callback(_look_at_result)

    async def _settle(self, seconds: float) -> None:
        try:
            if self.awaits is not None:
                await self._quiet(self.awaits, min(seconds, ROUTED_MAX))
                if not self.is_closed:
                    self._owner.send_unsubscribe(self._sid, 0)
            await self._owner.settle(timeout=seconds)
        finally:
            self.end(None)

    async def _quiet(self, awaits: Callable[[], bool], seconds: float) -> None:
        """Wait until all that was asked for is here, or nothing came for a while."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        end, quiet, seen = now + seconds, now + ROUTED_QUIET, self.sink.delivered
        while awaits() and not self.is_closed and now < min(end, quiet):
            await asyncio.sleep(ROUTED_LOOK)
            now = loop.time()
            if self.sink.delivered != seen:
                quiet, seen = now + ROUTED_QUIET, self.sink.delivered

    def end(self, error: Exception | None) -> None:
        """No further message will come; readers get ``error`` once the pending ones are taken.

        Called by the client when the connection is lost.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._error = error
        self._owner.forget_subscription(self._sid)
        self._wake_readers()

    async def wait(self) -> bool:
        """Wait for a pending message; False at the end, or the error that ended it."""
        pending = self.sink
        while not pending.messages:
            if self.is_closed:
                if self._error is not None:
                    raise self._error.with_traceback(None)  # it may be raised several times
                return False
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            pending.waiting = True
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return True

    @property
    def _is_busy(self) -> bool:
        """Whether something that has arrived was not taken, or its callback is not done."""
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
        """Everything was taken: drains that wait for it are done."""
        waiting, self.drains = self.drains, []
        for idle in waiting:
            if not idle.done():
                idle.set_result(None)

    def ended_error(self) -> Error:
        """Why there is no next message: the client ends, or only the subscription."""
        if self._owner.is_draining:
            return self._owner.closed_error()
        return AlreadyEnded(
            f"the subscription to {self.subject!r} has ended: no message will come"
        )

    def check_unclaimed(self) -> None:
        """Refuse a reader when a callback takes the messages."""
        if self.callback is not None:
            raise AlreadyClaimed(
                f"the callback of the subscription to {self.subject!r} takes its messages: "
                "subscribe without one to read them"
            )

    def _on_wake(self) -> None:
        """After a chunk that brought something we asked to be told about."""
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
        with contextlib.suppress(Error):  # whoever ended it has reported it
            if self._pool is not None:
                await self._run_pool(self._pool)
            elif isinstance(callback, ThreadCallback):
                await self._run_in_thread(callback)
            else:
                await self._run_here(callback)

    async def _run_pool(self, pool: CallbackPool[Message]) -> None:
        # Where messages wait for others of their key, more than are worked on are in hand.
        limit = HELD_PER_WORKER * self._concurrency
        try:
            with contextlib.suppress(Error):  # the client has ended: what it has is worked on
                while await self.wait():
                    await pool.room(limit)
                    if self.sink.messages:  # unless it was unsubscribed meanwhile
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
                except Exception as error:  # noqa: BLE001 - whatever a user's callback raises
                    self._owner.report(error)
            else:
                # A callback that never awaits must not keep the loop from reading.
                await asyncio.sleep(0)


class Subscription:
    """Messages of one subject, in order. Made by ``Client.subscribe``."""

    def __init__(self, core: SubscriptionCore) -> None:
        self._core = core
        self._sink = core.sink

    @property
    def subject(self) -> str:
        """The subject asked for, wildcards included."""
        return self._core.subject

    @property
    def queue(self) -> str:
        """The queue group; empty for an ordinary subscription."""
        return self._core.queue

    @property
    def pending_msgs(self) -> int:
        """Messages received and not yet taken."""
        return self._core.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """Their size."""
        return self._sink.bytes

    @property
    def delivered(self) -> int:
        """Messages that arrived, dropped ones included."""
        return self._core.delivered

    @property
    def dropped(self) -> int:
        """Messages lost because a pending limit was reached."""
        return self._core.dropped

    @property
    def is_closed(self) -> bool:
        """Whether no further message will arrive; pending ones can still be read."""
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
        """The next message.

        Raises RequestTimeout when none comes within ``timeout`` seconds (default: the client's),
        and ConnectionClosed or AlreadyEnded when none can come any more.
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
        """Stop: at once, or when ``limit`` messages have arrived since the start.

        Messages already pending can still be read; a callback is not called with them any more
        (``drain`` gives them to it). Harmless on an ended subscription.
        """
        await self._core.unsubscribe(limit)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """Stop the flow, wait for what is on its way, and until all of it was taken.

        Raises RequestTimeout when the reader has not taken everything within ``timeout``. The
        callback may call it too: it then returns before the callback had the rest.
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
        """What is there after waiting for one; the blocking twin iterates with it."""
        return await self._core.next_chunk(count)

    def __repr__(self) -> str:
        return f"Subscription({self._core.subject!r}{closed_mark(self.is_closed)})"


def _look_at_result(task: asyncio.Task[None]) -> None:
    """Those who wait for it get its error; there may be nobody."""
    if not task.cancelled():
        task.exception()


def _check_limit(name: str, value: object) -> None:
    """Refuse a limit that is no number; the compiled receive path counts up to 2**63 - 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 0 < value < 2**63:
        raise ValueError(f"{name}={value}: expected a limit above 0 and below 2**63")
