"""Columns of messages published in bulk: pipelined, or as one atomic batch.

The counterparts of ``FastPublisher.extend`` for streams without fast ingest: a caller on another
thread (``jetspark.sync.bulk``) crosses over once for thousands of messages.
"""

import msgspec

from jetspark.api.message import PubAck
from jetspark.client.jetstream.context import JetStream
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.jetstream.publishing.atomic import AtomicBatch
from jetspark.client.jetstream.publishing.publisher import PendingAck, PublishWindow
from jetspark.errors import Error, WrongLastSequence


class ColumnsAck(msgspec.Struct, frozen=True):
    """The result of ``publish_columns``."""

    last_seq: int
    """The highest sequence among the acks."""
    duplicates: int
    """The number of messages that the server did not store, because it had their ids."""


async def publish_columns(
    jetstream: JetStream,
    messages: MessageColumns,
    *,
    max_in_flight: int,
    timeout: float,
) -> ColumnsAck:
    """Publish messages with at most ``max_in_flight`` outstanding acks.

    Raises the first failure, by row, after all answers have arrived; later rows may or may not be
    stored.
    """
    # Without an underscore it would be offered to users.
    window = PublishWindow(jetstream._api, max_in_flight, None)  # noqa: SLF001
    acks: list[PendingAck] = []
    columns = (messages.subjects, messages.data, messages.headers)
    for subject, payload, block in zip(*columns, strict=True):
        acks.append(await window.publish(subject, block, payload, timeout))
    last, duplicates = 0, 0
    failure: Exception | None = None
    for row, pending in enumerate(acks):
        try:
            ack = await pending.wait()
        except Exception as error:  # noqa: BLE001 - raised below, after all answers
            if failure is None:
                failure = error
                # Spark shows the last line of an error: the cause belongs there, too.
                failure.add_note(
                    f"{error} (row {row} of the chunk, subject {messages.subjects[row]!r})"
                )
            continue
        last = max(last, ack.seq)
        duplicates += bool(ack.duplicate)
    if failure is not None:
        raise failure
    return ColumnsAck(last, duplicates)


async def publish_where_expected(
    jetstream: JetStream,
    messages: MessageColumns,
    *,
    max_in_flight: int,
    timeout: float,
) -> list[int]:
    """Publish messages that expect a last sequence; return the sequence of each, 0: refused.

    Raises the first other failure, after all answers have arrived.
    """
    # Without an underscore it would be offered to users.
    window = PublishWindow(jetstream._api, max_in_flight, None)  # noqa: SLF001
    columns = (messages.subjects, messages.data, messages.headers)
    acks = [
        await window.publish(subject, block, payload, timeout)
        for subject, payload, block in zip(*columns, strict=True)
    ]
    sequences: list[int] = []
    failure: Error | None = None
    for pending in acks:
        try:
            sequences.append((await pending.wait()).seq)
        except WrongLastSequence:
            sequences.append(0)
        except Error as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return sequences


async def publish_together(
    jetstream: JetStream,
    messages: MessageColumns,
    *,
    max_messages: int,
    timeout: float,
) -> PubAck:
    """Publish messages as one atomic batch (ADR-50); errors as in ``AtomicBatch.commit``."""
    batch: AtomicBatch = jetstream.atomic_batch(max_messages=max_messages, timeout=timeout)
    batch.extend(messages.subjects, messages.data, messages.headers)
    return await batch.commit()
