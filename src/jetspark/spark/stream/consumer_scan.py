"""Reading a range with a consumer, for streams without direct gets.

One temporary consumer without acknowledgements per range: it keeps no state, and a range that is
read again gets another one.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from jetspark import sync
from jetspark.api.enums import AckPolicy, DeliverPolicy
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.errors import ConsumerNotFound, Error, MessageNotFound, RequestTimeout
from jetspark.spark.stream.view import PlanningFailed
from jetspark.subjects.match import is_subset

# The consumer of a task that dies is deleted after this time.
INACTIVE_SECONDS: Final = 30.0
FETCH_MAX: Final = 1_000


def consumer_scan(
    stream: sync.Stream, first: int, last: int, filters: Sequence[str], *, batch: int
) -> Iterator[MessageColumns]:
    """Yield the messages from ``first`` to ``last`` with all columns, in order of sequence."""
    consumer = stream.create_consumer(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=first,
        ack_policy=AckPolicy.NONE,
        filter_subjects=filters,
        mem_storage=True,
        num_replicas=1,
        inactive_threshold=INACTIVE_SECONDS,
    )
    position = first
    try:
        for chunk in _follow(stream, consumer, last, batch):
            position = chunk.sequences[-1] + 1
            yield chunk
        _check_complete(stream, position, last, filters)
    except ConsumerNotFound:
        # It ends with the server's memory, with the stream, or unused for too long. The caller
        # tries again with another one, if the stream is still the same.
        raise RequestTimeout(f"stream {stream.name!r}: its consumer no longer exists") from None
    finally:
        # If the connection was lost, the server deletes the consumer after a while.
        with contextlib.suppress(Error):
            stream.delete_consumer(consumer.name)


def _follow(
    stream: sync.Stream, consumer: sync.Consumer, last: int, batch: int
) -> Iterator[MessageColumns]:
    pending = consumer.info().num_pending
    expected = 1
    while pending:
        messages = consumer.fetch(min(batch, FETCH_MAX, pending))
        if not messages:
            raise RequestTimeout(f"stream {stream.name!r}: its consumer sent nothing")
        chunk = MessageColumns.empty()
        for message in messages:
            meta = message.metadata
            if meta.consumer_seq != expected:
                # Without acknowledgements nothing is redelivered: the caller continues from here.
                raise RequestTimeout(f"stream {stream.name!r}: messages were lost in transit")
            expected += 1
            pending = meta.num_pending
            if meta.stream_seq > last:
                pending = 0
                break
            chunk.append(
                meta.stream_seq,
                meta.time_ns,
                message.subject,
                message.data,
                message.header_block,
            )
        if chunk.sequences:
            yield chunk
            if chunk.sequences[-1] >= last:
                return


def _check_complete(stream: sync.Stream, position: int, last: int, filters: Sequence[str]) -> None:
    """Raise ``RequestTimeout`` if the leader has messages that the consumer did not send.

    A consumer reads the copy of its node, which may lag.
    """
    if position > last:
        return
    for pattern in filters or (">",):
        try:
            left = stream.get_msg(next_by_subject=pattern, seq=position, min_last_seq=last)
        except MessageNotFound:
            continue
        if left.seq <= last:
            raise RequestTimeout(
                f"stream {stream.name!r}: its consumer stopped before message {left.seq}"
            )


def acknowledging_consumer(
    stream: sync.Stream, durable: str, subjects: Sequence[str]
) -> sync.Consumer:
    """Return the consumer of ``onCommit`` ack, with its current state.

    Raises ``PlanningFailed`` if it cannot acknowledge what a query with the filters ``subjects``
    has read, or would acknowledge more than that.
    """
    named = f"onCommit names the consumer {durable!r} of stream {stream.name!r}"
    try:
        consumer = stream.consumer(durable)
    except ConsumerNotFound:
        raise PlanningFailed(
            f"{named}, which does not exist: create it, with ack_policy explicit, or correct the "
            "option"
        ) from None
    config = consumer.cached_info.config
    if config.ack_policy is AckPolicy.NONE:
        raise PlanningFailed(f"{named}, whose ack_policy is none: it cannot acknowledge")
    if config.deliver_subject:
        raise PlanningFailed(f"{named}, which is a push consumer: use a pull consumer")
    own = config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())
    unread = _not_covered(own or stream.config.subjects or (">",), subjects)
    if unread:
        raise PlanningFailed(
            f"{named}, which also gets messages of {', '.join(unread)}. This query reads "
            f"{', '.join(subjects)}, and would acknowledge the others unread: give the consumer "
            "the filters of the query (filter_subjects), or the query the subjects of the "
            "consumer (option subject)"
        )
    return consumer


def _not_covered(patterns: Sequence[str], subjects: Sequence[str]) -> list[str]:
    """Return the patterns of which some messages may match none of ``subjects``; empty: all do."""
    if not subjects:
        return []
    outer = [subject.encode() for subject in subjects]
    return [one for one in patterns if not any(is_subset(one.encode(), each) for each in outer)]


def acknowledge_up_to(
    stream: sync.Stream, durable: str, end: int, subjects: Sequence[str]
) -> None:
    """Acknowledge, as the consumer ``durable``, every message below ``end``.

    For streams that remove acknowledged messages (``onCommit`` ack). Messages after ``end`` are
    redelivered. All that it gets is read by a query with the filters ``subjects``.
    """
    consumer = acknowledging_consumer(stream, durable, subjects)
    while messages := consumer.fetch(FETCH_MAX, no_wait=True):
        done = [message for message in messages if message.metadata.stream_seq < end]
        for message in messages[len(done) :]:
            message.nak()
        for message in done[:-1]:
            message.ack()
        if done:
            # Wait for the last one, and with it for those before.
            done[-1].ack_sync()
        if len(done) < len(messages):
            return
