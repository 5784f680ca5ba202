"""The last message of each of many subjects, read with a consumer.

For streams with several copies on servers that cannot prove how recent a copy is: an ordered
consumer delivers in order of sequence, and its end is delayed until it has delivered the newest
match that the leader knows (``kv.follow``). So everything up to the bound has been read, on
whichever server the consumer is.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from jetspark.api.base import Timestamp
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import Stored, WatchPlan
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.errors import RequestTimeout

CHUNK: Final = 256


class LastByConsumer:
    """Reads with consumers, as of one sequence or time; ``timeout`` limits each wait."""

    def __init__(
        self,
        reader: StreamReader,
        *,
        up_to_seq: int,
        up_to_time: Timestamp | None,
        min_last_seq: int,
        timeout: float,
    ) -> None:
        self._reader = reader
        self._up_to_seq = up_to_seq
        self._up_to_ns = None if up_to_time is None else int(up_to_time)
        self._min_last_seq = min_last_seq
        self._timeout = timeout

    async def newest(self, filters: tuple[str, ...]) -> list[StreamMessage]:
        """The last message of each subject as of the bound, which is the leader's last sequence.

        A consumer of last messages sees the stream slightly later. Changes in between are looked
        up in the history.
        """
        found: dict[str, Stored] = {}
        changed: set[str] = set()

        def take(stored: Stored) -> bool:
            if stored.revision <= self._up_to_seq:
                found[stored.key] = stored
            else:
                changed.add(stored.key)
            return True

        await self._read(WatchPlan(filters=filters, plain=True), take)
        for subject in changed - found.keys():
            found |= await self._history(WatchPlan(filters=(subject,), start="all", plain=True))
        return self._sorted(found)

    async def bounded(self, filters: tuple[str, ...], first: int) -> list[StreamMessage]:
        """The last messages among those from ``first`` to the bound."""
        plan = WatchPlan(filters=filters, start="all", resume_from=first, plain=True)
        return self._sorted(await self._history(plan))

    async def _history(self, plan: WatchPlan) -> dict[str, Stored]:
        found: dict[str, Stored] = {}

        def take(stored: Stored) -> bool:
            if self._up_to_seq and stored.revision > self._up_to_seq:
                return False
            if self._up_to_ns is not None and stored.time_ns > self._up_to_ns:
                return False
            found[stored.key] = stored
            return True

        await self._read(plan, take)
        return found

    async def _read(self, plan: WatchPlan, take: Callable[[Stored], bool]) -> None:
        """Pass on stored messages, in order, until the last one or until ``take`` has enough."""
        follow = Follow(self._reader, "", plan, self._min_last_seq, HighWater(enabled=False))
        await follow.start(timeout=self._timeout)
        try:
            while not follow.initial_done:
                try:
                    async with asyncio.timeout(self._timeout):
                        chunk = await follow.next_chunk(CHUNK)
                except TimeoutError:
                    raise RequestTimeout(
                        f"stream {self._reader.stream!r}: expected more messages, none arrived "
                        f"within {self._timeout} s"
                    ) from None
                if not all(map(take, chunk)) or (not chunk and not follow.initial_done):
                    return
        finally:
            await follow.stop()

    def _sorted(self, found: dict[str, Stored]) -> list[StreamMessage]:
        stream = self._reader.stream
        return [
            StreamMessage(
                stream=stream,
                subject=each.key,
                seq=each.revision,
                time_ns=each.time_ns,
                data=each.data,
                header_block=each.block,
            )
            for each in sorted(found.values(), key=lambda stored: stored.revision)
        ]
