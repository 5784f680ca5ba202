"""The change feed of a bucket: every revision as a row, on request after a snapshot.

The same micro-batches of sequences as those of a stream. What differs is loss: a bucket forgets
the values that were overwritten, so a slow reader sees the last ones only.

The snapshot is one micro-batch: the last value of every key up to the revision of its end offset.
If Spark runs it again, a value that was overwritten meanwhile may be missing, and then comes as a
change; no key has two rows, and none has another revision than before. The end offset has the
patterns and the split of the first run, so that its partitions depend on the bucket only.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.client.jetstream.scan import COLUMNS, Column
from jetspark.spark.connections import jetstream_of
from jetspark.spark.kv.options import KV_FORMAT, KvFeedOptions
from jetspark.spark.kv.plan import KeyPartition, RevisionPartition, WholePartition
from jetspark.spark.kv.reader import KvSnapshotReader
from jetspark.spark.kv.rows import KvEncoder
from jetspark.spark.stream.offsets import BatchPlan, Offset, decode_offset, encode_offset
from jetspark.spark.stream.planner import DataLoss, SequenceRange
from jetspark.spark.stream.range_reader import ChunkEncoder, RangeReader
from jetspark.spark.stream.streaming_reader import JetStreamStreamReader
from jetspark.spark.stream.view import PlanningFailed, StreamView, lend_for_planning

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
        self._schema = schema
        self._snapshot = KvSnapshotReader(options.snapshot, schema, skip_missing=True)

    # The names and arguments below are Spark's.

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends; a snapshot is one, whatever the limits."""
        view = self._look()
        if self._decode(view, start).next > BEFORE_SNAPSHOT:
            return super().latestOffset(start, limit)
        end = self._end(view)
        plan = self._new_plan(SequenceRange(BEFORE_SNAPSHOT, end))
        return self._moved(view, Offset(end, view.created, plan))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``. Runs in a task."""
        if isinstance(partition, KeyPartition | RevisionPartition | WholePartition):
            # A value that was overwritten since comes as a change, so that nothing is missed.
            return self._snapshot.read(partition)
        return super().read(partition)

    def _begin(self) -> dict[str, Any]:
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

    def _decode(self, view: StreamView, offset: dict[str, Any]) -> Offset:
        return decode_offset(view.name, offset, lowest=BEFORE_SNAPSHOT)

    def _began_at_latest(self) -> bool:
        return self._options.from_latest and not self._feed.initial_snapshot

    def _new_plan(self, whole: SequenceRange) -> BatchPlan:
        if whole.first > BEFORE_SNAPSHOT:
            return super()._new_plan(whole)
        options = self._feed.snapshot
        split = (options.min_partitions, options.keys_per_partition)
        return BatchPlan(BEFORE_SNAPSHOT, (), self._options.subjects, split)

    def _split(self, view: StreamView, plan: BatchPlan, last: Offset) -> list[InputPartition]:
        if plan.first > BEFORE_SNAPSHOT:
            return super()._split(view, plan, last)
        revision = last.next - 1
        if not revision:
            return []
        return self._patiently(lambda: self._plan_snapshot(plan, revision))

    def _plan_snapshot(self, plan: BatchPlan, revision: int) -> list[InputPartition]:
        options = self._feed.snapshot
        prefix = f"$KV.{options.bucket}."
        keys = tuple(subject.removeprefix(prefix) for subject in plan.subjects)
        parts, most = plan.snapshot_split or (options.min_partitions, options.keys_per_partition)
        first_run = msgspec.structs.replace(
            options, keys=keys, min_partitions=parts, keys_per_partition=most
        )
        planner = KvSnapshotReader(first_run, self._schema, skip_missing=True)
        with self._planning() as client:
            return planner.plan(self._find(client), revision)

    def _planning(self) -> AbstractContextManager[sync.Client]:
        bucket = self._feed.snapshot.bucket
        return lend_for_planning(
            self._options.connection,
            doing=f"format {KV_FORMAT!r} cannot read bucket {bucket!r}",
            missing=f"format {KV_FORMAT!r}: there is no bucket {bucket!r}",
        )

    def _find(self, client: sync.Client) -> sync.Stream:
        stream = jetstream_of(client, self._options.connection).stream(self._options.stream)
        if stream.config.mirror is not None and self._feed.snapshot.keys:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: bucket {self._feed.snapshot.bucket!r} is a mirror, whose "
                "change feed takes no option keys: filter the rows with where()"
            )
        return stream

    def _accepts(self, loss: DataLoss) -> bool:
        """Values that were overwritten are gone: that is what a bucket does."""
        return loss.expired or super()._accepts(loss)
