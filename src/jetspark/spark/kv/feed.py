"""The change feed of a bucket: every revision as a row, optionally after a snapshot.

The same micro-batches of sequences as for a stream. The difference is loss: a bucket drops
overwritten values, so a slow reader gets only the last ones.

The snapshot is one micro-batch: the last value of every key up to the revision of its end offset.
If Spark runs it again, a value that was overwritten meanwhile may be missing, and then follows as
a change; no key has two rows, and none has a different revision than before. The end offset has
the patterns and the split of the first run, so that its partitions depend on the bucket only.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.client.jetstream.message_columns import COLUMNS
from jetspark.spark.connections import jetstream_of
from jetspark.spark.kv.options import KV_FORMAT, KvFeedOptions
from jetspark.spark.kv.plan import KeyPartition, RevisionPartition, WholePartition
from jetspark.spark.kv.previous import PreviousRevisions
from jetspark.spark.kv.reader import KvSnapshotReader
from jetspark.spark.kv.rows import KvEncoder
from jetspark.spark.stream.followed_stream import Beginning
from jetspark.spark.stream.offsets import BatchPlan, Offset
from jetspark.spark.stream.range_reader import RangeReader, planned_partitions
from jetspark.spark.stream.view import (
    PlanningFailed,
    StreamView,
    first_since,
    lend_for_planning,
    no_bucket,
    view_of,
)

# The offset before the first revision: the snapshot follows.
BEFORE_SNAPSHOT: Final = 0


class BucketChanges:
    """The revisions of a bucket, optionally after a snapshot of it."""

    # Overwritten values are dropped by design.
    expiry_is_loss = False

    def __init__(self, options: KvFeedOptions, schema: StructType) -> None:
        self._feed = options
        self._options = options.source
        self._schema = schema
        bucket, headers = options.snapshot.bucket, options.source.headers
        self._encoder = KvEncoder(schema, bucket=bucket, headers=headers)
        self._ranges = RangeReader(options.source, COLUMNS, holes_are_losses=False)
        self._snapshot = KvSnapshotReader(options.snapshot, schema, skip_missing=True)

    @property
    def began_at_latest(self) -> bool:
        """Whether a new query starts at the end of the bucket."""
        return self._options.from_latest and not self._feed.initial_snapshot

    def lend(self) -> AbstractContextManager[sync.Client]:
        """Lend a connection; errors name the bucket."""
        bucket = self._feed.snapshot.bucket
        return lend_for_planning(
            self._options.connection,
            doing=f"format {KV_FORMAT!r} cannot read bucket {bucket!r}",
            missing=no_bucket(KV_FORMAT, "bucket", bucket),
        )

    def find(self, client: sync.Client) -> sync.Stream:
        """Return the stream of the bucket, with its current state."""
        stream = jetstream_of(client, self._options.connection).stream(self._options.stream)
        if stream.config.mirror is not None and self._feed.snapshot.keys:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: bucket {self._feed.snapshot.bucket!r} is a mirror, whose "
                "change feed does not support option keys: filter the rows with where()"
            )
        return stream

    def begin(self) -> Beginning:
        """Decide where a new query starts: with the snapshot, or at a revision."""
        options = self._options
        with self.lend() as client:
            stream = self.find(client)
            view = view_of(stream.cached_info)
            since = None
            if options.starting_time_ns is not None:
                since = first_since(stream, options.starting_time_ns, view.bounds)
        if self._feed.initial_snapshot:
            return Beginning(view, Offset(BEFORE_SNAPSHOT, view.created))
        beyond = view.bounds.last_seq + 1
        first = since or options.starting_seq or max(view.bounds.first_seq, 1)
        if options.from_latest:
            first = beyond
        if first > beyond:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: startingOffsets is {first}, but the bucket is at revision "
                f"{beyond - 1}"
            )
        return Beginning(view, Offset(first, view.created))

    def snapshot(self, first: int) -> BatchPlan | None:
        """Return the plan of the snapshot, which is one micro-batch regardless of limits."""
        if first > BEFORE_SNAPSHOT:
            return None
        options = self._feed.snapshot
        split = (options.min_partitions, options.keys_per_partition)
        return BatchPlan(BEFORE_SNAPSHOT, (), self._options.subjects, split)

    def partitions(self, view: StreamView, plan: BatchPlan, end: int) -> list[InputPartition]:
        """Return the partitions of a micro-batch up to ``end``."""
        if plan.first > BEFORE_SNAPSHOT:
            return planned_partitions(view, plan, end, self._options.subjects)
        revision = end - 1
        return self._plan_snapshot(plan, revision) if revision else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``. Runs in a task."""
        if isinstance(partition, KeyPartition | RevisionPartition | WholePartition):
            # A value that was overwritten since follows as a change, so that nothing is missed.
            return self._snapshot.read(partition)
        chunks = self._ranges.chunks(partition)
        if not self._feed.include_previous:
            return map(self._encoder.encode, chunks)
        previous = PreviousRevisions(self._options)
        return (self._encoder.encode(chunk, previous=previous.of(chunk)) for chunk in chunks)

    def _plan_snapshot(self, plan: BatchPlan, revision: int) -> list[InputPartition]:
        options = self._feed.snapshot
        prefix = f"$KV.{options.bucket}."
        keys = tuple(subject.removeprefix(prefix) for subject in plan.subjects)
        parts, most = plan.snapshot_split or (options.min_partitions, options.keys_per_partition)
        first_run = msgspec.structs.replace(
            options, keys=keys, min_partitions=parts, keys_per_partition=most
        )
        planner = KvSnapshotReader(first_run, self._schema, skip_missing=True)
        with self.lend() as client:
            return planner.plan(self.find(client), revision)
