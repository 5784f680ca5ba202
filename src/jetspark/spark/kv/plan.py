"""Splits a snapshot of a bucket into partitions, on the driver.

Three ways. If every key has one value, each message up to the revision is one: ranges of
revisions, with their expected number of rows. If keys have a history, the keys are listed and read
by name. If direct gets are off, or several copies answer that cannot prove that they are up to
date, as with nats-server, one task reads everything.
"""

import itertools
from collections.abc import Sequence
from typing import Final

from pyspark.sql.datasource import InputPartition

from jetspark import sync
from jetspark.client.jetstream.kv.jetstream_backend import prefixes
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamInfo, StreamState
from jetspark.errors import MessageNotFound
from jetspark.spark.kv.options import KV_FORMAT, Consistency, KvOptions
from jetspark.spark.kv.rows import key_of
from jetspark.spark.stream.planner import DataLoss, SequenceRange, StreamBounds, plan_partitions
from jetspark.spark.stream.range_reader import SequencePartition
from jetspark.spark.stream.splitting import count_points, plan_by_count, probe_places
from jetspark.spark.stream.view import PlanningFailed, first_since, view_of

# How often a bucket that changes is counted before its keys are listed instead.
COUNT_TRIES: Final = 3
# Each pattern is a separate scan; if there are many, keys are read by name.
PATTERNS_MAX: Final = 16


class RevisionPartition(InputPartition):
    """The values of a range of revisions, each the only one of its key."""

    def __init__(
        self,
        revisions: SequencePartition,
        patterns: Sequence[str],
        revision: int,
        expected: int | None,
        *,
        leads: bool,
    ) -> None:
        super().__init__(revisions.value)
        self.revisions = revisions
        self.patterns = patterns
        self.revision = revision
        self.expected = expected
        """The number of values at planning time; None: not checked."""
        self.leads = leads
        """Whether it is the first of a read, whose task reads everything in a streaming query."""


class KeyPartition(InputPartition):
    """Some keys of a bucket at a revision, with their current number of values."""

    def __init__(
        self,
        subjects: Sequence[str],
        counts: Sequence[int],
        revision: int,
        created: str,
        *,
        leads: bool,
    ) -> None:
        super().__init__(revision)
        self.created = created
        self.leads = leads
        self.subjects = subjects
        self.counts = counts
        self.revision = revision


class WholePartition(InputPartition):
    """A whole bucket."""

    def __init__(self, patterns: Sequence[str], revision: int, created: str) -> None:
        super().__init__(revision)
        self.created = created
        self.patterns = patterns
        self.revision = revision


def key_patterns(info: StreamInfo, keys: Sequence[str]) -> list[str]:
    """Return the subjects of ``keys`` in the stream of a bucket; an empty string: all."""
    prefix = prefixes(to_wire(info), "$JS.API")[0]
    # A scan without a filter costs the server less.
    return [prefix + key for key in keys] or [""]


class SnapshotPlanner:
    """Plans snapshots of one bucket."""

    def __init__(self, options: KvOptions, *, skip_missing: bool) -> None:
        self._options = options
        self._skip_missing = skip_missing

    def plan(self, stream: sync.Stream, revision: int | None) -> list[InputPartition]:
        """Split the bucket at ``revision`` (None: from the options)."""
        info = stream.info()
        at = self._revision(stream, info) if revision is None else revision
        if not info.state.messages or not at:
            return []
        patterns = key_patterns(info, self._options.keys)
        if not info.config.allow_direct:
            return [WholePartition(patterns, at, view_of(info).created)]
        _, proven = count_points(stream, [1], patterns[:1], min_last_seq=info.state.last_seq)
        if not proven and info.config.num_replicas > 1:
            return [WholePartition(patterns, at, view_of(info).created)]
        if info.config.max_msgs_per_subject == 1 and at < info.state.last_seq:
            self._check_unchanged_since(stream, patterns, at, info.state.last_seq)
        by_revision = self._by_revision(stream, info, patterns, at, fixed=revision is not None)
        if by_revision is not None:
            return by_revision
        return self._by_key(stream, patterns, at if revision or self._past else None)

    @property
    def _past(self) -> bool:
        return (
            self._options.version_as_of is not None or self._options.timestamp_as_of_ns is not None
        )

    @property
    def _strict(self) -> bool:
        strict = self._options.consistency is Consistency.STRICT
        return strict and not self._skip_missing

    def _by_revision(
        self,
        stream: sync.Stream,
        info: StreamInfo,
        patterns: Sequence[str],
        at: int,
        *,
        fixed: bool,
    ) -> list[InputPartition] | None:
        """Split by revisions; None if a message is not always the value of its key.

        The counts are consistent if nothing changed between them.
        """
        config = info.config
        expires = bool(config.max_age)
        if not (self._strict or self._skip_missing) or (expires and not self._skip_missing):
            return None
        if len(patterns) > PATTERNS_MAX:
            return None
        if self._strict and at < info.state.last_seq and config.max_msgs_per_subject != 1:
            return None  # a purge may have removed values: check each key
        for _ in range(COUNT_TRIES):
            state = info.state
            if state.messages != state.num_subjects:
                return None
            if not (fixed or self._past):
                at = state.last_seq
            parts = self._ranges(stream, patterns, SequenceRange(max(1, state.first_seq), at + 1))
            expected: list[int] | None = None
            if self._strict:
                edges = [part.first for part in parts]
                points, _ = count_points(stream, edges, patterns, min_last_seq=state.last_seq)
                # Nothing is after the revision, or the read would have been refused.
                counts = [point.remaining for point in points] + [0]
                expected = [one - two for one, two in itertools.pairwise(counts)]
            info = stream.info()
            if not self._strict or _same(state, info.state):
                created = view_of(info).created
                return [
                    RevisionPartition(
                        SequencePartition(stream.name, part.first, part.end, created),
                        patterns,
                        at,
                        expected[place] if expected else None,
                        leads=place == 0,
                    )
                    for place, part in enumerate(parts)
                ]
        return None

    def _ranges(
        self, stream: sync.Stream, patterns: Sequence[str], whole: SequenceRange
    ) -> list[SequenceRange]:
        """Split revisions by their number of values: overwritten ones leave gaps."""
        if whole.first >= whole.end:
            return []
        options = self._options
        places = probe_places(whole, options.min_partitions, filters=len(patterns))
        points, _ = count_points(stream, places, patterns)
        return plan_by_count(
            points, min_partitions=options.min_partitions, max_records=options.keys_per_partition
        )

    def _by_key(
        self, stream: sync.Stream, patterns: Sequence[str], revision: int | None
    ) -> list[InputPartition]:
        """List the keys and split them."""
        found: dict[str, int] = {}
        for pattern in patterns:
            found.update(stream.info(subjects_filter=pattern or ">").state.subjects or {})
        # After the keys: everything listed existed at this revision, or is known to be newer.
        at = stream.info().state.last_seq if revision is None else revision
        subjects = sorted(found)
        created = view_of(stream.cached_info).created
        parts = plan_partitions(
            SequenceRange(0, len(subjects)),
            min_partitions=self._options.min_partitions,
            max_records=self._options.keys_per_partition,
        )
        return [
            KeyPartition(
                subjects[part.first : part.end],
                [found[subject] for subject in subjects[part.first : part.end]],
                at,
                created,
                leads=part is parts[0],
            )
            for part in parts
        ]

    def _check_unchanged_since(
        self, stream: sync.Stream, patterns: Sequence[str], at: int, last: int
    ) -> None:
        """Raise ``DataLoss`` if a bucket with one value per key has newer ones than requested."""
        if not self._strict:
            return
        for pattern in patterns:
            try:
                newer = stream.get_msg(
                    next_by_subject=pattern or ">", seq=at + 1, min_last_seq=last
                )
            except MessageNotFound:
                continue
            raise bucket_loss(self._options.bucket, newer, at, 1)

    def _revision(self, stream: sync.Stream, info: StreamInfo) -> int:
        options, state = self._options, info.state
        wanted = options.version_as_of
        if options.timestamp_as_of_ns is not None:
            bounds = StreamBounds(state.first_seq, state.last_seq)
            # Inclusive, like up_to_time.
            wanted = first_since(stream, options.timestamp_as_of_ns + 1, bounds) - 1
        if wanted is None:
            return state.last_seq
        if wanted > state.last_seq:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: versionAsOf is {wanted}, but bucket {options.bucket!r} "
                f"is at revision {state.last_seq}"
            )
        expires = info.config.max_age
        if expires and options.consistency is Consistency.STRICT:
            raise PlanningFailed(
                f"format {KV_FORMAT!r}: values of bucket {options.bucket!r} expire, so a past "
                "point in time cannot be read reliably: set "
                'option("consistency", "best-effort")'
            )
        # 0: the time is before the first value, when the bucket had none.
        return max(wanted, 0)


def bucket_loss(bucket: str, oldest: StreamMessage, revision: int, history: int) -> DataLoss:
    """Return the error for a key whose value at a revision no longer exists."""
    return DataLoss(
        f"bucket {bucket!r} has no value of key {key_of(oldest.subject)!r} as of revision "
        f"{revision}: it keeps {history} per key and the oldest is {oldest.seq}. Raise history, "
        'or set option("consistency", "best-effort") to get a newer one. If the DataFrame was '
        "loaded some time ago, load it again or call jetspark.spark.refresh on it"
    )


def _same(one: StreamState, other: StreamState) -> bool:
    """Whether nothing was written or removed between two reads of the state."""
    return (one.first_seq, one.last_seq, one.messages) == (
        other.first_seq,
        other.last_seq,
        other.messages,
    )
