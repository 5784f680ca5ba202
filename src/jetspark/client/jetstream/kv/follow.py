"""Following keys: an ordered consumer that knows when the initial data has ended.

ADR-8, watchers: the end of the initial data is reached at the first message with nothing pending,
or at once when there is none; **it is always told**. Messages that were counted may be removed
before they are delivered, so while the end is due the consumer is asked when nothing comes.

ADR-53 on servers without it (decisions.md, item 4): the end is held back until the newest match
that the leader named at the start has been delivered, or is gone.
"""

import asyncio
from typing import Final

from jetspark.api.consumer import ConsumerConfig, ConsumerInfo
from jetspark.api.enums import DeliverPolicy
from jetspark.api.message import MsgGetRequest
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.ack_subject import sequences
from jetspark.client.jetstream.consumer.create import consumer_info
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.jetstream.consumer.ordered import OrderedReader
from jetspark.client.jetstream.kv.backend import Stored, WatchPlan
from jetspark.client.jetstream.kv.entry import Operation, read_operation, read_size
from jetspark.client.jetstream.streams import Stream
from jetspark.errors import ConsumerNotFound, MessageNotFound

QUIET_SECONDS: Final = 0.5  # without a message before the consumer is asked about the end


class Follow:
    """The entries of a watch; see ``kv.backend.WatchSource``."""

    def __init__(
        self,
        api: ApiClient,
        stream: Stream,
        prefix: str,
        plan: WatchPlan,
        min_last_seq: int,
    ) -> None:
        self._api = api
        self._stream = stream
        self._prefix = prefix
        self._skip = len(prefix)
        self._plan = plan
        self._min_last_seq = min_last_seq
        self._reader = OrderedReader(api, stream.name, ConsumerConfig(), push=True, prefetch=1)
        self._due = 0
        self._received = 0
        self._last_seq = 0
        # The newest match at the leader, until it was seen; 0 when nothing is held back.
        self._wanted_seq = 0
        self._waiting: asyncio.Task[list[JetStreamMessage]] | None = None
        self._initial_done = False

    @property
    def initial_done(self) -> bool:
        """Whether everything that was there when the watch began has been handed out."""
        return self._initial_done

    async def start(self) -> None:
        """Make the consumer and count what is due."""
        config = await self._config()
        self._reader = OrderedReader(self._api, self._stream.name, config, push=True, prefetch=1)
        info = await self._reader.start()
        self._due = info.num_pending + info.delivered.consumer_seq
        if self._plan.start == "new" or not self._due:
            self._initial_done = not self._wanted_seq

    async def next_chunk(self, count: int) -> list[Stored]:
        """Wait for entries; empty when the initial data has just ended, or at the end."""
        if self._initial_done:
            chunk = await self._next(count)
        else:
            chunk = await self._next_before_end(count)
        return self._take(chunk) if chunk else []

    async def stop(self) -> None:
        """Delete the consumer."""
        await self._reader.stop()
        if self._waiting is not None:
            await asyncio.wait([self._waiting])

    async def _next(self, count: int) -> list[JetStreamMessage]:
        if self._waiting is None:
            return await self._reader.next_chunk(count)
        waiting, self._waiting = self._waiting, None
        return await waiting

    async def _next_before_end(self, count: int) -> list[JetStreamMessage]:
        """The next messages; empty when the initial data ends without any, or at the end."""
        loop = self._api.core.loop
        while True:
            if self._waiting is None:
                self._waiting = loop.create_task(self._reader.next_chunk(count))
            try:
                # Not cancelled by the time limit: it may be about to make the consumer anew.
                async with asyncio.timeout(QUIET_SECONDS):
                    chunk = await asyncio.shield(self._waiting)
            except TimeoutError:
                if await self._nothing_left():
                    self._initial_done = True
                    return []
                continue
            self._waiting = None
            return chunk

    async def _nothing_left(self) -> bool:
        """Whether the consumer has delivered everything and what is held back is settled."""
        if self._wanted_seq and await self._is_stored(self._wanted_seq):
            return False
        self._wanted_seq = 0
        made = self._reader.info
        if made is None:
            return False
        try:
            info: ConsumerInfo = await consumer_info(self._api, self._stream.name, made.name)
        except ConsumerNotFound:
            return False
        return not info.num_pending and info.delivered.consumer_seq < self._reader.expected

    def _take(self, chunk: list[JetStreamMessage]) -> list[Stored]:
        skip, entries = self._skip, []
        for message in chunk:
            block = message.header_block
            tokens = message.reply.split(".")
            first = 5 if len(tokens) == 9 else 7
            revision, pending = int(tokens[first]), int(tokens[first + 3])
            if block and not self._plan.plain:
                operation, reason = read_operation(block)
                size = read_size(block, message.data)
            else:
                operation, reason, size = Operation.PUT, "", len(message.data)
            entries.append(
                Stored(
                    message.subject[skip:],
                    message.data,
                    revision,
                    int(tokens[first + 2]),
                    operation,
                    reason,
                    size,
                    pending,
                    block,
                )
            )
        self._received += len(chunk)
        self._last_seq = entries[-1].revision
        if not self._initial_done:
            self._check_end(sequences(chunk[-1].reply)[2])
        return entries

    def _check_end(self, pending: int) -> None:
        if self._wanted_seq and self._last_seq >= self._wanted_seq:
            self._wanted_seq = 0
        if not self._wanted_seq and (not pending or self._received >= self._due):
            self._initial_done = True

    async def _config(self) -> ConsumerConfig:
        plan = self._plan
        subjects = tuple(self._prefix + each for each in plan.filters)
        policy = {
            "last": DeliverPolicy.LAST_PER_SUBJECT,
            "all": DeliverPolicy.ALL,
            "new": DeliverPolicy.NEW,
        }[plan.start]
        if plan.resume_from:
            policy = DeliverPolicy.BY_START_SEQUENCE
        held = self._min_last_seq
        jetspark = self._api.core.server_info.jetspark
        own = jetspark is not None and jetspark.min_last_seq
        if held and not own:
            await self._hold_back(subjects, held)
        return ConsumerConfig(
            deliver_policy=policy,
            opt_start_seq=plan.resume_from,
            filter_subject=subjects[0] if len(subjects) == 1 else "",
            filter_subjects=subjects if len(subjects) > 1 else (),
            headers_only=plan.meta_only,
            min_last_seq=held if own else 0,
        )

    async def _hold_back(self, subjects: tuple[str, ...], sequence: int) -> None:
        """Find out what the initial data must contain at least."""
        reader = self._stream.reader
        await reader.wait_for_leader(sequence, self._api.core.loop.time() + self._api.timeout)
        if self._plan.start == "new":
            return
        for subject in subjects:
            try:
                found = await reader.get_from_leader(
                    MsgGetRequest(last_by_subj=subject), self._api.timeout
                )
            except MessageNotFound:
                continue
            self._wanted_seq = max(self._wanted_seq, found.seq)
        if self._wanted_seq < self._plan.resume_from:
            self._wanted_seq = 0

    async def _is_stored(self, sequence: int) -> bool:
        try:
            await self._stream.reader.get_from_leader(
                MsgGetRequest(seq=sequence), self._api.timeout
            )
        except MessageNotFound:
            return False
        return True
