"""The result of ``JetStream.subscribe``: messages of a push consumer."""

import asyncio
from collections import deque
from types import TracebackType
from typing import Final, Self

from jetspark.api.enums import AckPolicy, ConsumerAction
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.consume import (
    CallbackPlan,
    CallbackRun,
    MessageCallback,
)
from jetspark.client.jetstream.consumer.create import consumer_info, create_consumer
from jetspark.client.jetstream.consumer.endless import CHUNK_MAX
from jetspark.client.jetstream.consumer.message import AckLink, JetStreamMessage
from jetspark.client.jetstream.consumer.monitor import alarm_seconds
from jetspark.client.jetstream.consumer.push import PushSource
from jetspark.client.jetstream.subscribe.plan import MADE_BY
from jetspark.client.jetstream.subscribe.workflow import Attached, delete_created
from jetspark.client.models.base import from_wire
from jetspark.client.models.consumer import ConsumerInfo
from jetspark.client.reprs import closed_mark
from jetspark.client.subscription import Taker
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    ConsumerDeleted,
    ConsumerNotFound,
    Error,
    RequestTimeout,
    StreamNotFound,
)

# Seconds after which a new member of a queue checks whether the consumer still exists. A member
# that left at the same time deletes it a round trip after its last check, or as late as the
# timeout of its call.
JOIN_LOOKS: Final = (1.0, 6.0)


class PushSubscription:
    """Messages of a push consumer, from ``JetStream.subscribe``.

    Read it with ``async for`` or ``next``, unless a callback was given. Missing messages
    (ConsumerGap) and missed heartbeats (HeartbeatMissed) are reported to the error callback. A
    consumer created by the library is deleted by ``unsubscribe`` and ``drain``, unless ``keep``
    was given.
    """

    def __init__(
        self,
        api: ApiClient,
        attached: Attached,
        callback: MessageCallback | None,
        alarm: float | None,
        plan: CallbackPlan,
    ) -> None:
        assert attached.subscription is not None
        config = attached.info.config
        heartbeat = config.idle_heartbeat / 1e9
        self._api = api
        self._attached = attached
        self._items: deque[JetStreamMessage] = deque()
        self._subscription = attached.subscription
        self._source = PushSource(
            api.core,
            self._subscription,
            AckLink(api.core, ignored=config.ack_policy is AckPolicy.NONE, timeout=api.timeout),
            label=f"consumer {attached.info.name!r} of stream {attached.info.stream_name!r}",
            alarm=alarm_seconds(None, heartbeat) if alarm is None else alarm,
            # ADR-15: "Gap checking should be disabled on queue / deliver group subscriptions".
            check_gaps=not config.deliver_group,
        )
        self._callback_run: CallbackRun | None = None
        self._ended = False
        self._emptied: asyncio.Event | None = None
        self._draining: asyncio.Task[None] | None = None
        if callback is not None:
            label = f"subscription to {config.filter_subject or attached.info.stream_name!r}"
            self._callback_run = CallbackRun(api.core, self._source, callback, label, plan)
        self._looking: asyncio.Task[None] | None = None
        if config.deliver_group:
            api.core.up_listeners.add(self._on_up)
            if not attached.created and MADE_BY in config.metadata:
                for seconds in JOIN_LOOKS:
                    api.core.loop.call_later(seconds, self._look_again)
        self._subscription.taken_by(Taker(self._wait_taken, self._drained))

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._attached.info.stream_name

    @property
    def consumer(self) -> str:
        """The name of the consumer."""
        return self._attached.info.name

    @property
    def cached_info(self) -> ConsumerInfo:
        """The consumer as it was when the subscription started."""
        return from_wire(ConsumerInfo, self._attached.info)

    @property
    def created_consumer(self) -> bool:
        """Whether the library created the consumer for this subscription."""
        return self._attached.created

    @property
    def pending_msgs(self) -> int:
        """Messages (and statuses) received and not yet read."""
        return len(self._items) + self._source.buffered

    @property
    def dropped(self) -> int:
        """Messages lost because a pending limit was reached."""
        return self._subscription.dropped

    @property
    def is_closed(self) -> bool:
        """Whether no more messages will arrive; pending ones can still be read."""
        return self._subscription.is_closed

    async def info(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Request the status: what was delivered and what is pending."""
        found = await consumer_info(self._api, self.stream, self.consumer, timeout=timeout)
        return from_wire(ConsumerInfo, found)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JetStreamMessage:
        items = self._items
        if not items:
            items.extend(await self._source.next_chunk(CHUNK_MAX))
            if not items:
                self._note_taken()
                raise StopAsyncIteration
        message = items.popleft()
        if self._emptied is not None:
            self._note_taken()
        return message

    async def next(self, *, timeout: Timeout | None = None) -> JetStreamMessage:
        """Wait for the next message; RequestTimeout if none arrives within ``timeout`` seconds."""
        seconds = self._api.seconds(timeout)
        if not self._items:
            try:
                async with asyncio.timeout(seconds):
                    self._items.extend(await self._source.next_chunk(CHUNK_MAX))
            except TimeoutError:
                raise RequestTimeout(
                    f"{self._source.label}: no message within {seconds} s"
                ) from None
            if not self._items:
                self._note_taken()
                raise self._source.ended_error()
        message = self._items.popleft()
        self._note_taken()
        return message

    async def unsubscribe(self, *, timeout: Timeout | None = None) -> None:
        """End now; a consumer created by the library is deleted, and a failure raised.

        A callback gets no more messages, and those it did not start are redelivered, as with
        ``Consumption.close``; without a callback, messages that arrived can still be read.
        """
        if self._ended or self._api.core.is_closed:
            return
        self._ended = True
        self._subscription.taken_by(None)
        self._api.core.up_listeners.discard(self._on_up)
        try:
            if self._callback_run is not None:
                await self._callback_run.stop(timeout=timeout)
        finally:
            await self._source.stop()
            await self._looked()
            await delete_created(self._api, self._attached, timeout=timeout)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """End, wait until messages that arrived were read, then delete the created consumer.

        Raises RequestTimeout if the reader has not read everything within ``timeout``. An error of
        the deletion is reported to the error callback. The callback may call it too; it then
        returns at once, and the rest follows when the callback is done.
        """
        if self._ended or self._api.core.is_closed:
            return
        self._ended = True
        seconds = self._api.seconds(timeout)
        if self._callback_run is not None and self._callback_run.is_calling_here:
            self._draining = self._api.core.loop.create_task(self._drain_in_background(seconds))
            return
        await self._subscription.drain(timeout=seconds)

    async def _drain_in_background(self, seconds: float) -> None:
        """Drain for the callback, which cannot wait for its own end."""
        try:
            await self._subscription.drain(timeout=seconds)
        except Error as error:
            self._api.core.report(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._api.core.is_closed:
            await self.unsubscribe()

    def _on_up(self) -> None:
        """Reconnected: the other members may have considered this one disconnected."""
        if self._subscription.is_closed:
            self._api.core.up_listeners.discard(self._on_up)  # it failed and was not closed
            return
        self._looking = self._api.core.loop.create_task(self._check_consumer())

    async def _check_consumer(self) -> None:
        try:
            await consumer_info(self._api, self.stream, self.consumer)
        except (ConsumerNotFound, StreamNotFound):
            self._end_deleted("while there was no connection")
        except Error:
            pass  # unknown for now; a starting server answers later

    def _look_again(self) -> None:
        """A while after this member joined a queue with other members."""
        if not self._ended and not self._subscription.is_closed:
            self._looking = self._api.core.loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        """Create the consumer again that the previous member has deleted.

        It saw no other member when it left, and this one had already looked up the consumer: the
        consumer is created as if this one had joined slightly later.
        """
        info = self._attached.info
        try:
            await consumer_info(self._api, info.stream_name, info.name)
        except ConsumerNotFound:
            try:
                await create_consumer(
                    self._api, info.stream_name, info.config, ConsumerAction.CREATE
                )
            except Error as error:
                self._end_deleted(f"by the previous member, and cannot be created again: {error}")
        except Error:
            pass  # unknown for now

    async def _looked(self) -> None:
        """Wait for a check that has started: a consumer that it creates is deleted too."""
        if self._looking is not None and not self._looking.done():
            await asyncio.wait([self._looking], timeout=self._api.timeout)

    def _end_deleted(self, why: str) -> None:
        gone = ConsumerDeleted(409, "Consumer Deleted")
        gone.add_note(f"{self._source.label} was deleted {why}")
        self._subscription.end(gone)

    def _note_taken(self) -> None:
        if self._emptied is not None and not self.pending_msgs:
            self._emptied.set()

    async def _wait_taken(self, deadline: float, seconds: float) -> bool:
        """Wait for the reader: what it took from the subscription may still be here."""
        self._ended = True
        self._source.close()
        if self._callback_run is not None:
            await self._callback_run.finish(seconds, deadline)
            return True
        if not self.pending_msgs:
            return True
        self._emptied = asyncio.Event()
        try:
            async with asyncio.timeout_at(deadline):
                await self._emptied.wait()
        except TimeoutError:
            raise RequestTimeout(
                f"drain of {self._source.label}: {self.pending_msgs} messages were not read "
                f"within {seconds} s; read them, or call unsubscribe() to discard them"
            ) from None
        return True

    async def _drained(self, seconds: float) -> None:
        """The subscription is drained and removed: ADR-15 deletes the consumer only now."""
        self._ended = True
        self._source.close()
        self._api.core.up_listeners.discard(self._on_up)
        await self._looked()
        try:
            await delete_created(self._api, self._attached, timeout=seconds)
        except Error as error:
            self._api.core.report(error)

    async def _next_chunk(self, count: int) -> list[JetStreamMessage]:
        """Wait for a message and return all available ones; the blocking twin iterates with it."""
        if self._items:
            chunk = [self._items.popleft() for _ in range(min(count, len(self._items)))]
        else:
            chunk = await self._source.next_chunk(count)
        self._note_taken()
        return chunk

    def __repr__(self) -> str:
        end = closed_mark(self.is_closed)
        return f"PushSubscription({self.consumer!r}, stream={self.stream!r}{end})"
