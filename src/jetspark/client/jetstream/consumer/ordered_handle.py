"""The handle of an ordered consumer: reads a stream in order, without acknowledgements."""

import asyncio
import math
from collections import deque
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from jetspark.api.consumer import ConsumerConfig as WireConsumerConfig
from jetspark.client.arguments import function, whole
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.consume import CallbackRun, Consumption, MessageCallback
from jetspark.client.jetstream.consumer.endless import CHUNK_MAX, MessageIterator
from jetspark.client.jetstream.consumer.handle import PREFETCH
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.jetstream.consumer.ordered import EXPIRES, HEARTBEAT, OrderedReader
from jetspark.client.jetstream.consumer.pull import check_pull
from jetspark.client.models.base import from_wire
from jetspark.client.models.consumer import ConsumerConfig, ConsumerInfo
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import AlreadyEnded, RequestTimeout


class OrderedConsumer:
    """Messages of a stream in order, each once. Created by ``Stream.ordered_consumer``.

    Every ``messages`` and ``consume`` reads independently, from the configured start; ``fetch``
    and ``next`` continue where the last of them ended. After a missing message, missed heartbeats,
    a deleted consumer or a server restart it continues after the last message.
    """

    def __init__(
        self, api: ApiClient, stream: str, config: WireConsumerConfig, *, push: bool
    ) -> None:
        self._api = api
        self._stream = stream
        self._config = config
        self._push = push
        self._reader: OrderedReader | None = None
        self._kept: deque[JetStreamMessage] = deque()
        # The prefetch of fetch and next: grows with every call, up to PREFETCH.
        self._ahead = 0
        self._fetching = asyncio.Lock()
        self._closed = False

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._stream

    @property
    def config(self) -> ConsumerConfig:
        """The requested configuration."""
        return from_wire(ConsumerConfig, self._config)

    @property
    def cached_info(self) -> ConsumerInfo | None:
        """The last consumer created by ``fetch`` and ``next``; None before the first call."""
        if self._reader is None or self._reader.info is None:
            return None
        return from_wire(ConsumerInfo, self._reader.info)

    async def fetch(
        self, batch: int = 1, *, timeout: Timeout | None = None
    ) -> list[JetStreamMessage]:
        """Fetch up to ``batch`` messages; fewer, or none, if ``timeout`` expires first."""
        whole(batch, "batch", least=1)
        self._check_open()
        self._api.core.check_open()
        self._ahead = min(max(batch, 2 * self._ahead), PREFETCH)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._api.seconds(timeout)), self._fetching:
                await self._gather(batch)
        return [self._kept.popleft() for _ in range(min(batch, len(self._kept)))]

    async def _gather(self, batch: int) -> None:
        """Wait until ``batch`` messages are kept, or no more will arrive."""
        if self._reader is None:
            self._reader = self._new_reader(self._ahead, HEARTBEAT, None)
        reader = self._reader
        reader.widen(self._ahead)
        while len(self._kept) < batch:
            chunk = await reader.next_chunk(min(batch - len(self._kept), CHUNK_MAX))
            if not chunk and not self._kept:
                raise reader.ended_error()
            if not chunk:
                return
            self._kept.extend(chunk)

    async def next(self, *, timeout: Timeout | None = None) -> JetStreamMessage:
        """Fetch the next message; RequestTimeout if none arrives within ``timeout`` seconds."""
        fetched = await self.fetch(1, timeout=timeout)
        if not fetched:
            raise RequestTimeout(
                f"ordered consumer of stream {self._stream!r}: no message within "
                f"{self._api.seconds(timeout)} s"
            )
        return fetched[0]

    def messages(
        self,
        *,
        prefetch: int = PREFETCH,
        heartbeat: float | timedelta = HEARTBEAT,
        alarm: float | timedelta | None = None,
    ) -> MessageIterator:
        """Iterate over the messages continuously.

        ``prefetch`` messages are requested in advance (a push consumer controls its own flow);
        after ``alarm`` seconds (default: three times ``heartbeat``) without messages and
        heartbeats it restarts.
        """
        return MessageIterator(self._new_reader(prefetch, heartbeat, alarm))

    def consume(
        self,
        callback: MessageCallback,
        *,
        prefetch: int = PREFETCH,
        heartbeat: float | timedelta = HEARTBEAT,
        alarm: float | timedelta | None = None,
    ) -> Consumption:
        """Call ``callback`` with one message at a time, from a task, until it is closed."""
        function(callback, "callback", "a message")
        reader = self._new_reader(prefetch, heartbeat, alarm)
        return Consumption(CallbackRun(self._api.core, reader, callback, reader.label))

    async def close(self) -> None:
        """End ``fetch`` and ``next`` and delete their consumer. Idempotent.

        Reading with this handle again raises AlreadyEnded.
        """
        self._closed = True
        reader, self._reader = self._reader, None
        self._kept.clear()
        if reader is not None:
            await reader.stop()

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise AlreadyEnded(
                f"the ordered consumer of stream {self._stream!r} was closed: create a new one"
            )

    def _new_reader(
        self, prefetch: int, heartbeat: float | timedelta, alarm: float | timedelta | None
    ) -> OrderedReader:
        self._check_open()
        lasts = math.inf if self._push else EXPIRES
        beat = call_seconds(heartbeat, HEARTBEAT, "heartbeat")
        check_pull(prefetch, 0, lasts, beat, counted="prefetch")
        if self._push and not beat:
            raise ValueError(
                "heartbeat=0: a push consumer with flow control requires an interval above 0"
            )
        return OrderedReader(
            self._api,
            self._stream,
            self._config,
            push=self._push,
            prefetch=prefetch,
            heartbeat=beat,
            alarm=alarm,
        )

    def __repr__(self) -> str:
        return f"OrderedConsumer(stream={self._stream!r})"
