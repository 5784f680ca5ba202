"""Bulk publishing for blocking callers: one crossing of threads for a chunk of messages.

Beside the generated twins, because the functions behind it are none of the client's classes
(contracts.md 2: bulk writers hand over whole chunks).
"""

# These functions belong to the same package as the handles whose inside they use.
# ruff: noqa: SLF001

from collections.abc import Sequence
from typing import Final

from jetspark.api.message import PubAck
from jetspark.client.jetstream import publish_columns as columns
from jetspark.client.jetstream.publish_columns import ColumnsAck
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.sync.jetstream import JetStream, Stream

__all__ = ["ColumnsAck", "last_messages", "publish_columns", "publish_together"]

_PAGE: Final = 5_000


def publish_columns(
    jetstream: JetStream,
    subjects: Sequence[str],
    payloads: Sequence[bytes],
    headers: Sequence[bytes],
    *,
    max_in_flight: int,
    timeout: float,
) -> ColumnsAck:
    """Publish rows, pipelined, and wait for every ack; raises the first failure."""
    return jetstream._portal.call(
        columns.publish_columns(
            jetstream._inner,
            subjects,
            payloads,
            headers,
            max_in_flight=max_in_flight,
            timeout=timeout,
        )
    )


def publish_together(
    jetstream: JetStream,
    subjects: Sequence[str],
    payloads: Sequence[bytes],
    headers: Sequence[bytes],
    *,
    max_messages: int,
    timeout: float,
) -> PubAck:
    """Publish rows as one atomic batch: all of them are stored or none."""
    return jetstream._portal.call(
        columns.publish_together(
            jetstream._inner,
            subjects,
            payloads,
            headers,
            max_messages=max_messages,
            timeout=timeout,
        )
    )


def last_messages(
    stream: Stream, subjects: Sequence[str], *, up_to_seq: int = 0, min_last_seq: int = 0
) -> list[StreamMessage]:
    """Return the last message of each of ``subjects`` as of one sequence (0: now), all at once."""

    async def read() -> list[StreamMessage]:
        pager = stream._inner.get_last_many(
            subjects, up_to_seq=up_to_seq, min_last_seq=min_last_seq
        )
        found: list[StreamMessage] = []
        while page := await pager.next_chunk(_PAGE):
            found += page
        return found

    return stream._portal.call(read())
