"""A batch read: the driver plans ranges of sequences, each task scans one of them."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.errors import BucketNotFound
from jetspark.spark.connections import jetstream_of
from jetspark.spark.same_version import Sealed, reduced
from jetspark.spark.stream.options import FORMAT_NAME, ReadMode, SourceOptions
from jetspark.spark.stream.planner import SequenceRange, plan_partitions, plan_range, share
from jetspark.spark.stream.range_reader import SequencePartition, StreamRows, with_retries
from jetspark.spark.stream.sink.ledger import read_entry
from jetspark.spark.stream.splitting import SPAN_MIN, count_points, plan_by_count, probe_places
from jetspark.spark.stream.view import (
    PlanningFailed,
    await_sequence,
    find_stream,
    first_match,
    first_since,
    planning,
    refuse_foreign_filters,
    stream_names,
    view_of,
)


class OpenPartition(InputPartition):
    """A range of a read with ``endingOffsets`` open; its task determines the end."""

    def __init__(self, stream: str, first: int, end: int | None) -> None:
        super().__init__(first)
        self.stream = stream
        self.first = first
        self.end = end
        """The first sequence not to read; None: the end of the stream."""


class _PlannedStream(NamedTuple):
    """A stream of a batch read, and the sequences to read."""

    options: SourceOptions
    whole: SequenceRange
    created: str

    @property
    def length(self) -> int:
        """The number of sequences."""
        return self.whole.end - self.whole.first


class JetStreamBatchReader(DataSourceReader):
    """Reads a stream, or the filtered part of it, once. Pickled to the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = StreamRows(options, schema)

    def __reduce__(self) -> Sealed:
        """Pickle with the driver's version, which the tasks compare with theirs."""
        return reduced(self)

    def partitions(self) -> list[InputPartition]:
        """Determine the range of the stream and split it. Runs on the driver.

        Raises ``PlanningFailed`` if the stream cannot be read with these options, ``DataLoss`` if
        a sequence given by number no longer exists.
        """
        options = self._options
        names = stream_names(options)
        self._refuse_absent(names)
        planned = [self._plan_stream(name) for name in names]
        shares = share(options.min_partitions, [one.length for one in planned])
        made: list[InputPartition] = []
        for one, least in zip(planned, shares, strict=True):
            made += self._partitions_of(one, max(1, least))
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ``partition`` as Arrow batches. Runs in a task."""
        if isinstance(partition, OpenPartition):
            partition = self._closed(partition)
        return self._rows.read(partition)

    def _refuse_absent(self, names: list[str]) -> None:
        """Refuse a pattern that matches nothing, and offsets of streams that do not exist."""
        options = self._options
        if not names:
            raise PlanningFailed(
                f"format {FORMAT_NAME!r}: no stream on {options.connection.display_servers} "
                f"matches streamPattern {options.stream_pattern!r} (it must match the whole name; "
                "streams of buckets only match a pattern that starts with KV_ or OBJ_)"
            )
        given = options.starts.keys() | options.ends.keys() | options.min_last_seqs.keys()
        absent = sorted(given - {*names})
        if absent:
            raise PlanningFailed(
                f"format {FORMAT_NAME!r}: the options have offsets of {', '.join(absent)}, which "
                f"does not exist on {options.connection.display_servers}"
            )

    def _plan_stream(self, name: str) -> "_PlannedStream":
        options = self._options.for_stream(name)
        with planning(options) as client:
            stream = find_stream(client, options)
            whole = self._plan(client, stream, options)
            return _PlannedStream(options, whole, view_of(stream.cached_info).created)

    def _partitions_of(self, planned: "_PlannedStream", least: int) -> list[InputPartition]:
        options, whole, created = planned
        with planning(options) as client:
            parts = self._split(find_stream(client, options), options, whole, least)
        if options.open_ended:
            return self._open_partitions(options, parts or [whole])
        return [SequencePartition(options.stream, part.first, part.end, created) for part in parts]

    def _open_partitions(
        self, options: SourceOptions, parts: list[SequenceRange]
    ) -> list[InputPartition]:
        """Let the last partition grow with the stream, and the first shrink with it."""
        # The plan starts within the current stream, but an open read starts at its option: a
        # stream may reach that place later, or be created again and start before it.
        stream, asked = options.stream, options.starting_seq or 1
        return [
            OpenPartition(
                stream,
                asked if place == 0 else part.first,
                None if place == len(parts) - 1 else part.end,
            )
            for place, part in enumerate(parts)
        ]

    def _closed(self, partition: OpenPartition) -> SequencePartition:
        """Return the current range of ``partition``."""
        options = self._options.for_stream(partition.stream)
        connection, since = options.connection, options.starting_time_ns

        def look(client: sync.Client) -> SequencePartition:
            stream = jetstream_of(client, connection).stream(partition.stream)
            view = view_of(stream.cached_info)
            end = view.bounds.last_seq + 1
            if partition.end is not None:
                end = min(end, partition.end)
            first = max(partition.first, view.bounds.first_seq, 1)
            if since is not None:
                first = max(first, first_since(stream, since, view.bounds))
            first = min(first, end)
            return SequencePartition(partition.stream, first, end, view.created)

        return with_retries(connection, look)

    def _plan(
        self, client: sync.Client, stream: sync.Stream, options: SourceOptions
    ) -> SequenceRange:
        view = view_of(await_sequence(stream, options))
        # Times are converted to sequences once, here: every task reads by sequence.
        if options.starting_time_ns is not None:
            start = first_since(stream, options.starting_time_ns, view.bounds)
            options = msgspec.structs.replace(options, starting_seq=start)
        if options.ending_time_ns is not None:
            end = first_since(stream, options.ending_time_ns, view.bounds)
            options = msgspec.structs.replace(options, ending_seq=end)
        if options.committed_by:
            end = self._committed(client, stream.name) + 1
            options = msgspec.structs.replace(options, ending_seq=end)
        whole = plan_range(options, view.bounds)
        if options.subjects:
            # Start the range at an existing message: if that is deleted later, it is a loss.
            first = first_match(stream, options.subjects, whole)
            if first is None and not self._options.reads_several:
                refuse_foreign_filters(stream, options.subjects)
            whole = SequenceRange(whole.end if first is None else first, whole.end)
        if whole.first == whole.end:
            return whole
        # Read one message here, to detect a missing permission now.
        list(self._rows.ranges.scan(stream, whole.first, whole.first))
        return whole

    def _split(
        self, stream: sync.Stream, options: SourceOptions, whole: SequenceRange, least: int
    ) -> list[SequenceRange]:
        """Split by sequences, or by counts if those would be uneven."""
        most = options.max_records_per_partition
        equal = plan_partitions(whole, min_partitions=least, max_records=most)
        view = view_of(stream.cached_info)
        span = view.bounds.last_seq - view.bounds.first_seq + 1
        uneven = bool(options.subjects) or 2 * view.messages < span
        direct = view.allow_direct and options.read_mode is not ReadMode.CONSUMER
        if not (uneven and direct) or whole.end - whole.first < SPAN_MIN or len(equal) < 2:
            return equal
        places = probe_places(whole, len(equal), filters=len(options.subjects))
        points, _ = count_points(stream, places, options.subjects)
        return plan_by_count(points, min_partitions=least, max_records=most)

    def _committed(self, client: sync.Client, stream: str) -> int:
        """Return the position of the stream when the query committed."""
        options = self._options
        jetstream = jetstream_of(client, options.connection)
        try:
            found = None
            if not options.reads_several:
                found = read_entry(jetstream, options.ledger_bucket, options.committed_by)
            if found is None:
                # In the ledger that sinks create automatically, a query has an entry per stream.
                name = f"{options.committed_by}.{stream}"
                found = read_entry(jetstream, options.ledger_bucket, name)
        except BucketNotFound:
            raise PlanningFailed(
                f"format {FORMAT_NAME!r}: bucket {options.ledger_bucket!r} of option ledgerBucket "
                "does not exist"
            ) from None
        if found is None:
            raise PlanningFailed(
                f"format {FORMAT_NAME!r}: query {options.committed_by!r} has not committed "
                f"anything of stream {stream!r} to the ledger {options.ledger_bucket!r} yet"
            )
        return found.entry.last_seq
