"""Bulk operations for blocking callers: one thread switch per chunk of messages.

Not generated, because these functions do not belong to the client's classes.
"""

import asyncio
from collections.abc import Sequence

from jetspark.api.message import PubAck
from jetspark.client.jetstream import counting
from jetspark.client.jetstream.counting import Counted
from jetspark.client.jetstream.last_many import LastMany, parts_of
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.jetstream.publishing import columns
from jetspark.client.jetstream.publishing.columns import ColumnsAck
from jetspark.sync.jetstream import JetStream, Stream

__all__ = [
    "ColumnsAck",
    "Counted",
    "count_from",
    "last_columns",
    "publish_columns",
    "publish_together",
    "publish_where_expected",
]


def publish_columns(
    jetstream: JetStream,
    messages: MessageColumns,
    *,
    max_in_flight: int,
    timeout: float,
) -> ColumnsAck:
    """Publish messages, pipelined, and wait for every ack; raises the first failure."""
    return jetstream._portal.call(
        columns.publish_columns(
            jetstream._inner,
            messages,
            max_in_flight=max_in_flight,
            timeout=timeout,
        )
    )


def publish_where_expected(
    jetstream: JetStream,
    messages: MessageColumns,
    *,
    max_in_flight: int,
    timeout: float,
) -> list[int]:
    """Publish messages that expect a last sequence; return the sequence of each, 0: refused."""
    return jetstream._portal.call(
        columns.publish_where_expected(
            jetstream._inner,
            messages,
            max_in_flight=max_in_flight,
            timeout=timeout,
        )
    )


def publish_together(
    jetstream: JetStream,
    messages: MessageColumns,
    *,
    max_messages: int,
    timeout: float,
) -> PubAck:
    """Publish messages as one atomic batch: all are stored or none."""
    return jetstream._portal.call(
        columns.publish_together(
            jetstream._inner,
            messages,
            max_messages=max_messages,
            timeout=timeout,
        )
    )


def last_columns(
    stream: Stream, subjects: Sequence[str], *, up_to_seq: int, min_last_seq: int = 0
) -> MessageColumns:
    """Return the last message of each of ``subjects`` at one sequence, as columns.

    Requests are sent concurrently, and the rows are unordered. Pass some thousand subjects: the
    result is held in memory.
    """
    inner = stream._inner

    async def read() -> MessageColumns:
        reader = LastMany(
            inner._reader,
            up_to_seq=up_to_seq,
            up_to_time=None,
            batch=0,
            max_bytes=0,
            min_last_seq=min_last_seq,
            copies="stream",
            timeout=inner._reader.api.timeout,
        )

        async def part(some: Sequence[str]) -> list[MessageColumns]:
            return [chunk async for chunk in reader.chunks(some)]

        # The first one determines which copies can be trusted; the others run concurrently.
        parts = parts_of(subjects)
        found = [await part(parts[0])] if parts else []
        found += await asyncio.gather(*(part(some) for some in parts[1:]))
        return MessageColumns.joined([chunk for chunks in found for chunk in chunks])

    return stream._portal.call(read())


def count_from(
    stream: Stream, sequences: Sequence[int], *, subject: str = "", min_last_seq: int = 0
) -> list[Counted]:
    """Count the messages of ``subject`` (empty: all) from each of ``sequences``."""
    reader = stream._inner._reader
    return stream._portal.call(
        counting.count_from(
            reader,
            sequences,
            subject=subject,
            min_last_seq=min_last_seq,
            timeout=reader.api.timeout,
        )
    )
