"""A snapshot of a bucket: the last value of every key at one revision.

How it is read depends on the contents of the bucket (``plan``): ranges of revisions if every key
has one value, keys by name if there are several, everything in one task if the answering copies
cannot prove that they are up to date. A bucket keeps a limited number of values per key: one that
was overwritten too often since is missing, and is reported or replaced, never silently left out.

In a streaming query, where Spark plans a read once for all micro-batches (the static side of a
join), the plan soon becomes outdated. There the first task reads the current bucket, and the
others nothing, so that each micro-batch has one snapshot and no key is missing or duplicated.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.message_columns import COLUMNS, MessageColumns
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.errors import MessageNotFound
from jetspark.spark.connections import jetstream_of
from jetspark.spark.kv.options import KV_FORMAT, Consistency, KvOptions
from jetspark.spark.kv.plan import (
    KeyPartition,
    RevisionPartition,
    SnapshotPlanner,
    WholePartition,
    bucket_loss,
    key_patterns,
)
from jetspark.spark.kv.rows import KvEncoder, key_of
from jetspark.spark.same_version import Sealed, reduced
from jetspark.spark.stream.options import SourceOptions
from jetspark.spark.stream.planner import DataLoss, StreamRecreated
from jetspark.spark.stream.range_reader import RangeReader, with_retries
from jetspark.spark.stream.view import lend_for_planning, no_bucket, view_of
from jetspark.spark.task import in_micro_batch, local_property
from jetspark.spark.times import ZONE_SETTING, check_zone
from jetspark.sync.bulk import last_columns

# Keys read together; each request has up to 1,000 of them (the server's limit is 1,024), and a
# batch of several thousand rows suits Spark.
KEYS_AT_ONCE: Final = 5_000

# If a bucket changes during a read, the changes are read too; up to this many times, each shorter
# than the one before. If values are replaced faster than they can be read, and the bucket keeps
# too few per key, every key then has a value that it had during the read, but not all at the same
# time.
LOOKS_MAX: Final = 20

_Result = TypeVar("_Result")


class KvSnapshotReader(DataSourceReader):
    """Reads a bucket at one revision. Pickled to the tasks.

    ``skip_missing``: a value that no longer exists is left out; the change that replaced it
    follows.
    """

    def __init__(
        self, options: KvOptions, schema: StructType, *, skip_missing: bool = False
    ) -> None:
        self._options = options
        self._skip_missing = skip_missing
        self._encoder = KvEncoder(schema, bucket=options.bucket, headers=options.headers)
        self._planner = SnapshotPlanner(options, skip_missing=skip_missing)
        source = SourceOptions(connection=options.connection, stream=options.stream)
        self._ranges = RangeReader(source, COLUMNS, holes_are_losses=False)

    def __reduce__(self) -> Sealed:
        """Pickle with the driver's version, which the tasks compare with theirs."""
        return reduced(self)

    def partitions(self) -> list[InputPartition]:
        """Determine the revision and split the bucket. Runs on the driver."""
        options = self._options
        with lend_for_planning(
            options.connection,
            doing=f"format {KV_FORMAT!r} cannot read bucket {options.bucket!r}",
            missing=no_bucket(KV_FORMAT, "bucket", options.bucket),
        ) as client:
            stream = jetstream_of(client, options.connection).stream(options.stream)
            return self.plan(stream, None)

    def plan(self, stream: sync.Stream, revision: int | None) -> list[InputPartition]:
        """Split the bucket at ``revision`` (None: from the options)."""
        return self._planner.plan(stream, revision)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the entries of ``partition`` as Arrow batches. Runs in a task."""
        options = self._options
        if options.assumed_zone is not None:
            check_zone(options.assumed_zone, local_property(ZONE_SETTING))
        # A feed plans its own snapshot for its first micro-batch, and a revision or time given by
        # the user does not become outdated.
        pinned = options.version_as_of is not None or options.timestamp_as_of_ns is not None
        if not (self._skip_missing or pinned) and in_micro_batch():
            # A bucket that was empty at planning time, or is read whole, has only one partition.
            if isinstance(partition, RevisionPartition | KeyPartition) and not partition.leads:
                return iter(())
            return self._encoded(self._now())
        match partition:
            case RevisionPartition():
                return self._encoded(self._revisions(partition))
            case KeyPartition():
                return self._encoded(self._keys(partition))
            case WholePartition():
                return self._encoded(self._whole(partition))
            case _:
                return iter(())

    def _encoded(self, chunks: Iterator[MessageColumns]) -> Iterator[pa.RecordBatch]:
        deletions = self._options.include_deleted
        for chunk in chunks:
            batch = self._encoder.encode(chunk, deletions=deletions)
            if batch.num_rows:
                yield batch

    def _revisions(self, partition: RevisionPartition) -> Iterator[MessageColumns]:
        """Every message of the range is the value of its key."""
        count = 0
        for pattern in partition.patterns:
            for chunk in self._ranges.filtered_chunks(
                partition.revisions, (pattern,) if pattern else ()
            ):
                count += len(chunk.sequences)
                yield chunk
        if partition.expected is not None and count != partition.expected:
            raise DataLoss(
                f"{partition.expected - count} of {partition.expected} values of bucket "
                f"{self._options.bucket!r} as of revision {partition.revision} were replaced or "
                "removed since the read was planned, and it keeps one per key: load it again, "
                "call jetspark.spark.refresh on the DataFrame, raise history, or set "
                'option("consistency", "best-effort")'
            )

    def _now(self) -> Iterator[MessageColumns]:
        """Read the current bucket: up to the last look that found no change."""

        def read(stream: sync.Stream) -> MessageColumns:
            last = MessageColumns.empty()
            places: dict[str, int] = {}
            position = 1
            for _ in range(LOOKS_MAX):
                info = stream.info()
                if info.state.last_seq < position:
                    break
                for pattern in key_patterns(info, self._options.keys):
                    filters = (pattern,) if pattern else ()
                    for chunk in self._ranges.scan(stream, position, info.state.last_seq, filters):
                        _keep_last(last, places, chunk)
                position = info.state.last_seq + 1
            else:
                _append(last, self._never_read(stream, places))
            return last

        return _pieces(self._with_retries(read))

    def _never_read(
        self, stream: sync.Stream, places: Mapping[str, int]
    ) -> Iterator[StreamMessage]:
        """Yield the values of keys that were replaced each time they were read."""
        for pattern in key_patterns(stream.cached_info, self._options.keys):
            state = stream.info(subjects_filter=pattern or ">").state
            for subject in (state.subjects or {}).keys() - places.keys():
                with contextlib.suppress(MessageNotFound):  # removed just now
                    yield stream.get_msg(last_by_subject=subject, min_last_seq=state.last_seq)

    def _keys(self, partition: KeyPartition) -> Iterator[MessageColumns]:
        """Read the keys by name; missing ones are skipped or handled."""
        counts = dict(zip(partition.subjects, partition.counts, strict=True))
        revision = partition.revision
        for at in range(0, len(partition.subjects), KEYS_AT_ONCE):
            subjects = partition.subjects[at : at + KEYS_AT_ONCE]

            def read(stream: sync.Stream, subjects: Sequence[str] = subjects) -> MessageColumns:
                found = last_columns(stream, subjects, up_to_seq=revision, min_last_seq=revision)
                if len(found) < len(subjects) and not self._skip_missing:
                    seen = set(found.subjects)
                    missing = [subject for subject in subjects if subject not in seen]
                    _append(found, self._missing(stream, missing, counts, revision))
                return found

            yield self._with_retries(read, partition.created)

    def _whole(self, partition: WholePartition) -> Iterator[MessageColumns]:
        """Read everything up to the revision and keep the last value of each key.

        A copy that lags may still have replaced values; their replacements follow, later in the
        order of revisions, and take precedence.
        """

        def read(stream: sync.Stream) -> MessageColumns:
            last = MessageColumns.empty()
            places: dict[str, int] = {}
            counts: dict[str, int] = {}
            for pattern in partition.patterns:
                filters = (pattern,) if pattern else ()
                for chunk in self._ranges.scan(stream, 1, partition.revision, filters):
                    _keep_last(last, places, chunk)
                if not self._skip_missing:
                    state = stream.info(subjects_filter=pattern or ">").state
                    counts.update(state.subjects or {})
            missing = sorted(counts.keys() - places.keys())
            _append(last, self._missing(stream, missing, counts, partition.revision))
            return last

        yield from _pieces(self._with_retries(read, partition.created))

    def _with_retries(
        self, attempt: Callable[[sync.Stream], _Result], created: str = ""
    ) -> _Result:
        """Return the result of ``attempt`` for the bucket that was ``created`` at that time.

        Empty: for any bucket, but for a single one.
        """
        options = self._options

        def read(client: sync.Client) -> _Result:
            stream = jetstream_of(client, options.connection).stream(options.stream)
            planned = created or view_of(stream.cached_info).created
            self._check_created(stream, planned)
            found = attempt(stream)
            stream.info()
            self._check_created(stream, planned)
            return found

        return with_retries(options.connection, read)

    def _check_created(self, stream: sync.Stream, planned: str) -> None:
        created = view_of(stream.cached_info).created
        if created != planned:
            raise StreamRecreated(
                f"bucket {self._options.bucket!r} was deleted and created again at {created}, "
                f"after the read of the one from {planned} was planned: load it again"
            )

    def _missing(
        self,
        stream: sync.Stream,
        subjects: Sequence[str],
        counts: Mapping[str, int],
        revision: int,
    ) -> list[StreamMessage]:
        """Handle keys without a value at the revision.

        A key whose oldest value is newer than the revision was created after it, unless values of
        it may have been dropped: then its value at the revision is lost.
        """
        history = max(1, stream.config.max_msgs_per_subject)
        expires = bool(stream.config.max_age)
        newer: list[StreamMessage] = []
        for subject in subjects:
            try:
                oldest = stream.get_msg(
                    next_by_subject=subject, seq=revision + 1, min_last_seq=revision
                )
            except MessageNotFound:
                # Removed since the keys were listed; normal if values expire.
                if expires or self._options.consistency is Consistency.BEST_EFFORT:
                    continue
                raise DataLoss(
                    f"key {key_of(subject)!r} of bucket {self._options.bucket!r} was removed "
                    "while the bucket was read: read it again"
                ) from None
            erased = read_operation(oldest.header_block)[0] is Operation.PURGE
            if counts[subject] < history and not erased:
                continue
            if self._options.consistency is Consistency.STRICT:
                raise bucket_loss(self._options.bucket, oldest, revision, history)
            newer.append(oldest)
        return newer


def _keep_last(last: MessageColumns, places: dict[str, int], chunk: MessageColumns) -> None:
    """Put the rows of ``chunk`` into ``last``, one per subject; later rows win."""
    for at, subject in enumerate(chunk.subjects):
        place = places.setdefault(subject, len(places))
        if place == len(last.subjects):
            last.append(
                chunk.sequences[at],
                chunk.times[at],
                subject,
                chunk.data[at],
                chunk.headers[at],
            )
        else:
            last.replace(place, chunk, at)


def _pieces(found: MessageColumns) -> Iterator[MessageColumns]:
    for at in range(0, len(found), KEYS_AT_ONCE):
        yield found.part(at, at + KEYS_AT_ONCE)


def _append(chunk: MessageColumns, messages: Iterable[StreamMessage]) -> None:
    for message in messages:
        chunk.append(
            message.seq, message.time_ns, message.subject, message.data, message.header_block
        )
