"""The change feed of a bucket: every revision as a row, on request behind a snapshot.

The same micro-batches of sequences as those of a stream. What differs is loss: a bucket forgets
the values that were overwritten, so a slow reader sees the last ones only (spark.md 6.5).
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.client.jetstream.scan import COLUMNS, Column
from jetspark.spark.connections import jetstream_of
from jetspark.spark.kv_options import KV_FORMAT, KvFeedOptions
from jetspark.spark.kv_plan import KeyPartition, RevisionPartition, WholePartition
from jetspark.spark.kv_reader import KvSnapshotReader
from jetspark.spark.kv_rows import KvEncoder
from jetspark.spark.offsets import Offset, decode_offset, encode_offset
from jetspark.spark.planner import DataLoss, check_position
from jetspark.spark.range_reader import ChunkEncoder, RangeReader
from jetspark.spark.stream_reader import JetStreamStreamReader
from jetspark.spark.stream_view import PlanningFailed, StreamView, lend_for_planning, view_of

# The offset before the first revision: what comes next is the snapshot.
BEFORE_SNAPSHOT: Final = 0


class KvRangeReader(RangeReader):
    """Reads ranges of revisions."""

    def __init__(self, options: KvFeedOptions, schema: StructType) -> None:
        super().__init__(options.source, schema)
        self._bucket = options.snapshot.bucket

    def columns(self) -> tuple[Column, ...]:
        """Everything: the operation is in the headers."""
        return COLUMNS

    def encoder(self, stream: str) -> ChunkEncoder:  # noqa: ARG002 - the name of the bucket counts
        """Make what turns chunks into rows of a bucket."""
        return KvEncoder(self._schema, bucket=self._bucket, headers=self._options.headers)

    def check_still_kept(self, stream: sync.Stream, missing: int | None) -> None:
        """Overwritten values are gone: that is what a bucket does."""


class KvFeedReader(JetStreamStreamReader):
    """Reads the changes of a bucket for as long as the query runs."""

    def __init__(self, options: KvFeedOptions, schema: StructType) -> None:
        super().__init__(options.source, schema, KvRangeReader(options, schema))
        self._feed = options
        self._snapshot = KvSnapshotReader(options.snapshot, schema, skip_missing=True)

    # The names and arguments below are Spark's.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins: the snapshot, or a revision."""
        view = self._look()
        if self._feed.initial_snapshot:
            return encode_offset(view.name, Offset(BEFORE_SNAPSHOT, view.created))
        beyond = view.bounds.last_seq + 1
        first = self._options.starting_seq or max(view.bounds.first_seq, 1)
        if self._options.from_latest:
            first = beyond
        if first > beyond:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: startingOffsets is {first}, but the bucket is at revision "
                f"{beyond - 1}"
            )
        return encode_offset(view.name, Offset(first, view.created))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends; a snapshot is one, whatever the limits."""
        view = self._look()
        place = decode_offset(view.name, start, lowest=BEFORE_SNAPSHOT)
        if place.next > BEFORE_SNAPSHOT:
            return super().latestOffset(start, limit)
        end = view.bounds.last_seq + 1
        if self._target is not None:
            end = min(end, self._target)
        return encode_offset(view.name, Offset(end, view.created))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Split the snapshot, or what lies between two offsets."""
        view = self._look()
        if decode_offset(view.name, start, lowest=BEFORE_SNAPSHOT).next > BEFORE_SNAPSHOT:
            return super().partitions(start, end)
        revision = decode_offset(view.name, end).next - 1
        if not revision:
            return []
        return self._patiently(lambda: self._plan_snapshot(revision))

    def _plan_snapshot(self, revision: int) -> list[InputPartition]:
        with self._planning() as client:
            connection = self._options.connection
            stream = jetstream_of(client, connection).stream(self._options.stream)
            return self._snapshot.plan(stream, revision)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``. Runs in a task."""
        if isinstance(partition, KeyPartition | RevisionPartition | WholePartition):
            # A value that was overwritten since comes as a change, so that nothing is missed.
            return self._snapshot.read(partition)
        return super().read(partition)

    def _planning(self) -> Any:
        bucket = self._feed.snapshot.bucket
        return lend_for_planning(
            self._options.connection,
            doing=f"format {KV_FORMAT!r} cannot read bucket {bucket!r}",
            missing=f"format {KV_FORMAT!r}: there is no bucket {bucket!r}",
        )

    def _ask(self) -> StreamView:
        with self._planning() as client:
            connection = self._options.connection
            info = jetstream_of(client, connection).stream(self._options.stream).cached_info
        if info.config.mirror is not None and self._feed.snapshot.keys:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: bucket {self._feed.snapshot.bucket!r} is a mirror, whose "
                "change feed takes no option keys: filter the rows with where()"
            )
        return view_of(info)

    def _resume(self, view: StreamView, start: dict[str, Any]) -> int:
        place = decode_offset(view.name, start)
        try:
            return check_position(view.name, place, view.created, view.bounds)
        except DataLoss as loss:
            forgotten = place.created == view.created and place.next < view.bounds.first_seq
            if self._options.fail_on_data_loss and not forgotten:
                raise
            return loss.resume_at
