"""Shows the position of a query on the server, as a durable consumer of each stream it reads.

No program reads messages through it: it exists for people and tools that watch consumers. Their
reports, dashboards and exporters show how many messages the query has not read yet. It follows the
checkpoint and is never read back, so a query does not depend on it.
"""

from collections.abc import Mapping

from jetspark import sync
from jetspark.api.enums import AckPolicy, DeliverPolicy, Retention
from jetspark.errors import ConsumerNotFound, Error
from jetspark.spark.stream.offsets import Offset
from jetspark.spark.stream.options import SourceOptions
from jetspark.spark.stream.view import (
    PlanningFailed,
    ServerUnreachable,
    StreamMissing,
    find_stream,
    is_selected,
    planning,
    view_of,
)

# Marks the consumer as one that a query moves: any other one is left alone.
OWNER_KEY = "jetspark.position"
OWNER_VALUE = "spark"


class PositionConsumers:
    """The consumers of ``progressConsumer``, one for each stream of a query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        # What the consumers show, by stream.
        self._shown: dict[str, Offset] = {}
        self._filters: tuple[str, ...] = options.subjects
        self._resets = True

    def show(self, committed: Mapping[str, Offset]) -> None:
        """Move the consumers to committed positions.

        If no server answers, or a stream was deleted, they stay where they are: the query itself
        decides what that means. Raises ``PlanningFailed`` for a consumer that cannot be used.
        """
        for name, place in committed.items():
            shown = self._shown.get(name)
            same = shown is not None and (shown.next, shown.created) == (place.next, place.created)
            # Before sequence 1 is the initial snapshot of a bucket: nothing has been read yet.
            if same or place.next < 1 or not is_selected(self._options, name):
                continue
            try:
                self._move(self._options.for_stream(name), place)
            except (ServerUnreachable, StreamMissing):
                continue
            self._shown[name] = place

    def _move(self, options: SourceOptions, place: Offset) -> None:
        durable = self._options.progress_consumer
        with planning(options) as client:
            stream = find_stream(client, options)
            if view_of(stream.cached_info).created != place.created:
                return  # Created again: these are the sequences of its predecessor.
            if stream.config.retention is not Retention.LIMITS:
                raise PlanningFailed(
                    f"progressConsumer cannot be used with stream {stream.name!r}, whose "
                    f"retention is {stream.config.retention.value}: the stream would keep "
                    "messages for the consumer, or delete them. Use onCommit ack:<durable> there, "
                    "whose consumer shows the position too"
                )
            try:
                consumer = stream.consumer(durable)
            except ConsumerNotFound:
                _create(stream, durable, place.next, self._filters)
                return
            _refuse_foreign(stream, consumer)
            if consumer.cached_info.config.filter_subjects != self._filters:
                self._replace(stream, place.next)
            elif consumer.cached_info.ack_floor.stream_seq + 1 != place.next:
                self._reset(stream, consumer, place.next)

    def _reset(self, stream: sync.Stream, consumer: sync.Consumer, following: int) -> None:
        if self._resets:
            try:
                consumer.reset(following)
            except Error:
                # A server that does not know the request, or a user who may not send it.
                self._resets = False
            else:
                return
        self._replace(stream, following)

    def _replace(self, stream: sync.Stream, following: int) -> None:
        """Create the consumer again; in between there is none, never a wrong number."""
        stream.delete_consumer(self._options.progress_consumer)
        _create(stream, self._options.progress_consumer, following, self._filters)


def _create(stream: sync.Stream, durable: str, following: int, filters: tuple[str, ...]) -> None:
    stream.create_consumer(
        durable=durable,
        description="position of a Spark query; do not read from it",
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=following,
        ack_policy=AckPolicy.EXPLICIT,
        filter_subjects=filters,
        metadata={OWNER_KEY: OWNER_VALUE},
    )


def _refuse_foreign(stream: sync.Stream, consumer: sync.Consumer) -> None:
    config = consumer.cached_info.config
    if (config.metadata or {}).get(OWNER_KEY) != OWNER_VALUE:
        raise PlanningFailed(
            f"progressConsumer names the consumer {consumer.name!r} of stream {stream.name!r}, "
            "which belongs to another program: its position would be overwritten. Choose another "
            "name, or delete that consumer"
        )
