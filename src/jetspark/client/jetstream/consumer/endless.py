"""Continuous reading of a pull consumer: requests overlap, so messages are always in flight.

There is no task: the reader drives it. Statuses are handled when the reader reaches them,
heartbeats are checked while it waits. Buffered messages stay in the subscription, bounded by the
prefetch.
"""

import asyncio
import contextlib
import itertools
import math
from collections import deque
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, Protocol, Self

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.message import AckLink, JetStreamMessage, is_status
from jetspark.client.jetstream.consumer.pull import (
    PullGroup,
    PullStatus,
    encode_pull,
    read_pull_status,
)
from jetspark.client.jetstream.consumer.target import ConsumerTarget
from jetspark.client.jetstream.consumer.window import PullWindow
from jetspark.client.message import Message
from jetspark.client.pauses import Pauses
from jetspark.client.subscription import PENDING_BYTES_MAX, SubscriptionCore, Taker
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import (
    AlreadyEnded,
    ConnectionClosed,
    ConsumerNotFound,
    Error,
    HeartbeatMissed,
    RequestTimeout,
    StreamNotFound,
)
from jetspark.headers.block import find_value
from jetspark.headers.names import PIN_ID

CHUNK_MAX: Final = 256  # messages taken from the subscription at once
# A subscription may hold heartbeats and statuses in addition to the requested messages.
STATUS_ROOM: Final = 10_000
RETRY_PAUSE_FIRST: Final = 0.1  # seconds before a request without responders is repeated
RETRY_PAUSE_MAX: Final = 5.0


class EndlessPull:
    """Messages of one pull consumer, in chunks, read with ``next_chunk``.

    With ``until_done`` messages count towards the prefetch until ``done`` is called with them.
    With ``raise_alarm`` a missing heartbeat ends it: an ordered reader restarts instead of
    repeating the request.
    """

    def __init__(
        self,
        api: ApiClient,
        target: ConsumerTarget,
        link: AckLink,
        *,
        prefetch: int,
        max_bytes: int,
        threshold: float,
        expires: float,
        heartbeat: float,
        alarm: float,
        group: PullGroup | None = None,
        until_done: bool = False,
        raise_alarm: bool = False,
    ) -> None:
        self._until_done = until_done
        self._api = api
        self._core = api.core
        self._target = target
        self._link = link
        self._max_bytes = max_bytes
        self._window = PullWindow(prefetch, max_bytes, threshold)
        self._chunk = max(1, min(CHUNK_MAX, prefetch // 4))
        self._expires = expires
        self._heartbeat = heartbeat
        self._alarm = alarm
        self._group = group
        self._pin_id = ""
        self._inbox = api.new_inbox()
        self._numbers = itertools.count(1)
        # Statuses of earlier requests are ignored: those requests were abandoned.
        self._first_valid = 1
        self._pauses = Pauses(RETRY_PAUSE_FIRST, RETRY_PAUSE_MAX)
        self._asked = 0.0  # when the last request was sent
        # Before the next request: pause, and check whether the consumer still exists.
        self._must_rest = False
        self._must_check = False
        self._stopped = asyncio.Event()
        self._failure: Error | None = None
        # Taken from the subscription and not yet handed out; statuses in their places.
        self._arrived: deque[Message] = deque()
        self._raise_alarm = raise_alarm
        self._subscription: SubscriptionCore = self._core.add_subscription(
            f"{self._inbox}.*",
            pending_msgs=max(prefetch, 1) + STATUS_ROOM,
            pending_bytes=max(PENDING_BYTES_MAX, 2 * max_bytes),
            awaits=self._awaits if api.is_routed else None,
        )
        self._core.up_listeners.add(self._on_up)

    @property
    def subscription(self) -> SubscriptionCore:
        """The subscription that messages arrive on."""
        return self._subscription

    @property
    def is_closed(self) -> bool:
        """Whether no more messages will arrive."""
        return self._subscription.is_closed

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is requested."""
        return self._stopped.is_set() or self._subscription.is_closed

    @property
    def buffered(self) -> int:
        """Messages (and statuses) received and not yet read."""
        return len(self._arrived) + self._subscription.pending_msgs

    @property
    def label(self) -> str:
        """The consumer, for messages."""
        return self._target.label

    def ended_error(self) -> Error:
        """Why there is no next message: the client is draining, or it was stopped."""
        if self._core.is_draining:
            return self._core.closed_error()
        return AlreadyEnded(f"the iteration over messages of {self.label} has ended")

    async def next_chunk(self, count: int) -> list[JetStreamMessage]:
        """Wait for messages and return up to ``count``; empty after ``stop``.

        Raises errors that end the reading: ConsumerDeleted, ConsumerNotFound, PullRefused,
        ConnectionClosed. Transient errors are reported to the error callback.
        """
        # Nothing is lost on cancellation: messages that were taken stay in ``_arrived``.
        while True:
            if self._arrived:
                taken = self._take(count)
                if taken:
                    self._pauses.reset()
                    return taken
                continue
            if self._must_rest and not self._stopped.is_set() and not self.buffered:
                await self._rest()
            if self._failure is not None:
                await self.stop()
                if not self.buffered:
                    raise self._failure
            if not self._stopped.is_set():
                self._ask()
            arrived = await self._arrivals(min(count, self._chunk))
            if not arrived:
                return []
            self._arrived.extend(arrived)

    def help(self, messages: list[JetStreamMessage]) -> list[JetStreamMessage]:
        """Take messages that arrived for a fetch, as if requested; returns those not taken."""
        if self.is_stopped or self._subscription.is_draining or not messages:
            return messages
        size = sum(len(each.subject) + len(each.reply) + each.size for each in messages)
        self._window.add(len(messages), size)
        self._subscription.hand_over(
            [Message(each.subject, each.data, each.reply, each.header_block) for each in messages]
        )
        return []

    def widen(self, prefetch: int) -> None:
        """Prefetch more from now on; at most STATUS_ROOM more than at the start."""
        self._window.widen(prefetch)
        self._chunk = max(self._chunk, min(CHUNK_MAX, prefetch // 4))

    def renew(self) -> None:
        """Drop the requests in flight and send new ones (connection lost, heartbeats missed)."""
        self._first_valid = next(self._numbers)
        self._window.reset()

    def done(self, message: JetStreamMessage) -> None:
        """A message was processed: another one may be requested."""
        head = len(message.subject) + len(message.reply)
        self._window.done(1, head + message.size)
        if not self._stopped.is_set() and not self._must_rest:
            self._ask()

    async def stop(self) -> None:
        """Request nothing more; messages that arrived can still be read."""
        self._stopped.set()
        self._core.up_listeners.discard(self._on_up)
        await self._subscription.unsubscribe()

    async def settle(self, seconds: float | None = None) -> None:
        """Request nothing more, and wait for messages in flight; they can still be read."""
        self.begin_settling(seconds)
        with contextlib.suppress(RequestTimeout):
            await self._subscription.stop(self._api.timeout if seconds is None else seconds)

    def begin_settling(self, seconds: float | None = None) -> None:
        """Start ``settle`` without waiting for it."""
        self._stopped.set()
        self._core.up_listeners.discard(self._on_up)
        self._subscription.begin_stop(self._api.timeout if seconds is None else seconds)

    def _awaits(self) -> bool:
        return self._window.awaited > self.buffered

    def _on_up(self) -> None:
        """A new connection: requests on the old one are lost."""
        self.renew()
        self._ask()

    def _ask(self) -> None:
        subscription = self._subscription
        if (
            self._core.link.connection is None
            or subscription.is_closed
            or subscription.is_draining
        ):
            return  # _on_up will; a draining client requests nothing more
        wanted = self._window.next_request()
        if wanted is None:
            return
        batch, max_bytes = wanted
        body = encode_pull(
            batch,
            max_bytes=max_bytes,
            expires=self._expires,
            heartbeat=self._heartbeat,
            group=self._group,
            pin_id=self._pin_id,
        )
        self._asked = self._core.loop.time()
        reply = f"{self._inbox}.{next(self._numbers)}".encode()
        self._core.send_message(self._target.next_subject, reply, b"", body)

    async def _arrivals(self, count: int) -> list[Message]:
        subscription = self._subscription
        while not subscription.pending_msgs and not subscription.is_closed and self._alarm:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._alarm):
                    return await subscription.next_chunk(count)
            # Nothing arrives while nothing is requested, because everything is being processed.
            if self._window.awaited > 0 and self._core.loop.time() >= self._asked + self._alarm:
                self._missed()
        return await subscription.next_chunk(count)

    def _missed(self) -> None:
        error = HeartbeatMissed(
            f"{self._target.label}: neither a message nor a heartbeat for {self._alarm:g} s; "
            "requesting again"
        )
        if self._raise_alarm:
            raise error
        self._core.report(error)
        self.renew()
        self._ask()

    def _take(self, count: int) -> list[JetStreamMessage]:
        """Messages up to the next status; statuses before the first one are handled."""
        link, arrived = self._link, self._arrived
        taken: list[JetStreamMessage] = []
        size = 0
        while arrived and len(taken) < count:
            message = arrived[0]
            block = message.header_block
            if block and is_status(message):
                if taken:
                    break
                arrived.popleft()
                self._on_status(message)
                continue
            arrived.popleft()
            size += len(message.subject) + len(message.reply) + len(block) + len(message.data)
            taken.append(
                JetStreamMessage(message.subject, message.data, message.reply, block, link)
            )
        if taken:
            if self._until_done:
                self._window.keep(len(taken), size)
            else:
                self._window.took(len(taken), size)
            if self._group is not None:
                pin = find_value(taken[-1].header_block, PIN_ID)
                self._pin_id = pin.decode() if pin else self._pin_id
        return taken

    def _on_status(self, message: Message) -> None:
        """Handle a status; an error that ends the reading becomes ``_failure``."""
        number = message.subject.rpartition(".")[2]
        if number.isdigit() and int(number) < self._first_valid:
            return
        answer = read_pull_status(message.header_block)
        match answer.status:
            case PullStatus.ALIVE:
                pass
            case PullStatus.ENDED:
                self._window.ended(answer.pending_msgs, answer.pending_bytes)
                if not answer.pending_msgs:
                    self.renew()
            case PullStatus.FILLED:
                if answer.oversized and answer.pending_bytes >= self._max_bytes:
                    self._failure = answer.error  # too large: a new request would fail too
                self._window.ended(answer.pending_msgs, answer.pending_bytes)
            case PullStatus.PASSING:
                if answer.error is not None:
                    self._core.report(answer.error)
                self._must_rest = True
                self.renew()
            case PullStatus.UNPINNED:
                self._pin_id = ""
                self._must_rest = True
                self.renew()
            case PullStatus.GONE:
                self._must_rest = self._must_check = True
                self.renew()
            case PullStatus.FAILED:
                self._failure = answer.error

    async def _rest(self) -> None:
        """Pause before the next request, longer each time until messages arrive."""
        if self._must_check:
            try:
                await unless_stopped(self._stopped, self._target.refresh())
            except (ConsumerNotFound, StreamNotFound, ConnectionClosed) as error:
                self._failure = error
                return
            except Error as error:
                self._core.report(error)  # the server may be starting
            self._must_check = False
        await self._core.or_closed(rest(self._stopped, self._pauses.take()))
        self._must_rest = False


async def rest(stopped: asyncio.Event, seconds: float) -> None:
    """Wait this long, or until it is stopped."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopped.wait()


async def unless_stopped(stopped: asyncio.Event, call: Coroutine[Any, Any, object]) -> None:
    """Wait for a call, or until it is stopped: then the call is given up."""
    asking, stopping = asyncio.ensure_future(call), asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()
    finally:
        asking.cancel()
        stopping.cancel()


class ChunkSource(Protocol):
    """A stoppable source of messages in chunks."""

    async def next_chunk(self, count: int) -> list[JetStreamMessage]:
        """Wait for messages and return up to ``count``; empty at the end."""

    async def stop(self) -> None:
        """Request nothing more; messages that arrived can still be read."""

    @property
    def label(self) -> str:
        """What is read, for messages."""

    def ended_error(self) -> Error:
        """Why there is no next message."""

    async def settle(self, seconds: float | None = None) -> None:
        """Request nothing more, and wait for messages in flight; they can still be read."""


class MessageIterator:
    """Continuous messages of a consumer: ``async for``, with ``async with`` to stop at the end.

    Created by ``Consumer.messages`` and ``OrderedConsumer.messages``.
    """

    def __init__(self, source: ChunkSource) -> None:
        self._source = source
        self._items: deque[JetStreamMessage] = deque()
        self._emptied: asyncio.Event | None = None
        self._ended = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        if isinstance(source, EndlessPull):
            # A draining client waits until everything that arrived was read.
            source.subscription.taken_by(Taker(self._wait_taken))

    def __aiter__(self) -> Self:
        return self

    @property
    def is_closed(self) -> bool:
        """Whether no more messages will be handed out."""
        return self._ended.is_set()

    async def __anext__(self) -> JetStreamMessage:
        items = self._items
        if not items:
            items.extend(await self._receive(CHUNK_MAX))
            if not items:
                self._end()
                raise StopAsyncIteration
        message = items.popleft()
        if self._emptied is not None and not items:
            self._emptied.set()
        return message

    async def next(self, *, timeout: Timeout | None = None) -> JetStreamMessage:
        """Wait for the next message; RequestTimeout if none arrives within ``timeout`` seconds.

        Without ``timeout`` it waits indefinitely, like ``async for``.
        """
        if not self._items:
            seconds = None if timeout is None else call_seconds(timeout, math.inf)
            try:
                async with asyncio.timeout(seconds):
                    self._items.extend(await self._receive(CHUNK_MAX))
            except TimeoutError:
                raise RequestTimeout(
                    f"{self._source.label}: no message within {seconds} s"
                ) from None
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise self._source.ended_error() from None

    async def drain(self) -> None:
        """Request nothing more; the iteration ends after the messages that have arrived.

        This includes messages that the server sent before it received the request to stop.
        """
        if isinstance(self._source, EndlessPull):
            self._source.begin_settling()
        else:
            await self._source.stop()

    async def close(self) -> None:
        """End now. Unread messages are redelivered to other clients at once (``nak``)."""
        untaken = list(self._items)
        self._items.clear()
        self._end()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(
                self._give_back_all(untaken), name=f"jetspark end of {self._source.label}"
            )
        # Not cancelled with its caller: messages in flight would wait for ack_wait.
        await asyncio.shield(self._closing)

    async def _give_back_all(self, untaken: list[JetStreamMessage]) -> None:
        # End the request first: otherwise returned messages would be sent here again.
        with contextlib.suppress(Error):
            await self._source.settle()
        give_back(untaken)
        with contextlib.suppress(Error):
            while chunk := await self._source.next_chunk(CHUNK_MAX):
                give_back(chunk)

    async def _receive(self, count: int) -> list[JetStreamMessage]:
        """Wait for messages; none if it has ended meanwhile."""
        chunk = await self._source.next_chunk(count)
        if self._ended.is_set():
            give_back(chunk)
            return []
        return chunk

    def _end(self) -> None:
        self._ended.set()
        if self._emptied is not None:
            self._emptied.set()

    async def _wait_taken(self, deadline: float, seconds: float) -> bool:
        """Wait until everything taken from the subscription was handed out."""
        try:
            async with asyncio.timeout_at(deadline):
                while self._items and not self._ended.is_set():
                    self._emptied = asyncio.Event()
                    await self._emptied.wait()
        except TimeoutError:
            raise RequestTimeout(
                f"drain of {self._source.label}: {len(self._items)} messages were not read "
                f"within {seconds} s"
            ) from None
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _next_chunk(self, count: int) -> list[JetStreamMessage]:
        """Wait for a message and return all available ones; the blocking twin iterates with it."""
        items = self._items
        if items:
            chunk = [items.popleft() for _ in range(min(count, len(items)))]
        else:
            chunk = await self._receive(count)
            if not chunk:
                self._end()
        if self._emptied is not None and not items:
            self._emptied.set()
        return chunk

    def _put_back(self, messages: list[JetStreamMessage]) -> None:
        """Take back messages that the blocking twin has read ahead."""
        self._items.extendleft(reversed(messages))

    def __repr__(self) -> str:
        return f"MessageIterator({self._source.label!r}, {'closed' if self.is_closed else 'open'})"


async def wait_ended(messages: MessageIterator) -> None:
    """Wait until no more messages will be handed out."""
    await messages._ended.wait()  # noqa: SLF001 - a public method would be one for users


def give_back(messages: Iterable[JetStreamMessage]) -> None:
    """Redeliver messages that were not started, without waiting for ack_wait."""
    for message in messages:
        with contextlib.suppress(Error):
            message.nak()
