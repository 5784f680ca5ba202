"""Which sequences a read covers, and how they are split into partitions. Pure decisions.

Ranges are half open, as offsets are in Spark's other sources: ``first`` is read, ``end`` is not.
"""

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark.errors import Error
from jetspark.spark.stream.offsets import BatchPlan, Offset
from jetspark.spark.stream.options import OnRecreate, SourceOptions, TriggerLimits

# Spark's driver keeps several objects for each task of a stage; far below this it already crawls.
PARTITIONS_MAX: Final = 100_000


class StreamBounds(NamedTuple):
    """What STREAM.INFO says about where a stream begins and ends."""

    first_seq: int
    """The oldest message; in an empty stream the next number, or 0 when it never had one."""
    last_seq: int


class SequenceRange(NamedTuple):
    """The sequences of one partition."""

    first: int
    end: int


class DataLoss(Error):
    """Messages that were asked for are gone; ``failOnDataLoss`` says whether that matters.

    ``resume_at`` is where a streaming read that accepts the loss continues, and ``expired`` says
    that the stream only removed its oldest messages.
    """

    def __init__(self, text: str, *, resume_at: int = 1, expired: bool = False) -> None:
        super().__init__(text)
        self.resume_at = resume_at
        self.expired = expired


class StreamRecreated(DataLoss):
    """The stream is not the one that was read before; ``onRecreate`` says what to do."""


def plan_range(options: SourceOptions, bounds: StreamBounds) -> SequenceRange:
    """Return the sequences to read, within what the stream has.

    A number outside of the stream is data loss: ``DataLoss`` is raised, or with ``failOnDataLoss``
    false the range shrinks to what the stream has.
    """
    earliest = max(bounds.first_seq, 1)
    beyond = bounds.last_seq + 1
    if options.fail_on_data_loss:
        _check_kept(options, earliest, beyond)
    start = earliest if options.starting_seq is None else options.starting_seq
    end = beyond if options.ending_seq is None else options.ending_seq
    start = min(max(start, earliest), beyond)
    return SequenceRange(start, max(start, min(end, beyond)))


def plan_partitions(
    whole: SequenceRange, *, min_partitions: int, max_records: int
) -> list[SequenceRange]:
    """Split ``whole`` into ranges that differ by at most one in length; none when it is empty.

    At least ``min_partitions`` of them, as long as each has a sequence, and none with more than
    ``max_records`` sequences. Raises ``ValueError`` when these would be more than Spark can plan.
    """
    count = whole.end - whole.first
    if count <= 0:
        return []
    parts = min(max(min_partitions, -(-count // max_records)), count)
    if parts > PARTITIONS_MAX:
        raise ValueError(
            f"{count} sequences would make {parts} partitions, more than {PARTITIONS_MAX}: "
            "raise maxRecordsPerPartition or lower minPartitions"
        )
    edges = [whole.first + count * part // parts for part in range(parts + 1)]
    return [SequenceRange(edges[part], edges[part + 1]) for part in range(parts)]


def admit(
    first: int, end: int, limits: TriggerLimits, *, mean_size: float, waited_s: float | None
) -> int:
    """Return where a micro-batch ends that could take the sequences from ``first`` to ``end``.

    ``waited_s`` is how long the first of them has been held back for ``minOffsetsPerTrigger``;
    None when nothing may be held back.
    """
    count = end - first
    if count <= 0:
        return first
    if waited_s is not None and count < limits.min_offsets and waited_s < limits.max_delay_s:
        return first
    if limits.max_offsets is not None:
        count = min(count, limits.max_offsets)
    if limits.max_bytes is not None and mean_size > 0:
        # At least one: a message larger than the limit must not stop the query for ever.
        count = min(count, max(1, int(limits.max_bytes / mean_size)))
    return first + count


def plan_batch(
    whole: SequenceRange, subjects: Sequence[str], *, min_partitions: int, max_records: int
) -> BatchPlan:
    """Return how a micro-batch is read, for its end offset; split as ``plan_partitions`` does."""
    parts = plan_partitions(whole, min_partitions=min_partitions, max_records=max_records)
    return BatchPlan(whole.first, tuple(part.first for part in parts[1:]), tuple(subjects))


def planned_ranges(plan: BatchPlan, end: int, bounds: StreamBounds) -> list[SequenceRange]:
    """Return the partitions of a planned micro-batch, each without what the stream lacks.

    Cut first, then clipped: a range that has lost all of its messages is empty but keeps its
    number, so that a message is in the same partition in every run.
    """
    edges = [plan.first, *plan.cuts, end]
    beyond = bounds.last_seq + 1
    ranges: list[SequenceRange] = []
    for low, high in itertools.pairwise(edges):
        first = max(low, min(bounds.first_seq, high))
        ranges.append(SequenceRange(first, max(first, min(high, beyond))))
    return ranges


def check_position(
    stream: str,
    start: Offset,
    created: str,
    bounds: StreamBounds,
    on_recreate: OnRecreate = OnRecreate.FAIL,
) -> int:
    """Return the sequence from which a streaming read can continue.

    Raises ``DataLoss`` when that is not where it stopped; its ``resume_at`` says where the stream
    begins now. Raises ``StreamRecreated`` for another stream of the same name, unless
    ``on_recreate`` says how to continue.
    """
    earliest = max(bounds.first_seq, 1)
    if created != start.created:
        if on_recreate is OnRecreate.EARLIEST:
            return earliest
        if on_recreate is OnRecreate.FAIL or start.next > bounds.last_seq + 1:
            raise recreated(stream, start, created, bounds, on_recreate)
    if start.next < earliest:
        raise DataLoss(
            f"stream {stream!r} begins at {earliest}, the query has read up to "
            f"{start.next - 1}: the messages between were removed unread. {_REMEDY}",
            resume_at=earliest,
            expired=True,
        )
    if start.next > bounds.last_seq + 1:
        raise DataLoss(
            f"stream {stream!r} ends at {bounds.last_seq}, the query has read up to "
            f"{start.next - 1}: it was restored from an older state. {_REMEDY}",
            resume_at=bounds.last_seq + 1,
        )
    return start.next


def check_planned(
    stream: str,
    plan: BatchPlan,
    end: Offset,
    created: str,
    bounds: StreamBounds,
    on_recreate: OnRecreate,
) -> bool:
    """Say whether anything of a planned micro-batch is left to read.

    Raises ``DataLoss`` when it is not complete, ``StreamRecreated`` as ``check_position`` does.
    """
    if created != end.created:
        if on_recreate is OnRecreate.EARLIEST:
            return False
        if on_recreate is OnRecreate.FAIL or end.next > bounds.last_seq + 1:
            raise recreated(stream, end, created, bounds, on_recreate)
    planned = f"the micro-batch of sequences {plan.first} to {end.next - 1}"
    if end.next > bounds.last_seq + 1:
        raise DataLoss(
            f"stream {stream!r} ends at {bounds.last_seq}, before the end of {planned}: it was "
            f"restored from an older state. {_REMEDY}"
        )
    earliest = max(bounds.first_seq, 1)
    if plan.first < earliest:
        raise DataLoss(
            f"stream {stream!r} begins at {earliest}: older messages of {planned} were removed "
            f"after it was planned. {_REMEDY}",
            expired=True,
        )
    return True


def recreated(
    stream: str, reached: Offset, created: str, bounds: StreamBounds, on_recreate: OnRecreate
) -> StreamRecreated:
    """Return the error for a stream that is not the one of the checkpoint."""
    what = (
        f"stream {stream!r} was created again: this one is of {created}, the query has read the "
        f"one of {reached.created} up to sequence {reached.next - 1}"
    )
    if on_recreate is OnRecreate.CONTINUE:
        return StreamRecreated(
            f"{what}, and onRecreate is continue, but this one ends at {bounds.last_seq}: it is "
            "no complete copy. Wait until it is, or set "
            'option("onRecreate", "earliest") to read it from its beginning'
        )
    return StreamRecreated(
        f'{what}. To read the new stream from its beginning set option("onRecreate", "earliest"); '
        "if it is a copy with the same sequences (a mirror, a restored backup, another cluster) "
        f'set option("onRecreate", "continue") to continue at {reached.next}; with "fail", the '
        "default, the query stops here"
    )


def first_missing(sequences: Sequence[int], expected: int) -> int | None:
    """Return the lowest sequence from ``expected`` on that is not among the ascending ones given.

    None when they are a run without a hole; ``sequences`` is not empty.
    """
    if sequences[-1] - expected + 1 == len(sequences):
        return None
    return next(want for want, got in enumerate(sequences, expected) if want != got)


def _check_kept(options: SourceOptions, earliest: int, beyond: int) -> None:
    """Raise ``DataLoss`` when a sequence that was asked for by number is not in the stream."""
    start, end = options.starting_seq, options.ending_seq
    if start is not None and start < earliest and start != end:
        raise DataLoss(
            f"startingOffsets is {start}, but stream {options.stream!r} begins at {earliest}: "
            f"older messages were removed. {_REMEDY}"
        )
    for name, seq in (("startingOffsets", start), ("endingOffsets", end)):
        if seq is not None and seq > beyond:
            raise DataLoss(
                f"{name} is {seq}, but the last sequence of stream {options.stream!r} is "
                f"{beyond - 1}. {_REMEDY}"
            )


_REMEDY: Final = 'To read what is left, set option("failOnDataLoss", "false")'
