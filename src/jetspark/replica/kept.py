"""Reading a remote stream that lets go of what everybody has: interest and work-queue retention.

What was sent must stay there until it is on disk here, so the consumer is durable and each
message is acknowledged when the copy has it. Order matters all the same: after a break, messages
that were sent and never came would come behind later ones. So another consumer is made, which gets
everything that was not acknowledged, in order, and then the one before is deleted; in a work
queue, which has room for one, the other way round: there messages stay without a consumer too.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Final

from jetspark.api.consumer import CONSUMER_DELETE, ConsumerConfig
from jetspark.api.enums import AckPolicy, DeliverPolicy
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.jetstream.listing import consumer_name_pages
from jetspark.engine.replicate.upstream import Chunk
from jetspark.errors import ApiError, ConsumerNotFound
from jetspark.errors.codes import ErrCode
from jetspark.replica.reading import BATCH, Reading
from jetspark.replica.times import LinkTimes
from jetspark.units import hours

# Nothing is sent again meanwhile: what got lost is found by counting.
ACK_WAIT: Final = hours(1)
_TAKEN: Final = (ErrCode.WORKQUEUE_MULTIPLE_UNFILTERED, ErrCode.WORKQUEUE_FILTER_NOT_UNIQUE)


class KeptReading(Reading):
    """One durable consumer; ``reader`` begins the names of all that were made for the copy."""

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
        self._reader = f"{reader}_"
        self._name = f"{self._reader}{api.nuid.next()[-8:]}"
        self._stored = stored
        # Sequence and reply subject of what was not acknowledged, in the order in which it came.
        self._unacknowledged: deque[tuple[int, bytes]] = deque()

    async def open(self) -> None:
        """Make the consumer; those that were made before are deleted."""
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
            if name.startswith(self._reader) and name != self._name
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
            # A work queue gives out everything: what is from before the start is not for us.
            early = bisect_left(chunk.times, self._time_ns)
            if early:
                self.acknowledge(chunk.sequences[early - 1])
                chunk.drop_first(early)
            self.acknowledge(self._stored)
        return chunk

    def acknowledge(self, seq: int) -> None:
        """Everything up to a sequence is on disk here, or is not wanted."""
        self._stored = max(self._stored, seq)
        waiting = self._unacknowledged
        while waiting and waiting[0][0] <= seq:
            self._api.core.send_message(waiting[0][1], b"", b"", b"")
            waiting.popleft()

    async def close(self, *, for_good: bool = False) -> None:
        """Read no more; the consumer stays for the next one unless the copy is gone."""
        self._made = self._made and for_good
        await super().close(for_good=for_good)
