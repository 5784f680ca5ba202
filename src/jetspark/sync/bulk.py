"""Bulk publishing for blocking callers: one crossing of threads for a chunk of messages.

Beside the generated twins, because the functions behind it are none of the client's classes
(contracts.md 2: bulk writers hand over whole chunks).
"""

# These functions belong to the same package as the handles whose inside they use.
# ruff: noqa: SLF001

from collections.abc import Sequence

from jetspark.api.message import PubAck
from jetspark.client.jetstream import publish_columns as columns
from jetspark.client.jetstream.publish_columns import ColumnsAck
from jetspark.sync.jetstream import JetStream

__all__ = ["ColumnsAck", "publish_columns", "publish_together"]


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
