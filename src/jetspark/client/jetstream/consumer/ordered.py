"""Ordered consumers: every message once and in order, across all failures of the consumer.

The consumer on the server is ephemeral, kept in memory and never redelivers. If a message is
missing, heartbeats stop or the consumer no longer exists (deleted, its server restarted), a new
one is created that starts after the last message that was handed out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.consumer import ConsumerConfig, ConsumerInfo
from jetspark.api.enums import AckPolicy, ConsumerAction, DeliverPolicy
from jetspark.api.stream import STREAM_INFO, StreamInfoRequest
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.create import create_consumer, forget_consumer
from jetspark.client.jetstream.consumer.endless import EndlessPull, rest
from jetspark.client.jetstream.consumer.message import AckLink, JetStreamMessage, numbers_of
from jetspark.client.jetstream.consumer.monitor import alarm_seconds
from jetspark.client.jetstream.consumer.push import PushSource
from jetspark.client.jetstream.consumer.target import ConsumerTarget
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.pauses import Pauses
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    AlreadyEnded,
    ApiError,
    ConnectionClosed,
    ConsumerGap,
    Error,
    HeartbeatMissed,
    RequestTimeout,
    StreamNotFound,
)
from jetspark.errors.codes import ErrCode
from jetspark.units import minutes, seconds

HEARTBEAT: Final = 5.0
EXPIRES: Final = 30.0  # seconds that pull requests last
INACTIVE_THRESHOLD: Final = minutes(5)
CREATE_PATIENCE: Final = 2.0  # seconds for an answer before another consumer is created, doubling
RETRY_PAUSE_FIRST: Final = 0.05  # seconds before a consumer is created again, doubling
RETRY_PAUSE_MAX: Final = 5.0
# Policies whose meaning changes when the consumer is created again later.
FROM_NOW: Final = frozenset({DeliverPolicy.NEW, DeliverPolicy.LAST})


class OrderedReader:
    """Chunks of an ordered consumer; ``info`` is that of the last created consumer."""

    def __init__(
        self,
        api: ApiClient,
        stream: str,
        config: ConsumerConfig,
        *,
        push: bool,
        prefetch: int,
        heartbeat: float = HEARTBEAT,
        alarm: float | timedelta | None = None,
        begins_as_before: bool = False,
        check_restart: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``check_restart`` is called after the consumer was created again.

        Its exception ends the reader, or is retried.
        """
        self._api = api
        self._stream = stream
        self._config = config
        self._push = push
        self._prefetch = prefetch
        self._heartbeat = heartbeat
        self._alarm = alarm_seconds(alarm, heartbeat)
        self._link = AckLink(api.core, ignored=True, timeout=api.timeout)
        self._source: EndlessPull | PushSource | None = None
        self._broken: Error | None = None
        self._expected = 1
        self._last_seq = 0
        self._last_time = 0
        self._pauses = Pauses(RETRY_PAUSE_FIRST, RETRY_PAUSE_MAX)
        self._stopped = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self.info: ConsumerInfo | None = None
        self.restarts: int = 0
        # Whether a new consumer starts as the first one did (with last messages, for example);
        # messages that were handed out are then skipped. Otherwise it starts after the last
        # message.
        self._begins_as_before = begins_as_before
        self._check_restart = check_restart
        self._unchecked = False
        # Whether the current consumer starts at the right place: a caller that is cancelled during
        # this check leaves it to the next one.
        self._is_placed = False

    def continue_after_last(self) -> None:
        """Let a new consumer start after the last message from now on: every message counts."""
        self._begins_as_before = False

    @property
    def expected(self) -> int:
        """The next expected consumer sequence."""
        return self._expected

    @property
    def label(self) -> str:
        """What is read, for messages."""
        return f"ordered consumer of stream {self._stream!r}"

    def ended_error(self) -> Error:
        """Why there is no next message: the client is draining, or it was stopped."""
        if self._api.core.is_draining:
            return self._api.core.closed_error()
        return AlreadyEnded(f"the {self.label} was closed")

    async def start(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Create the consumer; raises the server's error.

        If there is no answer, another consumer with a new name is created: a cluster may have
        placed the first on a node that has just died. A restarting reader tries until it succeeds.
        """
        loop = self._api.core.loop
        deadline = loop.time() + self._api.seconds(timeout)
        patience = CREATE_PATIENCE
        wanted, reader = self._config.min_last_seq, StreamReader(self._api, self._stream)
        if wanted and not reader.server_has_min_last_seq:
            # Servers without ADR-53: the leader reports when it has reached the sequence.
            await reader.wait_for_leader(wanted, deadline)
            self._config = msgspec.structs.replace(self._config, min_last_seq=0)
        while True:
            left = max(deadline - loop.time(), 0.0) if not self.restarts else patience
            try:
                info = await self._attempt(min(patience, left))
            except (ApiError, RequestTimeout) as error:
                if isinstance(error, ApiError) and (error.code != 503 or not self.restarts):
                    raise
                if not self.restarts and loop.time() >= deadline:
                    raise
            else:
                if not self._stopped.is_set() and await self._place():
                    return info
                await self._drop()
                if not self._stopped.is_set():
                    continue
            if self._stopped.is_set():
                raise ConnectionClosed("the ordered consumer was stopped")
            await self._api.core.or_closed(
                rest(self._stopped, max(self._pauses.seconds, self._pauses.first))
            )
            patience = min(patience * 2, max(self._api.timeout, CREATE_PATIENCE))

    async def _place(self) -> bool:
        """Whether the consumer starts at the right place; if not, it must be created again."""
        self._is_placed = not await self._starts_after_the_end()
        return self._is_placed

    async def _starts_after_the_end(self) -> bool:
        """Whether the stream never reached the sequence that was read: it is a different stream.

        It was deleted and created again, or lost its messages when its server restarted (memory
        storage). Its current messages are newer, so they are identified by time.
        """
        if not self.restarts or not self._last_seq:
            return False
        verb = f"STREAM.INFO.{self._stream}"
        try:
            state = (await self._api.call(verb, StreamInfoRequest(), STREAM_INFO)).state
        except StreamNotFound:
            raise
        except Error:
            return False  # not permitted, or not available now
        if state.last_seq >= self._last_seq:
            return False
        self._api.core.report(
            StreamNotFound(
                404,
                ErrCode.STREAM_NOT_FOUND,
                f"stream {self._stream!r} was created again: its last sequence is "
                f"{state.last_seq}, but {self._last_seq} was already read; reading continues with "
                "messages stored since",
            )
        )
        self._config = msgspec.structs.replace(
            self._config,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_seq=0,
            opt_start_time=Timestamp(self._last_time + 1),
        )
        self._last_seq = 0
        self._begins_as_before = False
        return True

    async def _attempt(self, seconds: float) -> ConsumerInfo:
        """Create a consumer with its own name and inbox."""
        source: EndlessPull | PushSource
        inbox = self._api.new_inbox()
        self._broken = None
        config = self._configured(inbox)
        if self._push:
            # ADR-15: subscribe before creating the consumer.
            subscription = self._api.core.add_subscription(inbox)
            try:
                info = await self._create(config, seconds)
            except BaseException:
                await subscription.unsubscribe()
                raise
            source = PushSource(
                self._api.core,
                subscription,
                self._link,
                label=self.label,
                alarm=self._alarm,
                check_gaps=True,
                next_seq=1,
                on_gap=self._on_gap,
                on_alarm=self._on_alarm,
            )
        else:
            info = await self._create(config, seconds)
            source = EndlessPull(
                self._api,
                ConsumerTarget(self._api, info),
                self._link,
                prefetch=self._prefetch,
                max_bytes=0,
                threshold=0.5,
                expires=EXPIRES,
                heartbeat=self._heartbeat,
                alarm=self._alarm,
                raise_alarm=True,
            )
        self._source, self._expected, self._is_placed = source, 1, False
        self._unchecked = self.restarts > 0
        self._api.core.up_listeners.add(self._on_up)
        if self._config.deliver_policy in FROM_NOW and not self._last_seq:
            # Messages published between two consumers must not be missed.
            self._config = start_at(self._config, info.delivered.stream_seq + 1)
        return info

    async def next_chunk(self, count: int) -> list[JetStreamMessage]:
        """Wait for messages and return up to ``count``, in order; empty after ``stop``.

        Raises StreamNotFound if the stream was deleted, ConnectionClosed, and the server's error
        if the consumer cannot be created again.
        """
        while not self._stopped.is_set():
            if self._source is None and self._api.core.is_draining:
                await self.stop()  # everything has arrived
                break
            try:
                if self._source is not None and not self._is_placed and not await self._place():
                    await self._drop()
                if self._source is None:
                    await self.start()
            except ConnectionClosed:
                if self._stopped.is_set():
                    return []
                raise
            assert self._source is not None
            try:
                if self._unchecked and self._check_restart is not None:
                    await self._check_restart()
                self._unchecked = False
                chunk = await self._source.next_chunk(count)
                if self._broken is not None:
                    # A heartbeat reported messages that never arrived.
                    chunk = []
            except (ConnectionClosed, StreamNotFound):
                await self.stop()
                raise
            except Error as error:
                await self._restart(error)
                continue
            expected = self._expected
            kept = self._in_order(chunk)
            if kept:
                self._pauses.reset()
                return kept
            if self._expected == expected:
                await self._restart(self._broken)
        return []

    def begin_with_all(self) -> None:
        """Start consumers created from now on at the first stored message."""
        if self._config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT:
            self._config = msgspec.structs.replace(self._config, deliver_policy=DeliverPolicy.ALL)

    async def stop(self) -> None:
        """Stop reading; the consumer is deleted."""
        self._stopped.set()
        await self._drop()

    async def settle(self, seconds: float | None = None) -> None:  # noqa: ARG002 - nothing is redelivered
        """As ``stop``: messages in flight are read again by the next reader."""
        await self.stop()

    def widen(self, prefetch: int) -> None:
        """Prefetch more from now on; a push consumer controls its own flow."""
        self._prefetch = max(self._prefetch, prefetch)
        if isinstance(self._source, EndlessPull):
            self._source.widen(prefetch)

    def _in_order(self, chunk: list[JetStreamMessage]) -> list[JetStreamMessage]:
        """The messages up to the first gap; the rest is read again."""
        seen = self._last_seq
        for index, message in enumerate(chunk):
            stream_seq, consumer_seq, time_ns, _ = numbers_of(message)
            if consumer_seq != self._expected:
                chunk = chunk[:index]
                break
            self._expected += 1
            self._last_seq = max(self._last_seq, stream_seq)
            self._last_time = time_ns
        if not self._begins_as_before or not self.restarts:
            return chunk
        return [message for message in chunk if numbers_of(message)[0] > seen]

    async def _restart(self, reason: Error | None) -> None:
        """Abandon this consumer; the next one is created when messages are requested again."""
        await self._drop()
        if self._stopped.is_set():
            return
        self.restarts += 1
        if (
            self._pauses.seconds
            and reason is not None
            and not isinstance(reason, ConnectionClosed)
        ):
            # A single restart is not worth a report. A repeated one, without a message in between,
            # may have a cause that no restart removes.
            reason.add_note(f"the ordered consumer of stream {self._stream!r} restarts")
            self._api.core.report(reason)
        await self._api.core.or_closed(rest(self._stopped, self._pauses.take()))

    async def _drop(self) -> None:
        source, self._source = self._source, None
        self._api.core.up_listeners.discard(self._on_up)
        if source is not None:
            with suppress(ConnectionClosed):
                await source.stop()
        if self.info is not None:
            with suppress(ConnectionClosed):
                forget_consumer(self._api, self._stream, self.info.name)
            self.info = None

    async def _create(self, config: ConsumerConfig, seconds: float) -> ConsumerInfo:
        self.info = await create_consumer(
            self._api,
            self._stream,
            config,
            ConsumerAction.CREATE,
            temporary=True,
            timeout=seconds,
        )
        return self.info

    def _configured(self, inbox: str) -> ConsumerConfig:
        config = self._config
        if self._last_seq and not self._begins_as_before:
            config = start_at(config, self._last_seq + 1)
        config = msgspec.structs.replace(
            config,
            name=self._api.nuid.next(),
            durable_name="",
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=config.inactive_threshold or INACTIVE_THRESHOLD,
        )
        filtered = config.filter_subject or config.filter_subjects
        if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT and not filtered:
            # The server requires a filter with this policy (10094): all subjects.
            config = msgspec.structs.replace(config, filter_subject=">")
        if not self._push:
            return config
        return msgspec.structs.replace(
            config,
            deliver_subject=inbox,
            flow_control=True,
            idle_heartbeat=seconds(self._heartbeat),
        )

    def _on_gap(self, gap: ConsumerGap) -> None:
        # Gaps between messages are found by _in_order; this one was reported by a heartbeat.
        self._break(gap)

    def _on_alarm(self, alarm: HeartbeatMissed) -> None:
        self._break(alarm)

    def _on_up(self) -> None:
        # A restarted server has lost the consumer; otherwise it is created again too, because
        # messages may have been sent to the old connection.
        self._break(ConnectionClosed("the connection was replaced"))

    def _break(self, error: Error) -> None:
        if self._broken is None and self._source is not None:
            self._broken = error
            # Ends the wait of the reader, which then creates a new consumer.
            self._ending = self._api.core.loop.create_task(self._source.stop())


def start_at(config: ConsumerConfig, seq: int) -> ConsumerConfig:
    """The same configuration, starting at a sequence."""
    return msgspec.structs.replace(
        config,
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=seq,
        opt_start_time=None,
    )
