"""A streaming read: micro-batches are ranges of sequences; Spark stores the position.

Progress is in Spark's checkpoint; nothing on the server is needed to continue. The end offset of a
micro-batch describes how it is read (``offsets``), so that a run of it after a restart reads the
same rows in the same partitions. Spark keeps one instance for the whole query in a separate
process, asks it for offsets and partitions, and sends a copy of it to each task.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import msgspec
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
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.same_version import Sealed, reduced
from jetspark.spark.stream.followed_stream import (
    Beginning,
    FollowedStream,
    Found,
    MicroBatchSource,
    Patience,
)
from jetspark.spark.stream.offsets import (
    BatchPlan,
    Offset,
    decode_offsets,
    encode_offsets,
    of_another_read,
)
from jetspark.spark.stream.options import OnRecreate, SourceOptions, TriggerLimits
from jetspark.spark.stream.planner import (
    DataLoss,
    SequenceRange,
    Unread,
    admit,
    plan_range,
    share,
)
from jetspark.spark.stream.position_consumer import PositionConsumers
from jetspark.spark.stream.range_reader import StreamRows, planned_partitions
from jetspark.spark.stream.view import (
    PlanningFailed,
    StreamMissing,
    StreamView,
    await_sequence,
    find_stream,
    first_since,
    is_selected,
    planning,
    refuse_foreign_filters,
    stream_names,
    view_of,
)

# An idle query asks for the latest offset every 10 ms; answers, and requests to the streams, are
# less frequent. An outdated answer instead would make Spark believe that there is nothing new.
POLL_S: Final = 0.05
# With many streams a look at all of them takes longer: for this many times as long, but not for
# very long, nothing is asked.
IDLE_FACTOR: Final = 4.0
IDLE_MAX_S: Final = 1.0

# How often a query with a pattern looks for new streams.
DISCOVERY_S: Final = 1.0


class StreamSet(Protocol):
    """The streams of a query. Pickled to the tasks."""

    @property
    def lowest(self) -> int:
        """The smallest valid sequence in an offset."""

    def names(self) -> list[str]:
        """Return the streams to read now."""

    def selects(self, name: str) -> bool:
        """Whether a stream of this name is to be read, if it exists."""

    def source(self, name: str) -> MicroBatchSource:
        """Return one of the streams."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``. Runs in a task."""


class StreamMessages:
    """The messages of a stream, or those that match its filters."""

    expiry_is_loss = True

    def __init__(self, options: SourceOptions, schema: StructType, *, alone: bool) -> None:
        self._options = options
        self._rows = StreamRows(options, schema)
        # Filters of a read of several streams need not match in each.
        self._alone = alone

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
            if self._alone:
                refuse_foreign_filters(stream, options.subjects)
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
        asked = msgspec.structs.replace(options, starting_seq=first, ending_seq=None)
        try:
            first = plan_range(asked, view.bounds).first
        except DataLoss as loss:
            raise PlanningFailed(str(loss)) from None
        return Beginning(view, Offset(first, view.created))

    def snapshot(self, first: int) -> None:
        """A stream has none: the limits apply from its first message."""

    def partitions(self, view: StreamView, plan: BatchPlan, end: int) -> list[InputPartition]:
        """Return the partitions of a micro-batch up to ``end``."""
        return planned_partitions(view, plan, end, self._options.subjects)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ``partition``. Runs in a task."""
        return self._rows.read(partition)


class SelectedStreams:
    """The streams that the options of a read select."""

    lowest = 1

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._rows = StreamRows(options, schema)

    def names(self) -> list[str]:
        """Return the streams to read now."""
        return stream_names(self._options)

    def selects(self, name: str) -> bool:
        """Whether a stream of this name is to be read, if it exists."""
        return is_selected(self._options, name)

    def source(self, name: str) -> MicroBatchSource:
        """Return one of the streams."""
        return StreamMessages(
            self._options.for_stream(name), self._schema, alone=not self._options.reads_several
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ``partition``. Runs in a task."""
        return self._rows.read(partition)


class OneStream:
    """A read of one stream that is known already: the changes of a bucket."""

    def __init__(self, source: MicroBatchSource, name: str, lowest: int) -> None:
        self._source = source
        self._name = name
        self.lowest = lowest

    def names(self) -> list[str]:
        """Return the stream."""
        return [self._name]

    def selects(self, name: str) -> bool:
        """Whether a stream of this name is to be read."""
        return name == self._name

    def source(self, name: str) -> MicroBatchSource:  # noqa: ARG002
        """Return the stream."""
        return self._source

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``. Runs in a task."""
        return self._source.read(partition)


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches of one or several streams as long as the query runs."""

    def __init__(self, options: SourceOptions, streams: StreamSet) -> None:
        self._options = options
        self._limits = options.trigger or TriggerLimits()
        self._streams = streams
        self._patience = Patience()
        self._followed: dict[str, FollowedStream] = {}
        self._positions = PositionConsumers(options) if options.progress_consumer else None
        self._initial: dict[str, Any] | None = None
        self._idle_until = 0.0
        # The streams of the query when it last looked for them; of an AvailableNow query for good.
        self._names: list[str] = []
        self._discover_at = 0.0
        self._ends_now = False
        # Since when messages are delayed for minOffsetsPerTrigger.
        self._held_since: float | None = None
        # Counts micro-batches, so that streams take turns if the limits are very low.
        self._turn = 0

    def __reduce__(self) -> Sealed:
        """Pickle with the driver's version, which the tasks compare with theirs."""
        return reduced(self)

    # The names and arguments below are Spark's.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts.

        Spark asks several times until the first micro-batch is done: the answer stays the same.
        """
        if self._initial is None:
            names = self._current_names()
            self._refuse_absent(names)
            begun = {name: self._follow(name).begin() for name in names}
            self._initial = encode_offsets(begun)
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
        began = time.monotonic()
        places = decode_offsets(start, lowest=self._streams.lowest)
        names = self._current_names()
        self._refuse_other_streams(places, names)
        if self._positions is not None:
            # Spark has committed everything before ``start``.
            self._positions.show(places)
        kept, found = self._look_at(places, names)
        ends = self._next_ends(found, limit)
        if kept == places and not ends:
            if not self._ends_now:
                now = time.monotonic()
                self._idle_until = now + min(max(POLL_S, IDLE_FACTOR * (now - began)), IDLE_MAX_S)
            return start
        for name in ends:
            self._follow(name).has_moved()
        return encode_offsets({name: place.reached() for name, place in kept.items()} | ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the streams: the unread messages before them are the lag."""
        latest = {name: followed.latest() for name, followed in self._followed.items()}
        known = {name: offset for name, offset in latest.items() if offset is not None}
        return encode_offsets(known) if known else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the end of the query: messages and streams stored from now on are not read."""
        for name in self._current_names():
            try:
                self._follow(name).stop_at_end()
            except StreamMissing:
                if not self._options.reads_several:
                    raise
        self._ends_now = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of the micro-batch that ends at ``end``, from its offset.

        With equal ``start`` and ``end``, as at a restart, there are none.
        """
        if start == end:
            return []
        first = decode_offsets(start, lowest=self._streams.lowest)
        last = decode_offsets(end, lowest=self._streams.lowest)
        self._refuse_other_streams(last, self._current_names())
        made: list[InputPartition] = []
        for name in sorted(last):
            made += self._partitions_of(name, first.get(name), last[name])
        return made

    def commit(self, end: dict[str, Any]) -> None:
        """Remove or acknowledge committed messages, if requested (``onCommit``)."""
        if not self._options.on_commit:
            return
        for name, reached in decode_offsets(end, lowest=self._streams.lowest).items():
            if not self._streams.selects(name):
                continue
            try:
                self._follow(name).release(reached)
            except StreamMissing:
                # There is nothing to release; the next micro-batch decides what this means.
                continue

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition`` as Arrow batches. Runs in a task."""
        return self._streams.read(partition)

    def stop(self) -> None:
        """The query ended: close connections."""
        CONNECTIONS.close()

    def _current_names(self) -> list[str]:
        """Return the streams of the query; a pattern looks for new ones from time to time."""
        if self._options.stream or self._options.streams:
            # No server has been asked: a new query does not wait for one yet.
            return self._streams.names()
        now = time.monotonic()
        if not self._ends_now and now >= self._discover_at:
            self._names = self._patience.call(self._streams.names)
            # A read by subject looks for its stream each time.
            self._discover_at = now + (DISCOVERY_S if self._options.stream_pattern else 0.0)
        return self._names

    def _follow(self, name: str) -> FollowedStream:
        if name not in self._followed:
            self._followed[name] = FollowedStream(
                self._streams.source(name), self._options.for_stream(name), self._patience
            )
        return self._followed[name]

    def _refuse_absent(self, names: list[str]) -> None:
        """Refuse a start in a stream that the pattern does not find."""
        given = self._options.starts.keys() | self._options.min_last_seqs.keys()
        absent = sorted(given - {*names})
        if absent:
            raise PlanningFailed(
                f"the options give a start, or a sequence to wait for, in {', '.join(absent)}, "
                "which does not exist: create it, or leave it out"
            )

    def _refuse_other_streams(self, places: Mapping[str, Offset], names: list[str]) -> None:
        """Refuse a checkpoint with none of the streams of this query."""
        if places and not any(self._is_own(name, names) for name in places):
            raise of_another_read(places, ", ".join(map(repr, names)) or "other streams")

    def _is_own(self, name: str, names: list[str]) -> bool:
        """Return whether a stream of the checkpoint is selected; it may have been deleted."""
        return name in names or (self._options.reads_several and self._streams.selects(name))

    def _look_at(
        self, places: Mapping[str, Offset], names: list[str]
    ) -> tuple[dict[str, Offset], dict[str, Found]]:
        """Return the positions to keep, and what is new in each stream."""
        kept = dict(places)
        found: dict[str, Found] = {}
        for name in sorted({*names, *places}):
            if not self._is_own(name, names):
                continue  # No longer selected: its position stays, in case it is selected again.
            try:
                if name not in places:
                    kept[name] = self._follow(name).join()
                found[name] = self._follow(name).find_unread(kept[name])
            except StreamMissing as missing:
                self._accept_deleted(name, places.get(name), missing)
                if self._options.when_recreated is OnRecreate.EARLIEST:
                    # If it is created again, it is a new stream.
                    kept.pop(name, None)
        return kept, found

    def _accept_deleted(self, name: str, place: Offset | None, missing: StreamMissing) -> None:
        """Raise if the deletion of a stream is a loss."""
        given = place is None and self._options.streams and self._options.fail_on_data_loss
        if given or not self._options.reads_several:
            raise missing
        # To follow it again would start with what is known about the deleted one.
        self._followed.pop(name, None)
        if place is not None and self._options.fail_on_data_loss:
            raise DataLoss(
                f"stream {name!r} was deleted; the query has read it up to {place.next - 1}. To "
                'continue without it, set option("failOnDataLoss", "false"), or change '
                "streams or streamPattern so that it is not selected"
            )

    def _next_ends(self, found: Mapping[str, Found], limit: ReadLimit) -> dict[str, Offset]:
        """Return the new ends of streams that have moved, or of which something is read."""
        ends = {name: each.moved for name, each in found.items() if each.moved is not None}
        unread = {name: each.unread for name, each in found.items() if each.unread is not None}
        planned = self._planned(unread, limit)
        if planned:
            self._held_since = None
            self._turn += 1
        snapshots = {
            name: each.snapshot for name, each in found.items() if each.snapshot is not None
        }
        return ends | planned | snapshots

    def _planned(self, unread: Mapping[str, Unread], limit: ReadLimit) -> dict[str, Offset]:
        if not unread:
            return {}
        ends = [each.end for each in unread.values()]
        if not isinstance(limit, ReadAllAvailable):
            now = time.monotonic()
            if self._held_since is None:
                self._held_since = now
            ends = admit(
                [*unread.values()],
                self._limits,
                waited_s=None if self._ends_now else now - self._held_since,
                turn=self._turn,
            )
        ranges = {
            name: SequenceRange(each.first, end)
            for (name, each), end in zip(unread.items(), ends, strict=True)
            if end > each.first
        }
        lengths = [whole.end - whole.first for whole in ranges.values()]
        parts = share(self._options.min_partitions, lengths)
        return {
            name: self._follow(name).planned(whole, max(1, count))
            for (name, whole), count in zip(ranges.items(), parts, strict=True)
        }

    def _partitions_of(
        self, name: str, start: Offset | None, last: Offset
    ) -> list[InputPartition]:
        try:
            return self._follow(name).partitions(start, last)
        except StreamMissing:
            if not self._options.reads_several and self._streams.selects(name):
                raise
            if self._options.fail_on_data_loss:
                raise DataLoss(
                    f"stream {name!r} was deleted: the messages of it that belong to the "
                    f"micro-batch, up to {last.next - 1}, are lost. To continue without them, "
                    'set option("failOnDataLoss", "false")'
                ) from None
            return self._follow(name).partitions_of_deleted(last)
