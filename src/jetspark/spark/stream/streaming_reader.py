"""A streaming read: micro-batches are ranges of sequences; Spark stores the position.

Progress is only in Spark's checkpoint: nothing is stored on the server. The end offset of a
micro-batch describes how it is read (``offsets``), so that a run of it after a restart reads the
same rows in the same partitions. Spark keeps one instance for the whole query in a separate
process, asks it for offsets and partitions, and sends a copy of it to each task.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.spark.connections import CONNECTIONS, OUTAGE_S
from jetspark.spark.same_version import Sealed, reduced
from jetspark.spark.stream.consumer_scan import acknowledge_up_to, acknowledging_consumer
from jetspark.spark.stream.offsets import (
    BatchPlan,
    Offset,
    OffsetRefused,
    decode_offset,
    encode_offset,
)
from jetspark.spark.stream.options import SourceOptions, TriggerLimits
from jetspark.spark.stream.planner import (
    DataLoss,
    SequenceRange,
    StreamRecreated,
    admit,
    check_planned,
    check_position,
    plan_batch,
)
from jetspark.spark.stream.range_reader import StreamRows, planned_partitions
from jetspark.spark.stream.view import (
    PlanningFailed,
    ServerUnreachable,
    StreamView,
    await_sequence,
    find_stream,
    first_match,
    first_since,
    planning,
    view_of,
)
from jetspark.sync.retry import retry_delay

OUTAGE_PAUSE_MAX_S: Final = 2.0

# An idle query asks for the latest offset every 10 ms; answers, and requests to the stream, are
# less frequent. An outdated answer instead would make Spark believe that there is nothing new.
POLL_S: Final = 0.05

# How often the offset of a read with filters skips messages that match no filter. Each time is an
# empty micro-batch; if it is too rare, messages that expired meanwhile count as unread after a
# restart.
PASS_S: Final = 60.0

_Result = TypeVar("_Result")


class Place(NamedTuple):
    """A sequence in one particular stream."""

    created: str
    seq: int


class Beginning(NamedTuple):
    """Where a new query starts, in the stream at that time."""

    view: StreamView
    offset: Offset


class MicroBatchSource(Protocol):
    """The source of a streaming query: a stream, or the changes of a bucket.

    Pickled to the tasks.
    """

    @property
    def expiry_is_loss(self) -> bool:
        """Whether messages that were deleted before they were read are a loss."""

    @property
    def began_at_latest(self) -> bool:
        """Whether a new query starts at the end of the stream."""

    def lend(self) -> AbstractContextManager[sync.Client]:
        """Lend a connection; errors name the source."""

    def find(self, client: sync.Client) -> sync.Stream:
        """Return the stream, with its current state."""

    def begin(self) -> Beginning:
        """Decide where a new query starts."""

    def decode(self, stream: str, offset: dict[str, Any]) -> Offset:
        """Decode an offset of Spark's checkpoint."""

    def snapshot(self, first: int) -> BatchPlan | None:
        """Return the plan of a micro-batch that reads everything from ``first``, or None.

        Limits do not apply to it.
        """

    def partitions(self, view: StreamView, plan: BatchPlan, end: int) -> list[InputPartition]:
        """Return the partitions of a micro-batch up to ``end``."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``. Runs in a task."""


class StreamMessages:
    """The messages of a stream, or those that match its filters."""

    expiry_is_loss = True

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = StreamRows(options, schema)

    @property
    def began_at_latest(self) -> bool:
        """Whether a new query starts at the end of the stream."""
        return self._options.from_latest

    def lend(self) -> AbstractContextManager[sync.Client]:
        """Lend a connection; errors name the stream."""
        return planning(self._options)

    def find(self, client: sync.Client) -> sync.Stream:
        """Return the stream, with its current state."""
        return find_stream(client, self._options)

    def begin(self) -> Beginning:
        """Decide where a new query starts."""
        options = self._options
        with self.lend() as client:
            stream = self.find(client)
            view = view_of(await_sequence(stream, options))
            beyond = view.bounds.last_seq + 1
            earliest = max(view.bounds.first_seq, 1)
            if options.starting_time_ns is not None:
                first = first_since(stream, options.starting_time_ns, view.bounds)
            elif options.from_latest:
                first = beyond
            else:
                first = options.starting_seq or earliest
            if first < beyond:
                # To detect a missing permission before any task has started.
                list(self._rows.ranges.scan(stream, first, first))
        start = Offset(first, view.created)
        try:
            check_position(view.name, start, view.created, view.bounds)
        except DataLoss as loss:
            if options.fail_on_data_loss:
                raise PlanningFailed(f"startingOffsets is {first}, but {loss}") from None
            start = Offset(loss.resume_at, view.created)
        return Beginning(view, start)

    def decode(self, stream: str, offset: dict[str, Any]) -> Offset:
        """Decode an offset of Spark's checkpoint."""
        return decode_offset(stream, offset)

    def snapshot(self, first: int) -> None:
        """A stream has none: the limits apply from its first message."""

    def partitions(self, view: StreamView, plan: BatchPlan, end: int) -> list[InputPartition]:
        """Return the partitions of a micro-batch up to ``end``."""
        return planned_partitions(view, plan, end, self._options.subjects)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ``partition``. Runs in a task."""
        return self._rows.read(partition)


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches of a source as long as the query runs."""

    def __init__(self, options: SourceOptions, source: MicroBatchSource) -> None:
        self._options = options
        self._limits = options.trigger or TriggerLimits()
        self._source = source
        self._view: StreamView | None = None
        self._initial: dict[str, Any] | None = None
        self._idle_until = 0.0
        # Where an AvailableNow query ends, once known.
        self._target: Place | None = None
        # No filter matches anything unread up to here.
        self._searched = Place("", 0)
        # The position of the query while no filter matches anything from there to the stream's
        # end.
        self._caught_up: Offset | None = None
        self._moved_at: float | None = None
        # Since when messages are delayed for minOffsetsPerTrigger.
        self._held_since: float | None = None
        self._released = False

    def __reduce__(self) -> Sealed:
        """Pickle with the driver's version, which the tasks compare with theirs."""
        return reduced(self)

    # The names and arguments below are Spark's.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts.

        Spark asks several times until the first micro-batch is done: the answer stays the same.
        """
        if self._initial is None:
            begun = self._patiently(self._source.begin)
            self._view = begun.view
            self._initial = encode_offset(begun.view.name, begun.offset)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limits; Spark supports one of them, but all apply."""
        if self._limits.max_offsets is not None:
            return ReadMaxRows(self._limits.max_offsets)
        if self._limits.max_bytes is not None:
            return ReadMaxBytes(self._limits.max_bytes)
        if self._limits.min_offsets > 1:
            return ReadMinRows(self._limits.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends, and how it is read.

        Without new messages this is ``start`` itself, in any version: Spark compares offsets as
        text, and a difference is a micro-batch.
        """
        time.sleep(max(0.0, self._idle_until - time.monotonic()))
        self._caught_up = None
        view = self._look()
        checkpointed = self._source.decode(view.name, start)
        snapshot = self._source.snapshot(checkpointed.next)
        if snapshot is not None:
            return self._moved(view, Offset(self._end(view), view.created, snapshot))
        if not self._released and self._options.on_commit:
            self._release_before(view, checkpointed, start)
        place = self._searched_from(checkpointed)
        first = self._resume(view, place)
        end = self._end(view)
        begin = self._first_to_read(view, SequenceRange(first, end))
        if begin is not None:
            admitted = self._admitted(view, SequenceRange(begin, end), limit)
            if admitted > begin:
                self._held_since = None
                plan = self._new_plan(SequenceRange(begin, admitted))
                return self._moved(view, Offset(admitted, view.created, plan))
        elif self._is_time_to_pass(view, checkpointed.next, end):
            return self._moved(view, self._passed(end, view))
        elif end > view.bounds.last_seq:
            self._caught_up = Offset(checkpointed.next, checkpointed.created)
        if self._target is None:
            self._idle_until = time.monotonic() + POLL_S
        if (first, view.created) != (place.next, place.created):
            # The position changed without a message: a loss was accepted, the stream replaced.
            self._caught_up = None
            return self._moved(view, self._passed(first, view))
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of the stream: the unread messages before it are the lag.

        Messages that match no filter are no lag, so if only such are left it is the position of
        the query, which skips them later.
        """
        view = self._view
        if view is None:
            return None
        end = Offset(view.bounds.last_seq + 1, view.created)
        return encode_offset(view.name, self._caught_up or end)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the end of the query: messages stored from now on are not read."""
        view = self._look()
        self._target = Place(view.created, view.bounds.last_seq + 1)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of the micro-batch that ends at ``end``, from its offset.

        With equal ``start`` and ``end``, as at a restart, there are none.
        """
        if start == end:
            return []
        view = self._look()
        last = self._source.decode(view.name, end)
        plan = last.plan if last.planned else self._plan_of_version_1(view, start, last)
        if plan is None or plan.first >= last.next:
            return []
        try:
            if not check_planned(
                view.name, plan, last, view.created, view.bounds, self._options.when_recreated
            ):
                return []
        except DataLoss as loss:
            if not self._accepts(loss):
                raise
        return self._patiently(lambda: self._source.partitions(view, plan, last.next))

    def commit(self, end: dict[str, Any]) -> None:
        """Remove or acknowledge committed messages, if requested (``onCommit``)."""
        if self._options.on_commit:
            self._release(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition`` as Arrow batches. Runs in a task."""
        return self._source.read(partition)

    def stop(self) -> None:
        """The query ended: nothing is left on the server; close connections."""
        CONNECTIONS.close()

    def _passed(self, seq: int, view: StreamView) -> Offset:
        """Return a position that was reached without a message."""
        return Offset(seq, view.created, subjects=self._options.subjects or None)

    def _release_before(self, view: StreamView, place: Offset, start: dict[str, Any]) -> None:
        """Release what an earlier run committed: Spark does not report its last micro-batch.

        A position that is not the end of a micro-batch does not show what was committed.
        """
        if place.created == view.created:
            self._refuse_other_filters(place)
            first = self._patiently(self._first_to_give_back)
            if place.plan is not None:
                self._release(start)
            elif place.filters is None and place.planned:
                self._refuse_unread(view, first, place.next)
        self._released = True

    def _release(self, end: dict[str, Any]) -> None:
        self._patiently(lambda: self._give_back(end))
        self._released = True

    def _give_back(self, end: dict[str, Any]) -> None:
        with self._source.lend() as client:
            stream = self._source.find(client)
            place = decode_offset(stream.name, end)
            if place.created != view_of(stream.cached_info).created:
                return  # created again: another stream's sequences; `_resume` reports it
            durable = self._options.on_commit.removeprefix("ack:")
            if durable != "purge":
                acknowledge_up_to(stream, durable, place.next, self._options.subjects)
            elif place.next > 1:
                for subject in self._options.subjects or ("",):
                    stream.purge(subject=subject, seq=place.next)

    def _refuse_other_filters(self, place: Offset) -> None:
        """Refuse to release by one filter what was read with another.

        A purge removes everything of a filter up to a sequence: messages before this position that
        match only the new filter were never read.
        """
        before, now = place.filters, self._options.subjects
        if before is None or set(before) == set(now):
            return
        raise PlanningFailed(
            f"onCommit={self._options.on_commit}: this query has read {_shown(before)} so far, "
            f"but now its subject is {_shown(now)}, and messages that match only the new filter "
            "would be removed unread. Restore the old subject, or leave out onCommit, or start "
            "with a new checkpointLocation and startingOffsets=earliest"
        )

    def _first_to_give_back(self) -> int:
        """Return the lowest sequence that a commit could release; raises if there is none."""
        durable = self._options.on_commit.removeprefix("ack:")
        if durable == "purge":
            return 1
        with self._source.lend() as client:
            stream = self._source.find(client)
            consumer = acknowledging_consumer(stream, durable, self._options.subjects)
        return consumer.cached_info.ack_floor.stream_seq + 1

    def _refuse_unread(self, view: StreamView, lowest: int, first: int) -> None:
        """Refuse a start after messages that a commit would remove unread."""
        earliest = max(view.bounds.first_seq, lowest)
        unread = self._first_to_read(view, SequenceRange(earliest, first))
        self._searched = Place("", 0)
        if unread is not None and view.bounds.last_seq >= unread:
            raise PlanningFailed(
                f"onCommit={self._options.on_commit}: the query starts at sequence {first}, and "
                f"its first commit would also remove messages before that, starting at {unread}, "
                'which it does not read. Set option("startingOffsets", "earliest"), or purge '
                "them first"
            )

    def _look(self) -> StreamView:
        """Request the state of the stream."""
        self._view = self._patiently(self._ask)
        return self._view

    def _ask(self) -> StreamView:
        with self._source.lend() as client:
            return view_of(self._source.find(client).cached_info)

    def _patiently(self, attempt: Callable[[], _Result]) -> _Result:
        """Return the result of ``attempt``; once the query runs, an outage is waited out."""
        deadline = time.monotonic() + OUTAGE_S
        failures = 0
        while True:
            try:
                return attempt()
            except ServerUnreachable as error:
                failures += 1
                # A new query fails at once: perhaps the address is wrong.
                if self._view is None:
                    raise
                if time.monotonic() >= deadline:
                    raise ServerUnreachable(
                        f"{error}. The query waited {OUTAGE_S:.0f} seconds: restart it once "
                        "a server answers, and it continues from its checkpoint"
                    ) from None
                time.sleep(min(retry_delay(failures), OUTAGE_PAUSE_MAX_S))

    def _searched_from(self, place: Offset) -> Offset:
        """Return the position without what is known to contain nothing for the filters.

        Other messages that expire before the offset skips them are then no loss.
        """
        if place.created != self._searched.created or place.next >= self._searched.seq:
            return place
        return Offset(self._searched.seq, place.created)

    def _resume(self, view: StreamView, place: Offset) -> int:
        """Return the sequence to continue at; raises ``DataLoss`` unless it is accepted."""
        try:
            return check_position(
                view.name, place, view.created, view.bounds, self._options.when_recreated
            )
        except DataLoss as loss:
            if not self._accepts(loss):
                raise
            return loss.resume_at

    def _accepts(self, loss: DataLoss) -> bool:
        if loss.expired and not self._source.expiry_is_loss:
            return True
        return not (self._options.fail_on_data_loss or isinstance(loss, StreamRecreated))

    def _end(self, view: StreamView) -> int:
        """Return the end of the stream for this query."""
        beyond = view.bounds.last_seq + 1
        if self._target is None:
            return beyond
        if self._target.created != view.created:
            self._target = Place(view.created, beyond)
        return min(beyond, self._target.seq)

    def _first_to_read(self, view: StreamView, whole: SequenceRange) -> int | None:
        """Return the first sequence of a range that matches, or None.

        With filters the server is asked, but only about messages stored since the last request.
        """
        if whole.first >= whole.end:
            return None
        if not self._options.subjects:
            return whole.first
        found = self._patiently(lambda: self._match(whole))
        self._searched = Place(view.created, whole.end if found is None else found)
        return found

    def _match(self, whole: SequenceRange) -> int | None:
        with self._source.lend() as client:
            return first_match(self._source.find(client), self._options.subjects, whole)

    def _admitted(self, view: StreamView, whole: SequenceRange, limit: ReadLimit) -> int:
        """Return the end of a micro-batch that could read all of ``whole``."""
        if isinstance(limit, ReadAllAvailable):
            return whole.end
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        return admit(
            whole.first,
            whole.end,
            self._limits,
            mean_size=view.mean_size,
            waited_s=None if self._target is not None else now - self._held_since,
        )

    def _is_time_to_pass(self, view: StreamView, checkpointed: int, end: int) -> bool:
        """Return whether the offset should skip messages that match no filter.

        Periodically, before the checkpointed position expires, and at the end of an AvailableNow
        run, as the next run may come later than that.
        """
        if not self._options.subjects or end <= checkpointed:
            return False
        now = time.monotonic()
        if self._moved_at is None:
            self._moved_at = now
        return (
            self._target is not None
            or checkpointed < view.bounds.first_seq
            or now - self._moved_at >= PASS_S
        )

    def _moved(self, view: StreamView, offset: Offset) -> dict[str, Any]:
        self._moved_at = time.monotonic()
        return encode_offset(view.name, offset)

    def _new_plan(self, whole: SequenceRange) -> BatchPlan:
        """Plan a micro-batch with the current options."""
        snapshot = self._source.snapshot(whole.first)
        if snapshot is not None:
            return snapshot
        try:
            return plan_batch(
                whole,
                self._options.subjects,
                min_partitions=self._options.min_partitions,
                max_records=self._options.max_records_per_partition,
            )
        except ValueError as error:
            raise PlanningFailed(f"{error}, or set maxOffsetsPerTrigger") from None

    def _plan_of_version_1(
        self, view: StreamView, start: dict[str, Any], last: Offset
    ) -> BatchPlan:
        """Plan a micro-batch started by jetspark 0.1.0 as it did: from start to end."""
        begin = self._source.decode(view.name, start)
        if begin.planned and self._source.began_at_latest:
            # The checkpoint has no start offset for the first micro-batch of a query, so this one
            # is from `initialOffset`, which has advanced with the stream.
            raise OffsetRefused(
                "jetspark 0.1.0 was interrupted in the first micro-batch of this query and did "
                "jetspark 0.1.0 was interrupted in the first micro-batch of this query and did "
                "not record where it started, which was the end of the stream at that time. Set "
                f'option("startingOffsets", ...) to the sequence it started at (up to '
                f"{last.next}); messages from there to {last.next - 1} are read again"
            )
        return self._new_plan(SequenceRange(begin.next, max(begin.next, last.next)))


def _shown(subjects: Sequence[str]) -> str:
    return ", ".join(subjects) or "all subjects"
