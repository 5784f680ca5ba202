"""One stream of a streaming read: what is unread, how a micro-batch reads it, what is released.

A query has one of these for each stream it reads. It keeps what was learned about the stream while
the query runs; the position is in Spark's checkpoint.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from jetspark import sync
from jetspark.spark.connections import OUTAGE_S
from jetspark.spark.stream.consumer_scan import acknowledge_up_to, acknowledging_consumer
from jetspark.spark.stream.offsets import BatchPlan, Offset, OffsetRefused
from jetspark.spark.stream.options import SourceOptions
from jetspark.spark.stream.planner import (
    DataLoss,
    SequenceRange,
    StreamRecreated,
    Unread,
    check_planned,
    check_position,
    emptied_ranges,
    plan_batch,
)
from jetspark.spark.stream.range_reader import SequencePartition
from jetspark.spark.stream.view import (
    PlanningFailed,
    ServerUnreachable,
    StreamView,
    first_match,
    view_of,
)
from jetspark.sync.retry import Retries

OUTAGE_PAUSE_MAX_S: Final = 2.0

# How often the offset of a read with filters skips messages that match no filter. Each time is an
# empty micro-batch; if it is too rare, messages that expired meanwhile count as unread after a
# restart.
PASS_S: Final = 60.0

# The filter that matches every message.
_ANY: Final = ">"

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
    """One stream of a streaming query: its messages, or the changes of a bucket.

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

    def snapshot(self, first: int) -> BatchPlan | None:
        """Return the plan of a micro-batch that reads everything from ``first``, or None.

        Limits do not apply to it.
        """

    def partitions(self, view: StreamView, plan: BatchPlan, end: int) -> list[InputPartition]:
        """Return the partitions of a micro-batch up to ``end``."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``. Runs in a task."""


class Patience:
    """Waits out an outage of the servers, once the query has reached one of them."""

    def __init__(self) -> None:
        self._reached = False

    def call(self, attempt: Callable[[], _Result]) -> _Result:
        """Return the result of ``attempt``."""
        if not self._reached:
            # A new query fails at once: perhaps the address is wrong.
            result = attempt()
            self._reached = True
            return result
        try:
            retries = Retries(0, outage_s=OUTAGE_S, pause_max_s=OUTAGE_PAUSE_MAX_S)
            return retries.call(attempt, ServerUnreachable)
        except ServerUnreachable as error:
            raise ServerUnreachable(
                f"{error}. The query waited {OUTAGE_S:.0f} seconds: restart it once a server "
                "answers, and it continues from its checkpoint"
            ) from None


class Found(NamedTuple):
    """What a stream has for the next micro-batch."""

    unread: Unread | None = None
    """Messages to read, within the limits."""
    moved: Offset | None = None
    """The new position if nothing of ``unread`` is read; None: it stays."""
    snapshot: Offset | None = None
    """The end of a micro-batch to which no limits apply."""


class FollowedStream:
    """A stream of a query, and what the query has learned about it."""

    def __init__(
        self, source: MicroBatchSource, options: SourceOptions, patience: Patience
    ) -> None:
        self._source = source
        self._options = options
        self._patience = patience
        self._view: StreamView | None = None
        # Where an AvailableNow query ends, once known.
        self._target: Place | None = None
        # No filter matches anything unread up to here.
        self._searched = Place("", 0)
        # The position of the query while no filter matches anything from there to the stream's
        # end.
        self._caught_up: Offset | None = None
        self._moved_at: float | None = None
        self._released = False

    def begin(self) -> Offset:
        """Return where a new query starts."""
        begun = self._patience.call(self._source.begin)
        self._view = begun.view
        return begun.offset

    def join(self) -> Offset:
        """Return where the read of a stream starts that joins a running query: all of it."""
        view = self._look()
        return Offset(max(view.bounds.first_seq, 1), view.created)

    def stop_at_end(self) -> None:
        """Do not read messages stored from now on (AvailableNow)."""
        view = self._look()
        self._target = Place(view.created, view.bounds.last_seq + 1)

    def find_unread(self, checkpointed: Offset) -> Found:
        """Return what a micro-batch after a checkpointed position can read.

        Raises ``StreamMissing`` if the stream was deleted, ``DataLoss`` if messages are missing.
        """
        self._caught_up = None
        view = self._look()
        snapshot = self._source.snapshot(checkpointed.next)
        if snapshot is not None:
            return Found(snapshot=Offset(self._end(view), view.created, snapshot))
        if not self._released and self._options.on_commit:
            self._release_before(view, checkpointed)
        place = self._searched_from(checkpointed)
        first = self._resume(view, place)
        end = self._end(view)
        begin = self._first_to_read(view, SequenceRange(first, end))
        moved = None
        if (first, view.created) != (place.next, place.created):
            # The position changed without a message: a loss was accepted, the stream replaced.
            moved = self._passed(first, view)
        if begin is not None:
            return Found(Unread(begin, end, view.mean_size), moved)
        if self._is_time_to_pass(view, checkpointed.next, end):
            return Found(moved=self._passed(end, view))
        if end > view.bounds.last_seq and moved is None:
            self._caught_up = Offset(checkpointed.next, checkpointed.created)
        return Found(moved=moved)

    def planned(self, whole: SequenceRange, min_partitions: int) -> Offset:
        """Return the end of a micro-batch that reads ``whole``, with how it is read."""
        assert self._view is not None
        return Offset(whole.end, self._view.created, self._new_plan(whole, min_partitions))

    def has_moved(self) -> None:
        """Note that the position of the query has changed."""
        self._moved_at = time.monotonic()

    def latest(self) -> Offset | None:
        """Return the end of the stream: the unread messages before it are the lag.

        With its first message, for the lag of a stream that was created again.

        Messages that match no filter are no lag, so if only such are left it is the position of
        the query, which skips them later.
        """
        if self._view is None:
            return None
        if self._caught_up is not None:
            return self._caught_up
        bounds = self._view.bounds
        end = bounds.last_seq + 1
        return Offset(end, self._view.created, BatchPlan(min(max(bounds.first_seq, 1), end)))

    def partitions(self, start: Offset | None, last: Offset) -> list[InputPartition]:
        """Return the partitions of the micro-batch that ends at ``last``.

        ``start`` is where it starts, for an offset of version 1.
        """
        if last.planned and last.plan is None:
            return []
        view = self._look()
        plan = last.plan or self._plan_of_version_1(start, last)
        if plan.first >= last.next:
            return []
        try:
            if not check_planned(
                view.name, plan, last, view.created, view.bounds, self._options.when_recreated
            ):
                return _emptied(view.name, plan, last.next)
        except DataLoss as loss:
            if not self._accepts(loss):
                raise
        return self._patience.call(lambda: self._source.partitions(view, plan, last.next))

    def partitions_of_deleted(self, last: Offset) -> list[InputPartition]:
        """Return the partitions of the micro-batch that ends at ``last``, all of them empty."""
        return [] if last.plan is None else _emptied(self._options.stream, last.plan, last.next)

    def release(self, reached: Offset) -> None:
        """Remove or acknowledge committed messages (``onCommit``)."""
        self._patience.call(lambda: self._give_back(reached))
        self._released = True

    def _passed(self, seq: int, view: StreamView) -> Offset:
        """Return a position that was reached without a message."""
        return Offset(seq, view.created, subjects=self._options.subjects or None)

    def _release_before(self, view: StreamView, place: Offset) -> None:
        """Release what an earlier run committed: Spark does not report its last micro-batch.

        The position of a query that has not read anything yet does not show what was committed.
        """
        if place.created == view.created:
            self._refuse_other_filters(place)
            first = self._patience.call(self._first_to_give_back)
            if place.filters is not None:
                self.release(place)
            elif place.planned:
                self._refuse_unread(view, first, place.next)
        self._released = True

    def _give_back(self, place: Offset) -> None:
        with self._source.lend() as client:
            stream = self._source.find(client)
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
                f"onCommit={self._options.on_commit}: the query starts at sequence {first} of "
                f"stream {view.name!r}, and its first commit would also remove messages before "
                f"that, starting at {unread}, which it does not read. Set "
                'option("startingOffsets", "earliest"), or purge them first'
            )

    def _look(self) -> StreamView:
        """Request the state of the stream."""
        self._view = self._patience.call(self._ask)
        return self._view

    def _ask(self) -> StreamView:
        with self._source.lend() as client:
            return view_of(self._source.find(client).cached_info)

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
            return self._after_gap(view, whole)
        found = self._patience.call(lambda: self._match(whole, self._options.subjects))
        self._searched = Place(view.created, whole.end if found is None else found)
        return found

    def _after_gap(self, view: StreamView, whole: SequenceRange) -> int:
        """Return the first sequence that has a message, if deletions left many without one.

        Limits count sequences: a query would need an empty micro-batch for every piece of a gap.
        """
        limits = self._options.trigger
        span = view.bounds.last_seq - view.bounds.first_seq + 1
        if limits is None or not limits.are_set or 2 * view.messages >= span:
            return whole.first
        found = self._patience.call(lambda: self._match(whole, (_ANY,)))
        # Without one the gap is read, so that the position does not stay before it.
        return whole.first if found is None else found

    def _match(self, whole: SequenceRange, subjects: Sequence[str]) -> int | None:
        with self._source.lend() as client:
            return first_match(self._source.find(client), subjects, whole)

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

    def _new_plan(self, whole: SequenceRange, min_partitions: int) -> BatchPlan:
        """Plan a micro-batch with the current options."""
        snapshot = self._source.snapshot(whole.first)
        if snapshot is not None:
            return snapshot
        try:
            return plan_batch(
                whole,
                self._options.subjects,
                min_partitions=min_partitions,
                max_records=self._options.max_records_per_partition,
            )
        except ValueError as error:
            raise PlanningFailed(f"{error}, or set maxOffsetsPerTrigger") from None

    def _plan_of_version_1(self, start: Offset | None, last: Offset) -> BatchPlan:
        """Plan a micro-batch started by jetspark 0.1.0 as it did: from start to end."""
        if start is None or (start.planned and self._source.began_at_latest):
            # The checkpoint has no start offset for the first micro-batch of a query, so this one
            # is from `initialOffset`, which has advanced with the stream.
            raise OffsetRefused(
                "jetspark 0.1.0 was interrupted in the first micro-batch of this query and did "
                "not record where it started, which was the end of the stream at that time. Set "
                f'option("startingOffsets", ...) to the sequence it started at (up to '
                f"{last.next}); messages from there to {last.next - 1} are read again"
            )
        whole = SequenceRange(start.next, max(start.next, last.next))
        return self._new_plan(whole, self._options.min_partitions)


def _emptied(stream: str, plan: BatchPlan, end: int) -> list[InputPartition]:
    return [SequencePartition(stream, one.first, one.end) for one in emptied_ranges(plan, end)]


def _shown(subjects: Sequence[str]) -> str:
    return ", ".join(subjects) or "all subjects"
