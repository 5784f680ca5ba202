"""Which sequences a read covers, and how they are split into partitions. Pure decisions.

Ranges are half open, as offsets are in Spark's other sources: ``first`` is read, ``end`` is not.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark.errors import Error
from jetspark.spark.offsets import Offset
from jetspark.spark.options import SourceOptions, TriggerLimits

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
    """Messages that were asked for are not there; ``failOnDataLoss`` says whether that matters."""

    def __init__(self, text: str, *, resume_at: int = 1) -> None:
        super().__init__(text)
        self.resume_at = resume_at


def plan_range(options: SourceOptions, bounds: StreamBounds) -> SequenceRange:
    """Return the sequences to read, within what the stream has.

    A number outside of the stream is data loss (spark.md 6.2): ``DataLoss`` is raised, or with
    ``failOnDataLoss`` false the range shrinks to what is there.
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


def check_position(stream: str, start: Offset, created: str, bounds: StreamBounds) -> int:
    """Return the sequence from which a streaming read can go on.

    Raises ``DataLoss`` when that is not where it left off (spark.md 6.2); its ``resume_at`` says
    where the stream begins now.
    """
    earliest = max(bounds.first_seq, 1)
    if created != start.created:
        raise DataLoss(
            f"stream {stream!r} was made anew at {created}; the query has read the one of "
            f"{start.created} up to sequence {start.next - 1}. {_REMEDY}",
            resume_at=earliest,
        )
    if start.next < earliest:
        raise DataLoss(
            f"stream {stream!r} begins at {earliest}, the query has read up to "
            f"{start.next - 1}: the messages between were removed unread. {_REMEDY}",
            resume_at=earliest,
        )
    if start.next > bounds.last_seq + 1:
        raise DataLoss(
            f"stream {stream!r} ends at {bounds.last_seq}, the query has read up to "
            f"{start.next - 1}: it was restored from an older state. {_REMEDY}",
            resume_at=bounds.last_seq + 1,
        )
    return start.next


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


_REMEDY: Final = 'To read what there is, set option("failOnDataLoss", "false")'
