"""Stored messages from the columns of a range, for ``get_batch`` and ``get_last_many``."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from jetspark.api.base import Timestamp
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.jetstream.scan import (
    RangeReader,
)
from jetspark.client.jetstream.stored import StreamMessage


async def message_pages(
    reader: RangeReader,
    stream: str,
    high_water: HighWater,
    first: int,
    start: Timestamp | None,
) -> AsyncGenerator[list[StreamMessage], None]:
    """The messages of a range, page by page."""
    async with aclosing(reader.chunks(first, start)) as chunks:
        async for chunk in chunks:
            page = to_messages(stream, chunk)
            high_water.note(stream, page[-1].seq)
            yield page


async def noted(
    pages: AsyncGenerator[list[StreamMessage], None], stream: str, high_water: HighWater
) -> AsyncGenerator[list[StreamMessage], None]:
    """The same pages; records the highest sequence."""
    async with aclosing(pages):
        async for page in pages:
            high_water.note(stream, max(message.seq for message in page))
            yield page


def to_messages(stream: str, chunk: MessageColumns) -> list[StreamMessage]:
    """A message per row; the chunk must have all columns."""
    columns = (chunk.sequences, chunk.times, chunk.subjects, chunk.data, chunk.headers)
    return [
        StreamMessage(
            stream=stream,
            subject=subject,
            seq=seq,
            time_ns=time_ns,
            data=data,
            header_block=block,
        )
        for seq, time_ns, subject, data, block in zip(*columns, strict=True)
    ]


def to_chunk(messages: Sequence[StreamMessage]) -> MessageColumns:
    """Messages as a chunk with all columns."""
    return MessageColumns(
        [message.seq for message in messages],
        [message.time_ns for message in messages],
        [message.subject for message in messages],
        [message.data for message in messages],
        [message.header_block for message in messages],
    )
