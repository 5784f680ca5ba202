"""The result of ``JetStream.pull_subscribe``: a pull consumer found or created."""

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Self

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.consume import (
    Consumption,
    MessageCallback,
    MessageOrder,
)
from jetspark.client.jetstream.consumer.endless import MessageIterator, wait_ended
from jetspark.client.jetstream.consumer.fetch import Fetches
from jetspark.client.jetstream.consumer.handle import (
    EXPIRES,
    HEARTBEAT,
    PREFETCH,
    THRESHOLD,
    Consumer,
)
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.jetstream.subscribe.workflow import Attached, delete_created
from jetspark.client.models.consumer import ConsumerInfo
from jetspark.client.reprs import closed_mark
from jetspark.client.subscription import END_GRACE
from jetspark.client.timeouts import Timeout
from jetspark.errors import AlreadyEnded, Error, RequestTimeout


class PullSubscription:
    """Messages of a pull consumer, on request, from ``JetStream.pull_subscribe``.

    A consumer created by the library is deleted by ``unsubscribe`` and ``drain``, unless ``keep``
    was given.
    """

    def __init__(self, api: ApiClient, attached: Attached) -> None:
        self._api = api
        self._attached = attached
        self._fetches = Fetches()
        self._consumer = Consumer(api, attached.info, self._fetches)
        self._iterators: list[MessageIterator] = []
        self._consumptions: list[Consumption] = []
        self._closed = False

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._consumer.stream

    @property
    def consumer(self) -> str:
        """The name of the consumer."""
        return self._consumer.name

    @property
    def created_consumer(self) -> bool:
        """Whether the library created the consumer for this subscription."""
        return self._attached.created

    @property
    def is_closed(self) -> bool:
        """Whether it was unsubscribed or drained."""
        return self._closed

    async def info(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Request the status: what was delivered and what is pending."""
        return await self._consumer.info(timeout=timeout)

    async def fetch(
        self,
        batch: int = 1,
        *,
        max_bytes: int = 0,
        no_wait: bool = False,
        heartbeat: float | timedelta = 0.0,
        timeout: Timeout | None = None,
    ) -> list[JetStreamMessage]:
        """Fetch up to ``batch`` messages; fewer, or none, if ``timeout`` expires first.

        As ``Consumer.fetch``.
        """
        self._check_open()
        return await self._consumer.fetch(
            batch, max_bytes=max_bytes, no_wait=no_wait, heartbeat=heartbeat, timeout=timeout
        )

    async def next(self, *, timeout: Timeout | None = None) -> JetStreamMessage:
        """Fetch the next message; RequestTimeout if none arrives within ``timeout`` seconds."""
        self._check_open()
        return await self._consumer.next(timeout=timeout)

    def messages(
        self,
        *,
        prefetch: int = PREFETCH,
        max_bytes: int = 0,
        threshold: float = THRESHOLD,
        expires: float | timedelta = EXPIRES,
        heartbeat: float | timedelta = HEARTBEAT,
        alarm: float | timedelta | None = None,
    ) -> MessageIterator:
        """Iterate over messages continuously, like ``Consumer.messages``."""
        self._check_open()
        messages = self._consumer.messages(
            prefetch=prefetch,
            max_bytes=max_bytes,
            threshold=threshold,
            expires=expires,
            heartbeat=heartbeat,
            alarm=alarm,
        )
        going_on = [each for each in self._iterators if not each.is_closed]
        self._iterators = [*going_on, messages]
        return messages

    def consume(
        self,
        callback: MessageCallback,
        *,
        concurrency: int = 1,
        ordered_by: MessageOrder = None,
        in_progress: bool = False,
        prefetch: int | None = None,
        max_bytes: int = 0,
        threshold: float = THRESHOLD,
        expires: float | timedelta = EXPIRES,
        heartbeat: float | timedelta = HEARTBEAT,
        alarm: float | timedelta | None = None,
    ) -> Consumption:
        """Call ``callback`` with the messages until it is closed, like ``Consumer.consume``."""
        self._check_open()
        consumption = self._consumer.consume(
            callback,
            concurrency=concurrency,
            ordered_by=ordered_by,
            in_progress=in_progress,
            prefetch=prefetch,
            max_bytes=max_bytes,
            threshold=threshold,
            expires=expires,
            heartbeat=heartbeat,
            alarm=alarm,
        )
        going_on = [each for each in self._consumptions if not each.is_closed]
        self._consumptions = [*going_on, consumption]
        return consumption

    async def unsubscribe(self, *, timeout: Timeout | None = None) -> None:
        """End now; a consumer created by the library is deleted, and a failure raised."""
        if self._closed or self._api.core.is_closed:
            return
        self._closed = True
        try:
            await self._fetches.end(self._ended_error(), self._api.seconds(timeout))
            for messages in self._iterators:
                await messages.close()
            for consumption in self._consumptions:
                await consumption.close(timeout=timeout)
        finally:
            await delete_created(self._api, self._attached, timeout=timeout)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """Request nothing more, wait until messages that arrived were read, delete the consumer.

        Only a consumer created by the library is deleted; an error of the deletion is reported to
        the error callback. Raises RequestTimeout if iterators still have messages after
        ``timeout`` seconds.
        """
        if self._closed or self._api.core.is_closed:
            return
        self._closed = True
        seconds = self._api.seconds(timeout)
        deadline = self._api.core.loop.time() + seconds
        try:
            await self._fetches.end(self._ended_error(), seconds)
            for consumption in self._consumptions:
                await consumption.drain(timeout=timeout)
            async with asyncio.timeout(seconds):
                for messages in self._iterators:
                    await messages.drain()
                for messages in self._iterators:
                    await self._api.core.or_closed(wait_ended(messages))
        except TimeoutError:
            raise RequestTimeout(
                f"drain: messages() still has messages that were not read within {seconds} s"
            ) from None
        finally:
            left = max(deadline - self._api.core.loop.time(), END_GRACE)
            try:
                await delete_created(self._api, self._attached, timeout=left)
            except Error as error:
                self._api.core.report(error)

    def _check_open(self) -> None:
        self._api.core.check_open()
        if self._closed:
            raise self._ended_error()

    def _ended_error(self) -> AlreadyEnded:
        return AlreadyEnded(f"{self!r} was ended by unsubscribe() or drain()")

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

    def __repr__(self) -> str:
        end = closed_mark(self.is_closed)
        return f"PullSubscription({self.consumer!r}, stream={self.stream!r}{end})"
