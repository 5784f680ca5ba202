"""Consumers that read a remote stream: as chunks of columns."""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.consumer import CONSUMER_DELETE, ConsumerConfig
from jetspark.api.enums import AckPolicy, ConsumerAction, DeliverPolicy
from jetspark.api.message import MSG_GET, MsgGetRequest
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.create import (
    consumer_info,
    create_consumer,
    forget_consumer,
)
from jetspark.client.jetstream.consumer.endless import EndlessPull
from jetspark.client.jetstream.consumer.message import AckLink, JetStreamMessage
from jetspark.client.jetstream.consumer.target import ConsumerTarget
from jetspark.client.jetstream.listing import consumer_name_pages
from jetspark.engine.replicate.upstream import Chunk, OriginState
from jetspark.errors import (
    ApiError,
    ConnectionClosed,
    ConsumerGap,
    ConsumerNotFound,
    Error,
    MessageNotFound,
)
from jetspark.errors.codes import ErrCode
from jetspark.replica.times import LinkTimes
from jetspark.units import hours, minutes

# The batch of a request; it also asks for no more bytes than this, or than two of the largest
# messages that the remote accepts.
BATCH: Final = 4000
BATCH_BYTES: Final = 8 * 1024 * 1024
INACTIVE_THRESHOLD: Final = minutes(1)
EXPIRES: Final = 30.0
CHUNK_ROWS: Final = 1000
# Nothing is redelivered meanwhile: losses are detected by counting.
ACK_WAIT: Final = hours(1)
_TAKEN: Final = (ErrCode.WORKQUEUE_MULTIPLE_UNFILTERED, ErrCode.WORKQUEUE_FILTER_NOT_UNIQUE)


class OrderedReader:
    """One consumer, from its creation to its end.

    ``position`` is the last sequence of the stream that has been passed, ``pending`` how many
    messages were to follow the last one.
    """

    chunk_rows: Final = CHUNK_ROWS

    def __init__(
        self,
        api: ApiClient,
        stream: str,
        filters: Sequence[str],
        times: LinkTimes,
        *,
        tag: str,
        next_seq: int,
        time_ns: int,
    ) -> None:
        self._api = api
        self._stream = stream
        self._filters = filters
        self._times = times
        self._next_seq = next_seq
        self._time_ns = time_ns
        self._name = f"{tag}{api.nuid.next()}"
        self._source: EndlessPull | None = None
        self._made = False
        self._expected = 1
        # Deliveries that the consumer had counted and that had not arrived when it was queried.
        self._missing_from = 0
        self._ending: asyncio.Task[None] | None = None
        self._unread: asyncio.Task[list[JetStreamMessage]] | None = None
        self.position: int = next_seq - 1
        self.pending: int = 0
        self.stopped: bool = False

    async def open(self) -> None:
        """Create the consumer."""
        api = self._api
        self._made = True  # it may exist even if no answer arrives
        info = await create_consumer(api, self._stream, self._config(), ConsumerAction.CREATE)
        self.pending = info.num_pending
        # Nothing from the start on up to here is in the stream.
        self.position = max(self.position, info.delivered.stream_seq)
        times = self._times
        largest = api.core.server_info.max_payload
        self._source = EndlessPull(
            api,
            ConsumerTarget(api, info),
            AckLink(api.core, ignored=True, timeout=api.timeout),
            prefetch=BATCH,
            max_bytes=max(BATCH_BYTES, 2 * largest + 64 * 1024),
            threshold=0.5,
            expires=EXPIRES,
            heartbeat=times.heartbeat,
            alarm=times.alarm,
            raise_alarm=True,
        )

    def _config(self) -> ConsumerConfig:
        config = ConsumerConfig(
            name=self._name,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=INACTIVE_THRESHOLD,
            filter_subject=self._filters[0] if len(self._filters) == 1 else "",
            filter_subjects=tuple(self._filters) if len(self._filters) > 1 else (),
        )
        if self._time_ns:
            return msgspec.structs.replace(
                config,
                deliver_policy=DeliverPolicy.BY_START_TIME,
                opt_start_time=Timestamp(self._time_ns),
            )
        return msgspec.structs.replace(
            config,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._next_seq,
        )

    async def next_chunk(self) -> Chunk | None:
        """Wait for messages; None if none arrived for a while, or it was stopped.

        Raises ConsumerGap if one is missing, HeartbeatMissed, ConsumerDeleted, and so on.
        """
        assert self._source is not None
        if self._unread is None and self._source.buffered:
            return self._columns(await self._source.next_chunk(CHUNK_ROWS))
        if self._unread is None:
            self._unread = asyncio.get_running_loop().create_task(
                self._source.next_chunk(CHUNK_ROWS)
            )
        done, _ = await asyncio.wait([self._unread], timeout=self._times.probe)
        if not done:
            return None
        task, self._unread = self._unread, None
        return self._columns(task.result())

    def _columns(self, messages: list[JetStreamMessage]) -> Chunk | None:
        if not messages:
            if not self.stopped:
                raise ConnectionClosed("the subscription of the consumer ended")
            return None
        chunk = Chunk()
        sequences, times = chunk.sequences, chunk.times
        subjects, headers, payloads = chunk.subjects, chunk.headers, chunk.payloads
        expected = self._expected
        pending = self.pending
        for message in messages:
            words = message.reply.split(".")
            first = 5 if len(words) == 9 else 7  # ack_subject.py: two forms
            if int(words[first + 1]) != expected:
                break
            expected += 1
            sequences.append(int(words[first]))
            times.append(int(words[first + 2]))
            pending = int(words[first + 3])
            subjects.append(message.subject.encode("utf-8", "surrogateescape"))
            headers.append(message.header_block)
            payloads.append(message.data)
        self._expected = expected
        self.pending = pending
        if not sequences:
            raise ConsumerGap(expected, int(words[first + 1]))
        self.position = max(self.position, sequences[-1])
        chunk.finish(self.position)
        return chunk

    async def check_idle(self, origin: OriginState | None) -> Chunk | None:
        """Determine whether nothing arrived because there is nothing.

        Raises ConsumerGap if messages were sent that never arrived.
        """
        info = await consumer_info(self._api, self._stream, self._name)
        if self._unread is not None and self._unread.done():
            return None  # something arrived meanwhile
        sent = info.delivered.consumer_seq
        if sent >= self._expected and self._missing_from == self._expected:
            raise ConsumerGap(self._expected, sent)
        self._missing_from = self._expected if sent >= self._expected else 0
        if sent >= self._expected:
            return None
        self.pending = info.num_pending
        if self._filters or info.num_pending or origin is None:
            return None
        if origin.last_seq <= self.position:
            return None
        # The leader reports that nothing is left up to its previous end.
        request = MsgGetRequest(seq=self.position + 1, next_by_subj=">")
        try:
            await self._api.call(f"STREAM.MSG.GET.{self._stream}", request, MSG_GET)
        except MessageNotFound:
            return self.nothing_up_to(origin.last_seq)
        return None

    def nothing_up_to(self, seq: int) -> Chunk:
        """Return a chunk that says that there is nothing up to a sequence."""
        self.position = seq
        return Chunk(seq)

    def stop(self) -> None:
        """End the wait for the next chunk."""
        self.stopped = True
        if self._source is not None and self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._source.stop())

    def acknowledge(self, seq: int) -> None:
        """Do nothing: the retention of the stream does not depend on acknowledgements."""

    async def close(self, *, for_good: bool = False) -> None:  # noqa: ARG002 - see kept.py
        """Delete the consumer, which would otherwise expire later."""
        self.stop()
        for task in (self._ending, self._unread):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Error):
                    await task
        if self._source is not None:
            with contextlib.suppress(Error):
                await self._source.stop()
        if self._made:
            with contextlib.suppress(Error):
                forget_consumer(self._api, self._stream, self._name)


class DurableReader(OrderedReader):
    """One durable consumer, for streams with interest or work-queue retention.

    Messages must stay there until they are on disk here, so the consumer is durable and each
    message is acknowledged when the copy has it. Order still matters: after an interruption,
    messages that were sent and never arrived would arrive after later ones. So another consumer is
    created, which gets everything that was not acknowledged, in order, and then the previous one
    is deleted; in a work queue, which allows only one, the other way round: there messages are
    kept without a consumer too.

    ``reader`` is the prefix of the names of all consumers of the copy.
    """

    def __init__(
        self,
        api: ApiClient,
        stream: str,
        filters: Sequence[str],
        times: LinkTimes,
        *,
        reader: str,
        next_seq: int,
        time_ns: int,
        stored: int,
    ) -> None:
        super().__init__(api, stream, filters, times, tag="", next_seq=next_seq, time_ns=time_ns)
        self._reader_name = f"{reader}_"
        self._name = f"{self._reader_name}{api.nuid.next()[-8:]}"
        self._stored = stored
        # Sequence and reply subject of unacknowledged messages, in order of arrival.
        self._unacknowledged: deque[tuple[int, bytes]] = deque()

    async def open(self) -> None:
        """Create the consumer and delete earlier ones."""
        try:
            await super().open()
        except ApiError as error:
            if error.err_code not in _TAKEN:
                raise
            await self._delete_others()
            await super().open()
        else:
            await self._delete_others()

    async def _delete_others(self) -> None:
        api = self._api
        others = [
            name
            async for page in consumer_name_pages(api, self._stream, None)
            for name in page
            if name.startswith(self._reader_name) and name != self._name
        ]
        for name in others:
            with contextlib.suppress(ConsumerNotFound):
                await api.call(f"CONSUMER.DELETE.{self._stream}.{name}", None, CONSUMER_DELETE)

    def _config(self) -> ConsumerConfig:
        return ConsumerConfig(
            name=self._name,
            durable_name=self._name,
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT,
            max_ack_pending=BATCH,
            filter_subject=self._filters[0] if len(self._filters) == 1 else "",
            filter_subjects=tuple(self._filters) if len(self._filters) > 1 else (),
        )

    def _columns(self, messages: list[JetStreamMessage]) -> Chunk | None:
        chunk = super()._columns(messages)
        if chunk is not None:
            replies = (message.reply.encode() for message in messages)
            self._unacknowledged.extend(zip(chunk.sequences, replies, strict=False))
            # A work queue delivers everything: messages before the start are not for us.
            early = bisect_left(chunk.times, self._time_ns)
            if early:
                self.acknowledge(chunk.sequences[early - 1])
                chunk.drop_first(early)
            self.acknowledge(self._stored)
        return chunk

    def acknowledge(self, seq: int) -> None:
        """Acknowledge everything up to a sequence: it is on disk here, or not wanted."""
        self._stored = max(self._stored, seq)
        waiting = self._unacknowledged
        while waiting and waiting[0][0] <= seq:
            self._api.core.send_message(waiting[0][1], b"", b"", b"")
            waiting.popleft()

    async def close(self, *, for_good: bool = False) -> None:
        """Stop reading; the consumer is kept for the next one unless the copy was deleted."""
        self._made = self._made and for_good
        await super().close(for_good=for_good)
