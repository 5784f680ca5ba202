"""Reading a range of sequences in a task.

Nothing is created on the server and nothing acknowledged: a range can be read again at any time.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.api.enums import Retention
from jetspark.client.jetstream.message_columns import Column, MessageColumns
from jetspark.errors import Error, MinLastSequence, StreamNotFound
from jetspark.spark.connection_settings import Connection
from jetspark.spark.connections import CONNECTIONS, OUTAGE_S, jetstream_of
from jetspark.spark.stream.consumer_scan import consumer_scan
from jetspark.spark.stream.offsets import BatchPlan
from jetspark.spark.stream.options import ReadMode, SourceOptions
from jetspark.spark.stream.planner import (
    DataLoss,
    SequenceRange,
    StreamRecreated,
    first_missing,
    planned_ranges,
)
from jetspark.spark.stream.schema import BatchEncoder, columns_to_read
from jetspark.spark.stream.view import PlanningFailed, StreamView, view_of
from jetspark.spark.task import local_property
from jetspark.spark.times import ZONE_SETTING, check_zone
from jetspark.sync.retry import Retries

# A scan that loses its server continues where it was: after this many attempts without a message
# in between the task fails, and Spark decides.
RETRIES_MAX: Final = 4

_Result = TypeVar("_Result")


class SequencePartition(InputPartition):
    """The sequences of a stream that one task reads: ``first`` is read, ``end`` is not."""

    def __init__(
        self,
        stream: str,
        first: int,
        end: int,
        created: str = "",
        subjects: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(SequenceRange(first, end))
        self.stream = stream
        self.first = first
        self.end = end
        self.created = created
        """When the stream that the read was planned for was created; empty: not checked."""
        self.subjects = subjects
        """The filters of this partition; None: those of the options."""


def planned_partitions(
    view: StreamView, plan: BatchPlan, end: int, subjects: tuple[str, ...]
) -> list[InputPartition]:
    """Return the partitions of a micro-batch up to ``end``, read with ``subjects`` by default.

    Its filters are those of its first run, regardless of the current options.
    """
    own = None if plan.subjects == subjects else plan.subjects
    return [
        SequencePartition(view.name, part.first, part.end, view.created, own)
        for part in planned_ranges(plan, end, view.bounds)
    ]


class RangeReader:
    """Scans partitions of one read. Pickled to the tasks.

    ``columns`` are the columns of a scan. ``holes_are_losses``: a message missing below the first
    one of the stream may have been removed before it was read; in a bucket, where values replace
    each other, a gap means nothing.
    """

    def __init__(
        self,
        options: SourceOptions,
        columns: tuple[Column, ...],
        *,
        holes_are_losses: bool = True,
    ) -> None:
        self._options = options
        self._columns = columns
        self._holes_are_losses = holes_are_losses

    def chunks(self, partition: InputPartition) -> Iterator[MessageColumns]:
        """Yield the messages of ``partition``. Runs in a task."""
        if self._options.assumed_zone is not None:
            check_zone(self._options.assumed_zone, local_property(ZONE_SETTING))
        if not isinstance(partition, SequencePartition):
            # Spark's placeholder if there are no partitions: InputPartition(None).
            return iter(())
        subjects = self._options.subjects if partition.subjects is None else partition.subjects
        # A scan has one filter after the other: each continues from its own position.
        each: list[tuple[str, ...]] = [(subject,) for subject in subjects]
        return itertools.chain.from_iterable(
            self.filtered_chunks(partition, filters) for filters in each or [()]
        )

    def scan(
        self, stream: sync.Stream, first: int, last: int, filters: Sequence[str] | None = None
    ) -> Iterator[MessageColumns]:
        """Yield the messages of a range, by options and schema."""
        options = self._options
        filters = options.subjects if filters is None else filters
        direct = stream.config.allow_direct
        if options.read_mode is ReadMode.DIRECT and not direct:
            raise PlanningFailed(
                f"stream {stream.name!r} has allow_direct disabled, which readMode direct "
                'requires: enable it, or set option("readMode", "auto")'
            )
        if (
            options.read_mode is ReadMode.CONSUMER
            and stream.config.retention is Retention.WORKQUEUE
        ):
            raise PlanningFailed(
                f"stream {stream.name!r} is a work queue, from which readMode consumer would take "
                'messages away: set option("readMode", "auto"), which asks the leader'
            )
        # On a work queue, a consumer would take messages away: there the leader is asked.
        limits = stream.config.retention is Retention.LIMITS
        through_consumer = not direct and limits and options.read_mode is ReadMode.AUTO
        if options.read_mode is ReadMode.CONSUMER or through_consumer:
            return consumer_scan(stream, first, last, filters, batch=options.batch_size)
        return stream.scan(
            first,
            last,
            filters=filters,
            columns=self._columns,
            batch=options.batch_size,
            max_bytes=options.max_batch_bytes,
        )

    def filtered_chunks(
        self, partition: SequencePartition, filters: Sequence[str]
    ) -> Iterator[MessageColumns]:
        """Yield the messages of ``partition``; an interrupted scan continues where it was."""
        if partition.first >= partition.end:
            return
        options = self._options
        position = partition.first
        missing: int | None = None
        retries = Retries(RETRIES_MAX, outage_s=OUTAGE_S)
        while True:
            try:
                with CONNECTIONS.borrow(options.connection) as client:
                    jetstream = jetstream_of(client, options.connection)
                    stream = jetstream.stream(partition.stream)
                    if not self._is_the_planned(stream, partition, position):
                        return
                    scanned = self.scan(stream, position, partition.end - 1, filters)
                    for chunk in self._of_the_planned(stream, partition, scanned):
                        if filters:
                            self._check_passed(stream, chunk, position)
                        elif missing is None:
                            missing = first_missing(chunk.sequences, position)
                        position = chunk.sequences[-1] + 1
                        retries.restart()
                        yield chunk
                    if missing is None and position < partition.end:
                        missing = position
                    # The last check: rows that were yielded do not count before this task has
                    # ended.
                    stream.info()
                    self._check_unchanged(stream, partition)
                    self._check_still_kept(stream, missing)
            except StreamNotFound:
                self._accept_deleted(partition)
                return
            except Error as error:
                retries.pause(error)
            else:
                return

    def _accept_deleted(self, partition: SequencePartition) -> None:
        """Raise ``DataLoss`` if the deletion of a stream after the planning is a loss."""
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"stream {partition.stream!r} was deleted after the read of its messages "
                f"{partition.first} to {partition.end - 1} was planned. To read what is left of "
                'the others, set option("failOnDataLoss", "false")'
            ) from None

    @property
    def _checks_holes(self) -> bool:
        return self._holes_are_losses and self._options.fail_on_data_loss

    def _check_still_kept(self, stream: sync.Stream, missing: int | None) -> None:
        """Raise ``DataLoss`` if messages were removed between the planning and the read.

        ``missing`` is the first sequence that was not read, ``stream`` has just been refreshed. A
        gap alone is no loss: the message may have been deleted on purpose, or not match the
        filter. But a gap below the first sequence of the stream may have been a message that
        expired unread, and as in Spark's Kafka source a false alarm is better than silent loss.
        """
        if missing is None or not self._checks_holes:
            return
        head = stream.cached_info.state.first_seq
        if head > missing:
            raise DataLoss(
                f"stream {stream.name!r} now starts at {head}, and message {missing} was not "
                "read: it may have been removed since the query was planned. "
                'To continue without such messages, set option("failOnDataLoss", "false"). If the '
                "DataFrame was loaded some time ago, or is the static side of a streaming join: "
                "load it again, call jetspark.spark.refresh on it, or read it with "
                'option("endingOffsets", "open")'
            )

    def _check_passed(self, stream: sync.Stream, chunk: MessageColumns, position: int) -> None:
        """Raise ``DataLoss`` if the gap before a chunk of a filtered read may hide a loss.

        Checked for each chunk, since nearly every filtered read has gaps: at the end of the read
        the stream may have removed, as usual, what precedes them.
        """
        if chunk.sequences[0] > position and self._checks_holes:
            stream.info()
            self._check_still_kept(stream, position)

    def _is_the_planned(
        self, stream: sync.Stream, partition: SequencePartition, position: int
    ) -> bool:
        """Return whether the stream is still the one that the read was planned for.

        If not, the messages of ``partition`` no longer exist: that is a ``StreamRecreated`` loss,
        or with ``failOnDataLoss`` false there is nothing to read.
        """
        if self._options.fail_on_data_loss or position > partition.first:
            self._check_unchanged(stream, partition)
        return partition.created in {"", view_of(stream.cached_info).created}

    def _of_the_planned(
        self,
        stream: sync.Stream,
        partition: SequencePartition,
        chunks: Iterator[MessageColumns],
    ) -> Iterator[MessageColumns]:
        """Yield ``chunks``; a stream that does not reach the end of the range may be a new one."""
        try:
            yield from chunks
        except MinLastSequence:
            stream.info()
            self._check_unchanged(stream, partition)
            raise

    def _check_unchanged(self, stream: sync.Stream, partition: SequencePartition) -> None:
        """Raise ``StreamRecreated`` if the rows read so far may be from two streams."""
        created = view_of(stream.cached_info).created
        if partition.created not in {"", created}:
            raise StreamRecreated(
                f"stream {stream.name!r} was deleted and created again at {created}, after the "
                f"read of the one from {partition.created} was planned: its messages are deleted. "
                "Start a batch read again with a new DataFrame; for a streaming query "
                'option("onRecreate", ...) sets how to continue'
            )


class StreamRows:
    """Reads partitions as rows of a stream. Pickled to the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._headers = options.headers
        self._schema = schema
        self.ranges: RangeReader = RangeReader(options, columns_to_read(schema))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ``partition`` as Arrow batches."""
        return self._encoded(partition, self.ranges.chunks(partition))

    def _encoded(
        self, partition: InputPartition, chunks: Iterator[MessageColumns]
    ) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SequencePartition):
            return
        encoder = BatchEncoder(self._schema, stream=partition.stream, headers=self._headers)
        for chunk in chunks:
            yield encoder.encode(chunk)


def with_retries(connection: Connection, attempt: Callable[[sync.Client], _Result]) -> _Result:
    """Return the result of ``attempt``, retried after transient errors."""

    def once() -> _Result:
        with CONNECTIONS.borrow(connection) as client:
            return attempt(client)

    return Retries(RETRIES_MAX, outage_s=OUTAGE_S).call(once)
