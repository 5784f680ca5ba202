"""Following keys: an ordered consumer that detects the end of the initial data.

ADR-8, watchers: the initial data ends at the first message with nothing pending, or at once if
there is none; **the end is always reported**. Messages that were counted may be removed before
they are delivered, so if nothing arrives, the consumer is asked whether the end is reached.

ADR-53 on servers without it (decisions.md, Read-after-write): the end is delayed until the newest
match that the leader named at the start has been delivered, or was deleted.
"""

import asyncio
from contextlib import suppress
from typing import Final

from jetspark.api.consumer import ConsumerConfig, ConsumerInfo
from jetspark.api.enums import DeliverPolicy
from jetspark.api.message import MsgGetRequest
from jetspark.api.stream import STREAM_INFO
from jetspark.client.jetstream.consumer.create import consumer_info
from jetspark.client.jetstream.consumer.message import JetStreamMessage, numbers_of
from jetspark.client.jetstream.consumer.ordered import OrderedReader
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import Stored, WatchPlan
from jetspark.client.jetstream.kv.entry import Operation, read_block
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    BucketNotFound,
    ConnectionClosed,
    Error,
    MessageNotFound,
    StreamNotFound,
)
from jetspark.errors.codes import ErrCode

QUIET_SECONDS: Final = 0.5  # without a message before the consumer's info is requested


class Follow:
    """The entries of a watch; see ``kv.backend.WatchSource``."""

    def __init__(
        self,
        stream: StreamReader,
        prefix: str,
        plan: WatchPlan,
        min_last_seq: int,
        high_water: HighWater,
    ) -> None:
        self._api = stream.api
        self._stream = stream
        self._skip = len(prefix)
        self._plan = plan
        self._subjects = tuple(prefix + each for each in plan.filters)
        self._high_water = high_water
        self._min_last_seq = high_water.wanted(stream.stream, min_last_seq)
        self._reader = self._ordered(ConsumerConfig())
        self._due = 0
        self._received = 0
        self._last_seq = 0
        # The newest match at the leader, until it was delivered; 0 if nothing is awaited.
        self._wanted_seq = 0
        self._waiting: asyncio.Task[list[JetStreamMessage]] | None = None
        self._initial_done = False
        # When the stream was created, if creating it again under its name ends this.
        self._created = 0
        self._remembering: asyncio.Task[None] | None = None

    @property
    def initial_done(self) -> bool:
        """Whether all initial data has been handed out."""
        return self._initial_done

    @property
    def due(self) -> int:
        """The number of entries at the start."""
        return self._due

    async def start(self, *, timeout: Timeout | None = None) -> None:
        """Create the consumer and count the initial data."""
        seconds = self._api.seconds(timeout)
        held = self._min_last_seq
        reached = max(held, self._plan.resume_from - 1)
        if reached:
            # Before the consumer is created: its counts must include the required revision. One
            # that starts after the end (of a bucket that was created again) would skip changes.
            await self._stream.wait_for_leader(reached, self._api.core.loop.time() + seconds)
        self._reader = self._ordered(self._config())
        info = await self._reader.start(timeout=seconds)
        if info.config.min_last_seq < held:
            # An answer that does not echo the sequence proves nothing.
            try:
                await self._hold_back(seconds)
            except BaseException:
                await self._reader.stop()
                raise
        self._due = info.num_pending + info.delivered.consumer_seq
        if not self._due and self._plan.start == "last":
            # The bucket is empty, so everything that a new consumer finds is a change.
            self._reader.begin_with_all()
        if (self._plan.start == "new" or not self._due) and not self._wanted_seq:
            self._end_initial()

    async def next_chunk(self, count: int) -> list[Stored]:
        """Wait for entries; empty when the initial data has just ended, or at the end."""
        if self._initial_done:
            if self._plan.same_stream and self._remembering is None:
                self._remembering = self._api.core.loop.create_task(self._remember_stream())
            chunk = await self._next(count)
        else:
            chunk = await self._next_before_end(count)
        return self._take(chunk) if chunk else []

    async def stop(self) -> None:
        """Delete the consumer."""
        await self._reader.stop()
        if self._remembering is not None:
            self._remembering.cancel()
        running = [task for task in (self._waiting, self._remembering) if task is not None]
        if running:
            await asyncio.wait(running)

    async def _next(self, count: int) -> list[JetStreamMessage]:
        if self._waiting is None:
            return await self._reader.next_chunk(count)
        return await self._take_waiting(self._waiting)

    async def _next_before_end(self, count: int) -> list[JetStreamMessage]:
        """The next messages; empty if the initial data ends without any, or at the end."""
        loop = self._api.core.loop
        while True:
            if self._waiting is None:
                self._waiting = loop.create_task(self._reader.next_chunk(count))
                self._waiting.add_done_callback(_retrieve_result)
            try:
                # Not cancelled by the timeout: it may be about to create the consumer again.
                async with asyncio.timeout(QUIET_SECONDS):
                    return await self._take_waiting(self._waiting)
            except TimeoutError:
                if not self._waiting.done() and await self._nothing_left():
                    self._end_initial()
                    return []

    async def _take_waiting(
        self, waiting: asyncio.Task[list[JetStreamMessage]]
    ) -> list[JetStreamMessage]:
        """The result of a wait; if the caller is cancelled now, the next call returns it."""
        try:
            chunk = await asyncio.shield(waiting)
        except Error:
            self._waiting = None
            raise
        self._waiting = None
        return chunk

    async def _nothing_left(self) -> bool:
        """Whether the consumer has delivered everything and the awaited revision was reached."""
        try:
            if self._wanted_seq and await self._is_stored(self._wanted_seq):
                return False
            self._wanted_seq = 0
            made = self._reader.info
            if made is None:
                return False
            info: ConsumerInfo = await consumer_info(self._api, self._stream.stream, made.name)
        except (StreamNotFound, ConnectionClosed):
            raise
        except Error:
            return False  # no consumer, or the server is unavailable: ask again later
        return not info.num_pending and info.delivered.consumer_seq < self._reader.expected

    def _take(self, chunk: list[JetStreamMessage]) -> list[Stored]:
        skip, entries = self._skip, []
        for message in chunk:
            block = message.header_block
            revision, _, time_ns, pending = numbers_of(message)
            if block and not self._plan.plain:
                operation, reason, size = read_block(block, message.data)
            else:
                operation, reason, size = Operation.PUT, "", len(message.data)
            entries.append(
                Stored(
                    message.subject[skip:],
                    message.data,
                    revision,
                    time_ns,
                    operation,
                    reason,
                    size,
                    pending,
                    block,
                )
            )
        self._received += len(chunk)
        self._last_seq = entries[-1].revision
        self._high_water.note(self._stream.stream, self._last_seq)
        if not self._initial_done:
            self._check_end(numbers_of(chunk[-1])[3])
        return entries

    def _check_end(self, pending: int) -> None:
        if self._wanted_seq and self._last_seq >= self._wanted_seq:
            self._wanted_seq = 0
        # A new consumer may send values again that the first one had counted once.
        counted = not self._reader.restarts and self._received >= self._due
        # nats-server reports zero pending too early if last values are overwritten while they are
        # read. Those are delivered again; if not, the end is detected when nothing arrives.
        early = self._plan.start == "last" and not self._plan.resume_from
        trusted = not early or bool(self._reader.restarts)
        if not self._wanted_seq and (counted or (not pending and trusted)):
            self._end_initial()

    def _end_initial(self) -> None:
        self._initial_done = True
        self._reader.continue_after_last()

    def _ordered(self, config: ConsumerConfig) -> OrderedReader:
        # Until all last values were received, a new consumer starts with last values again.
        again = self._plan.start == "last" and not self._plan.resume_from
        return OrderedReader(
            self._api,
            self._stream.stream,
            config,
            push=True,
            prefetch=1,
            begins_as_before=again,
            check_restart=self._check_stream,
        )

    def _config(self) -> ConsumerConfig:
        plan, subjects = self._plan, self._subjects
        policy = {
            "last": DeliverPolicy.LAST_PER_SUBJECT,
            "all": DeliverPolicy.ALL,
            "new": DeliverPolicy.NEW,
        }[plan.start]
        if plan.resume_from:
            policy = DeliverPolicy.BY_START_SEQUENCE
        return ConsumerConfig(
            deliver_policy=policy,
            opt_start_seq=plan.resume_from,
            filter_subject=subjects[0] if len(subjects) == 1 else "",
            filter_subjects=subjects if len(subjects) > 1 else (),
            headers_only=plan.meta_only,
            min_last_seq=self._min_last_seq if self._stream.server_has_min_last_seq else 0,
        )

    async def _hold_back(self, seconds: float) -> None:
        """Determine what the initial data must at least contain: what the leader has now."""
        if self._plan.start == "new":
            return
        for subject in self._subjects:
            try:
                found = await self._stream.get_from_leader(
                    MsgGetRequest(last_by_subj=subject), seconds
                )
            except MessageNotFound:
                continue
            self._wanted_seq = max(self._wanted_seq, found.seq)
        if self._wanted_seq < self._plan.resume_from:
            self._wanted_seq = 0

    async def _remember_stream(self) -> None:
        with suppress(Error):  # the user may read it without permission for STREAM.INFO
            self._created = await self._stream_created()

    async def _check_stream(self) -> None:
        """In a stream created again, sequences would be mistaken for known ones."""
        if self._created and await self._stream_created() != self._created:
            raise StreamNotFound(
                404,
                ErrCode.STREAM_NOT_FOUND,
                f"stream {self._stream.stream!r} was deleted and created again while it was read: "
                "start again",
            )

    async def _stream_created(self) -> int:
        verb = f"STREAM.INFO.{self._stream.stream}"
        return int((await self._api.call(verb, None, STREAM_INFO)).created)

    async def _is_stored(self, sequence: int) -> bool:
        try:
            await self._stream.get_from_leader(MsgGetRequest(seq=sequence), self._api.timeout)
        except MessageNotFound:
            return False
        return True


def _retrieve_result(task: asyncio.Task[list[JetStreamMessage]]) -> None:
    """Retrieve the result: a caller that stopped waiting does not."""
    if not task.cancelled():
        task.exception()


class BucketFollow:
    """The entries of a watch; errors refer to the bucket instead of its stream."""

    def __init__(self, bucket: str, follow: Follow) -> None:
        self._bucket = bucket
        self._follow = follow

    @property
    def initial_done(self) -> bool:
        """Whether all initial data has been handed out."""
        return self._follow.initial_done

    @property
    def due(self) -> int:
        """The number of entries at the start."""
        return self._follow.due

    async def start(self, *, timeout: Timeout | None = None) -> None:
        """Create the consumer; BucketNotFound if the bucket does not exist."""
        try:
            await self._follow.start(timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(self._bucket) from None

    async def next_chunk(self, count: int) -> list[Stored]:
        """Wait for entries; BucketNotFound if the bucket was deleted."""
        try:
            return await self._follow.next_chunk(count)
        except StreamNotFound as error:
            gone = BucketNotFound(self._bucket)
            gone.add_note(str(error))
            raise gone from None

    async def stop(self) -> None:
        """Delete the consumer."""
        await self._follow.stop()
