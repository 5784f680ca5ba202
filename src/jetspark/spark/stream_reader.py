"""A streaming read: micro-batches are ranges of sequences; Spark keeps where it is (spark.md 6.2).

Progress is only in Spark's checkpoint: the server is told nothing, and a batch that Spark runs
again reads the same range again. Spark keeps one instance for the whole query in a process of its
own, asks it for offsets and partitions, and sends a copy of it to each task.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

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

from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.consumer_scan import acknowledge_up_to
from jetspark.spark.offsets import Offset, decode_offset, encode_offset
from jetspark.spark.options import SourceOptions, TriggerLimits
from jetspark.spark.planner import (
    DataLoss,
    SequenceRange,
    admit,
    check_position,
    plan_partitions,
)
from jetspark.spark.range_reader import RangeReader, SequencePartition, retry_delay
from jetspark.spark.stream_view import (
    PlanningFailed,
    ServerUnreachable,
    StreamView,
    await_sequence,
    find_stream,
    first_since,
    planning,
    view_of,
)

# A query that has been running waits so long for a server that does not answer: it restarts, or a
# cluster elects a leader. Then the query fails, and Spark's checkpoint knows where it was.
OUTAGE_S: Final = 60.0
OUTAGE_PAUSE_MAX_S: Final = 2.0

# An idle query asks for the latest offset every 10 ms; it is answered, and the stream asked, less
# often. An old answer instead would make Spark believe that there is nothing new.
POLL_S: Final = 0.05


_Result = TypeVar("_Result")


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream for as long as the query runs."""

    def __init__(
        self, options: SourceOptions, schema: StructType, ranges: RangeReader | None = None
    ) -> None:
        self._options = options
        self._limits = options.trigger or TriggerLimits()
        self._ranges = ranges or RangeReader(options, schema)
        self._view: StreamView | None = None
        self._idle_until = 0.0
        # Where an AvailableNow query ends, once it is known.
        self._target: int | None = None
        # Since when messages are held back for minOffsetsPerTrigger.
        self._held_since: float | None = None
        self._released = False

    # The names and arguments below are Spark's.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins."""
        options = self._options
        with planning(options) as client:
            stream = find_stream(client, options)
            view = self._view = view_of(await_sequence(stream, options))
            beyond = view.bounds.last_seq + 1
            earliest = max(view.bounds.first_seq, 1)
            if options.starting_time_ns is not None:
                first = first_since(stream, options.starting_time_ns, view.bounds)
            elif options.from_latest:
                first = beyond
            else:
                first = options.starting_seq or earliest
            if first < beyond:
                # So that a missing permission to read is found out before any task has started.
                list(self._ranges.scan(stream, first, first))
        start = Offset(first, view.created)
        try:
            check_position(view.name, start, view.created, view.bounds)
        except DataLoss as loss:
            if options.fail_on_data_loss:
                raise PlanningFailed(f"startingOffsets is {first}, but {loss}") from None
            start = Offset(loss.resume_at, view.created)
        return encode_offset(view.name, start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tell Spark of the limits; it takes one, the others hold all the same."""
        if self._limits.max_offsets is not None:
            return ReadMaxRows(self._limits.max_offsets)
        if self._limits.max_bytes is not None:
            return ReadMaxBytes(self._limits.max_bytes)
        if self._limits.min_offsets > 1:
            return ReadMinRows(self._limits.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends."""
        time.sleep(max(0.0, self._idle_until - time.monotonic()))
        if not self._released and self._options.on_commit:
            # Spark does not tell of the last batch of an AvailableNow run (spark.md 1.1): what
            # lies before the start is committed.
            self._release(start)
        view = self._look()
        first = self._resume(view, start)
        end = view.bounds.last_seq + 1
        if end <= first and self._target is None:
            self._idle_until = time.monotonic() + POLL_S
        if self._target is not None:
            end = min(end, self._target)
        if not isinstance(limit, ReadAllAvailable):
            end = admit(
                first,
                end,
                self._limits,
                mean_size=view.mean_size,
                waited_s=self._waited(first, end),
            )
        if end > first:
            self._held_since = None
        return encode_offset(view.name, Offset(max(first, end), view.created))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of the stream: what lies before it and was not read yet is the lag."""
        view = self._view
        if view is None:
            return None
        return encode_offset(view.name, Offset(view.bounds.last_seq + 1, view.created))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query: what comes from now on is not read."""
        self._target = self._look().bounds.last_seq + 1

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Split what lies between two offsets."""
        view = self._look()
        last = decode_offset(view.name, end)
        first = self._resume(view, start)
        parts = plan_partitions(
            SequenceRange(first, last.next),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [SequencePartition(view.name, part.first, part.end) for part in parts]

    def commit(self, end: dict[str, Any]) -> None:
        """Give back what was committed, if that was asked for (``onCommit``)."""
        if self._options.on_commit:
            self._release(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ``partition`` as Arrow batches. Runs in a task."""
        return self._ranges.read(partition)

    def stop(self) -> None:
        """The query ended: nothing is left on the server, only connections to close."""
        CONNECTIONS.close()

    def _release(self, end: dict[str, Any]) -> None:
        self._patiently(lambda: self._give_back(end))
        self._released = True

    def _give_back(self, end: dict[str, Any]) -> None:
        with planning(self._options) as client:
            stream = find_stream(client, self._options)
            place = decode_offset(stream.name, end)
            if place.created != view_of(stream.cached_info).created:
                return  # made anew: these numbers are of another stream, as `_resume` will say
            durable = self._options.on_commit.removeprefix("ack:")
            if durable != "purge":
                acknowledge_up_to(stream, durable, place.next)
            elif place.next > 1:
                for subject in self._options.subjects or ("",):
                    stream.purge(subject=subject, seq=place.next)

    def _look(self) -> StreamView:
        """Ask the server for the stream."""
        self._view = self._patiently(self._ask)
        return self._view

    def _ask(self) -> StreamView:
        with planning(self._options) as client:
            return view_of(find_stream(client, self._options).cached_info)

    def _patiently(self, attempt: Callable[[], _Result]) -> _Result:
        """Return what ``attempt`` returns; once the query runs, an outage is waited out."""
        deadline = time.monotonic() + OUTAGE_S
        failures = 0
        while True:
            try:
                return attempt()
            except ServerUnreachable:
                failures += 1
                # A new query is told at once: perhaps the address is wrong.
                if self._view is None or time.monotonic() >= deadline:
                    raise
                time.sleep(min(retry_delay(failures), OUTAGE_PAUSE_MAX_S))

    def _resume(self, view: StreamView, start: dict[str, Any]) -> int:
        """Return the sequence to go on from; raises ``DataLoss`` unless losses are accepted."""
        place = decode_offset(view.name, start)
        try:
            return check_position(view.name, place, view.created, view.bounds)
        except DataLoss as loss:
            if self._options.fail_on_data_loss:
                raise
            return loss.resume_at

    def _waited(self, first: int, end: int) -> float | None:
        """How long messages have been held back; None when none may be."""
        if self._target is not None:
            return None
        now = time.monotonic()
        if end <= first:
            return 0.0
        if self._held_since is None:
            self._held_since = now
        return now - self._held_since
