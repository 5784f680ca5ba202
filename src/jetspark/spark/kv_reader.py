"""A snapshot of a bucket: the last value of every key as of one revision (spark.md 6.5).

The driver lists the keys, then fixes the revision; each task asks for some of the keys as of that
revision. A bucket keeps only so many values of a key: one that was overwritten too often since is
missing from the answer, and is reported or replaced, never silently left out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.api.stream import StreamConfig
from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.kv.jetstream_backend import prefixes
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.stored_pages import to_messages
from jetspark.errors import MessageNotFound
from jetspark.spark.connections import jetstream_of
from jetspark.spark.kv_options import KV_FORMAT, Consistency, KvOptions
from jetspark.spark.kv_rows import KvEncoder, key_of
from jetspark.spark.planner import DataLoss, SequenceRange, StreamBounds, plan_partitions
from jetspark.spark.range_reader import with_retries
from jetspark.spark.stream_view import PlanningFailed, first_since, lend_for_planning
from jetspark.sync.bulk import last_messages

# Subjects of one request; the server answers for at most 1,024 (spark.md 6.5).
KEYS_PER_REQUEST: Final = 1_000

_Result = TypeVar("_Result")


class KeyPartition(InputPartition):
    """Some keys of a bucket as of a revision, with how many values of each there are now."""

    def __init__(self, subjects: Sequence[str], counts: Sequence[int], revision: int) -> None:
        super().__init__(revision)
        self.subjects = subjects
        self.counts = counts
        self.revision = revision


class WholePartition(InputPartition):
    """All of a bucket that does not answer direct gets: read in one piece."""

    def __init__(self, patterns: Sequence[str], revision: int) -> None:
        super().__init__(revision)
        self.patterns = patterns
        self.revision = revision


class KvSnapshotReader(DataSourceReader):
    """Reads a bucket as of one moment. Travels to the tasks by pickle."""

    def __init__(self, options: KvOptions, schema: StructType) -> None:
        self._options = options
        self._encoder = KvEncoder(schema, bucket=options.bucket, headers=options.headers)
        self._history = 1
        self._expires = False

    def partitions(self) -> list[InputPartition]:
        """List the keys, fix the revision, split the keys. Runs on the driver."""
        options = self._options
        with lend_for_planning(
            options.connection,
            doing=f"format {KV_FORMAT!r} cannot read bucket {options.bucket!r}",
            missing=f"format {KV_FORMAT!r}: there is no bucket {options.bucket!r}",
        ) as client:
            stream = jetstream_of(client, options.connection).stream(options.stream)
            return self.plan(stream, None)

    def plan(self, stream: sync.Stream, revision: int | None) -> list[InputPartition]:
        """Split the keys as of ``revision`` (None: as the options say)."""
        options = self._options
        info = stream.cached_info
        self._history = max(1, info.config.max_msgs_per_subject)
        self._expires = bool(info.config.max_age)
        prefix = prefixes(info, "$JS.API")[0]
        patterns = [prefix + key for key in options.keys] or [f"{prefix}>"]
        found: dict[str, int] = {}
        for pattern in patterns:
            found.update(stream.info(subjects_filter=pattern).state.subjects or {})
        # After the keys: whatever is listed was there at this revision, or is known to be newer.
        at = self._revision(stream, info.config) if revision is None else revision
        if not info.config.allow_direct:
            return [WholePartition(patterns, at)] if found else []
        subjects = sorted(found)
        parts = plan_partitions(
            SequenceRange(0, len(subjects)),
            min_partitions=options.min_partitions,
            max_records=options.keys_per_partition,
        )
        return [
            KeyPartition(
                subjects[part.first : part.end],
                [found[subject] for subject in subjects[part.first : part.end]],
                at,
            )
            for part in parts
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the entries of ``partition`` as Arrow batches. Runs in a task."""
        if isinstance(partition, KeyPartition):
            return self.batches(partition, skip_missing=False)
        if isinstance(partition, WholePartition):
            return self._whole(partition)
        return iter(())

    def batches(self, partition: KeyPartition, *, skip_missing: bool) -> Iterator[pa.RecordBatch]:
        """Yield the entries of some keys; what is missing is skipped, or dealt with."""
        counts = dict(zip(partition.subjects, partition.counts, strict=True))
        for at in range(0, len(partition.subjects), KEYS_PER_REQUEST):
            subjects = partition.subjects[at : at + KEYS_PER_REQUEST]

            def read(
                stream: sync.Stream, subjects: Sequence[str] = subjects
            ) -> list[StreamMessage]:
                revision = partition.revision
                messages = last_messages(
                    stream, subjects, up_to_seq=revision, min_last_seq=revision
                )
                if len(messages) < len(subjects) and not skip_missing:
                    seen = {message.subject for message in messages}
                    missing = [subject for subject in subjects if subject not in seen]
                    messages += self._missing(stream, missing, counts, revision)
                return messages

            yield from self._encoded(self._with_retries(read))

    def _with_retries(self, attempt: Callable[[sync.Stream], _Result]) -> _Result:
        options = self._options
        return with_retries(
            options.connection,
            lambda client: attempt(
                jetstream_of(client, options.connection).stream(options.stream)
            ),
        )

    def _encoded(self, messages: Sequence[StreamMessage]) -> Iterator[pa.RecordBatch]:
        if not self._options.include_deleted:
            messages = [
                one for one in messages if read_operation(one.header_block)[0] is Operation.PUT
            ]
        if messages:
            yield self._encoder.encode_messages(messages)

    def _whole(self, partition: WholePartition) -> Iterator[pa.RecordBatch]:
        """Read everything up to the revision and keep the last of each key."""

        def read(stream: sync.Stream) -> list[StreamMessage]:
            last: dict[str, StreamMessage] = {}
            found: dict[str, int] = {}
            for pattern in partition.patterns:
                for chunk in stream.scan(1, partition.revision, filters=(pattern,)):
                    last.update((one.subject, one) for one in to_messages(stream.name, chunk))
                found.update(stream.info(subjects_filter=pattern).state.subjects or {})
            missing = sorted(found.keys() - last.keys())
            return [*last.values(), *self._missing(stream, missing, found, partition.revision)]

        yield from self._encoded(self._with_retries(read))

    def _missing(
        self, stream: sync.Stream, subjects: Sequence[str], counts: dict[str, int], revision: int
    ) -> list[StreamMessage]:
        """Decide about keys without a value as of the revision.

        A key whose oldest value is newer than the revision was made after it, unless values of it
        may have been dropped: then its value of that moment is lost.
        """
        newer: list[StreamMessage] = []
        for subject in subjects:
            try:
                oldest = stream.get_msg(
                    next_by_subject=subject, seq=revision + 1, min_last_seq=revision
                )
            except MessageNotFound:
                # Removed since the keys were listed; where values expire that is usual.
                if self._expires or self._options.consistency is Consistency.BEST_EFFORT:
                    continue
                raise DataLoss(
                    f"key {key_of(subject)!r} of bucket {self._options.bucket!r} was removed "
                    "while the bucket was read: read it again"
                ) from None
            erased = read_operation(oldest.header_block)[0] is Operation.PURGE
            if counts[subject] < self._history and not erased:
                continue
            if self._options.consistency is Consistency.STRICT:
                raise DataLoss(
                    f"bucket {self._options.bucket!r} has no value of key {key_of(subject)!r} "
                    f"as of revision {revision}: it keeps {self._history} per key and the oldest "
                    f'is {oldest.seq}. Raise history, or set option("consistency", '
                    '"best-effort") to get the newer one'
                )
            newer.append(oldest)
        return newer

    def _revision(self, stream: sync.Stream, config: StreamConfig) -> int:
        options = self._options
        state = stream.info().state
        wanted = options.version_as_of
        if options.timestamp_as_of_ns is not None:
            bounds = StreamBounds(state.first_seq, state.last_seq)
            # Inclusive, as up_to_time is (decisions.md).
            wanted = first_since(stream, options.timestamp_as_of_ns + 1, bounds) - 1
        if wanted is None:
            return state.last_seq
        if wanted > state.last_seq:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: versionAsOf is {wanted}, but bucket {options.bucket!r} "
                f"is at revision {state.last_seq}"
            )
        if config.max_age and options.consistency is Consistency.STRICT:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: values of bucket {options.bucket!r} expire, so that a "
                "moment in the past cannot be read for certain: set "
                'option("consistency", "best-effort")'
            )
        return max(wanted, 1)
