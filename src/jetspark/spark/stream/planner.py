"""The sequences that a read covers, and their split into partitions. Pure decisions.

Ranges are half-open, like offsets in Spark's other sources: ``first`` is read, ``end`` is not.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark.errors import Error
from jetspark.spark.stream.offsets import BatchPlan, Offset
from jetspark.spark.stream.options import OnRecreate, SourceOptions, TriggerLimits

# Spark's driver keeps several objects per task of a stage; it is slow far below this number.
PARTITIONS_MAX: Final = 100_000


class StreamBounds(NamedTuple):
    """The range of a stream, from STREAM.INFO."""

    first_seq: int
    """The oldest message; in an empty stream the next sequence, or 0 if it never had one."""
    last_seq: int


class SequenceRange(NamedTuple):
    """The sequences of one partition."""

    first: int
    end: int


class DataLoss(Error):
    """Requested messages no longer exist; ``failOnDataLoss`` decides whether that is an error.

    ``resume_at`` is where a streaming read that accepts the loss continues; ``expired`` means that
    the stream only removed its oldest messages.
    """

    def __init__(self, text: str, *, resume_at: int = 1, expired: bool = False) -> None:
        super().__init__(text)
        self.resume_at = resume_at
        self.expired = expired


class StreamRecreated(DataLoss):
    """The stream is not the one read before; ``onRecreate`` decides what to do."""


def plan_range(options: SourceOptions, bounds: StreamBounds) -> SequenceRange:
    """Return the sequences to read, within the stream.

    A sequence outside the stream is data loss: ``DataLoss`` is raised, or with ``failOnDataLoss``
    false the range is reduced to the stream.
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
    """Split ``whole`` into ranges that differ by at most one in length; none if it is empty.

    At least ``min_partitions`` of them, as long as each has a sequence, and none with more than
    ``max_records`` sequences. Raises ``ValueError`` if there are more than Spark can plan.
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


class Unread(NamedTuple):
    """What a micro-batch could read of one stream."""

    first: int
    end: int
    mean_size: float
    """Mean size of a message in bytes."""


def admit(
    unread: Sequence[Unread], limits: TriggerLimits, *, waited_s: float | None, turn: int = 0
) -> list[int]:
    """Return where a micro-batch ends in each stream; at its first sequence: nothing is read.

    ``waited_s`` is how long the first message has been delayed for ``minOffsetsPerTrigger``; None
    if nothing may be delayed. ``turn`` is the number of the micro-batch: if the limits do not even
    allow one message of each stream, the streams take turns.
    """
    counts = [each.end - each.first for each in unread]
    few = sum(counts) < limits.min_offsets
    if waited_s is not None and few and waited_s < limits.max_delay_s:
        return [each.first for each in unread]
    if limits.max_offsets is not None:
        counts = share(limits.max_offsets, counts, turn=turn)
    if limits.max_bytes is not None:
        counts = _within_bytes(limits.max_bytes, counts, unread, turn)
    return [each.first + count for each, count in zip(unread, counts, strict=True)]


def share(limit: int, wanted: Sequence[int], *, turn: int = 0) -> list[int]:
    """Divide ``limit`` in proportion to ``wanted``, and never more than that.

    One each comes first, so that a stream with few messages does not wait until the others have
    caught up; if the limit is lower than the number of streams, ``turn`` decides who goes first.
    """
    if sum(wanted) <= limit:
        return list(wanted)
    order = [(turn + step) % len(wanted) for step in range(len(wanted))]
    shares = [0] * len(wanted)
    for at in order:
        shares[at] = min(1, wanted[at], limit - sum(shares))
    left = limit - sum(shares)
    rest = [want - have for want, have in zip(wanted, shares, strict=True)]
    shares = [have + left * more // sum(rest) for have, more in zip(shares, rest, strict=True)]
    for at in order:
        shares[at] += min(1, wanted[at] - shares[at], limit - sum(shares))
    return shares


def _within_bytes(
    limit: int, counts: Sequence[int], unread: Sequence[Unread], turn: int
) -> list[int]:
    sizes = [each.mean_size for each in unread]
    wanted = [math.ceil(count * size) for count, size in zip(counts, sizes, strict=True)]
    given = share(limit, wanted, turn=turn)
    fitting = [
        count if have == want else int(have / size)
        for count, size, want, have in zip(counts, sizes, wanted, given, strict=True)
    ]
    if not any(fitting) and any(counts):
        # At least one: a message larger than the limit must not stop the query forever.
        order = [(turn + step) % len(counts) for step in range(len(counts))]
        fitting[next(at for at in order if counts[at])] = 1
    return fitting


def plan_batch(
    whole: SequenceRange, subjects: Sequence[str], *, min_partitions: int, max_records: int
) -> BatchPlan:
    """Return the plan of a micro-batch, for its end offset; split by ``plan_partitions``."""
    parts = plan_partitions(whole, min_partitions=min_partitions, max_records=max_records)
    return BatchPlan(whole.first, tuple(part.first for part in parts[1:]), tuple(subjects))


def planned_ranges(plan: BatchPlan, end: int, bounds: StreamBounds) -> list[SequenceRange]:
    """Return the partitions of a planned micro-batch, each clipped to the stream.

    Split first, then clipped: a range that has lost all of its messages is empty but keeps its
    index, so that a message is in the same partition in every run.
    """
    edges = [plan.first, *plan.cuts, end]
    beyond = bounds.last_seq + 1
    ranges: list[SequenceRange] = []
    for low, high in itertools.pairwise(edges):
        first = max(low, min(bounds.first_seq, high))
        ranges.append(SequenceRange(first, max(first, min(high, beyond))))
    return ranges


def emptied_ranges(plan: BatchPlan, end: int) -> list[SequenceRange]:
    """Return the partitions of a planned micro-batch whose messages no longer exist.

    Empty, but as many as before: the partitions of other streams keep their index.
    """
    return [SequenceRange(high, high) for high in (*plan.cuts, end)]


def check_position(
    stream: str,
    start: Offset,
    created: str,
    bounds: StreamBounds,
    on_recreate: OnRecreate = OnRecreate.FAIL,
) -> int:
    """Return the sequence at which a streaming read can continue.

    Raises ``DataLoss`` if that is not where it stopped; its ``resume_at`` is the current start of
    the stream. Raises ``StreamRecreated`` for another stream of the same name, unless
    ``on_recreate`` allows to continue.
    """
    earliest = max(bounds.first_seq, 1)
    if created != start.created:
        if on_recreate is OnRecreate.EARLIEST:
            return earliest
        if on_recreate is OnRecreate.FAIL or start.next > bounds.last_seq + 1:
            raise recreated(stream, start, created, bounds, on_recreate)
    if start.next < earliest:
        raise DataLoss(
            f"stream {stream!r} starts at {earliest}, but the query has read up to "
            f"{start.next - 1}: the messages between were removed unread. {_REMEDY}",
            resume_at=earliest,
            expired=True,
        )
    if start.next > bounds.last_seq + 1:
        raise DataLoss(
            f"stream {stream!r} ends at {bounds.last_seq}, but the query has read up to "
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
    """Return whether anything of a planned micro-batch is left to read.

    Raises ``DataLoss`` if it is incomplete, ``StreamRecreated`` like ``check_position``.
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
            f"stream {stream!r} starts at {earliest}: older messages of {planned} were removed "
            f"after it was planned. {_REMEDY}",
            expired=True,
        )
    return True


def recreated(
    stream: str, reached: Offset, created: str, bounds: StreamBounds, on_recreate: OnRecreate
) -> StreamRecreated:
    """Return the error for a stream that is not the one in the checkpoint."""
    what = (
        f"stream {stream!r} was created again: this one was created at {created}, the query has "
        f"read the one created at {reached.created} up to sequence {reached.next - 1}"
    )
    if on_recreate is OnRecreate.CONTINUE:
        return StreamRecreated(
            f"{what}, and onRecreate is continue, but this one ends at {bounds.last_seq}: it is "
            "not a complete copy. Wait until it is, or set "
            'option("onRecreate", "earliest") to read it from its beginning'
        )
    return StreamRecreated(
        f'{what}. To read the new stream from its beginning set option("onRecreate", "earliest"); '
        "if it is a copy with the same sequences (a mirror, a restored backup, another cluster) "
        f'set option("onRecreate", "continue") to continue at {reached.next}; with "fail", the '
        "default, the query stops here"
    )


def first_missing(sequences: Sequence[int], expected: int) -> int | None:
    """Return the lowest sequence from ``expected`` that is missing in the ascending ``sequences``.

    None if there is no gap; ``sequences`` is not empty.
    """
    if sequences[-1] - expected + 1 == len(sequences):
        return None
    return next(want for want, got in enumerate(sequences, expected) if want != got)


def _check_kept(options: SourceOptions, earliest: int, beyond: int) -> None:
    """Raise ``DataLoss`` if a sequence given by number is not in the stream."""
    start, end = options.starting_seq, options.ending_seq
    if start is not None and start < earliest and start != end:
        raise DataLoss(
            f"startingOffsets is {start}, but stream {options.stream!r} starts at {earliest}: "
            f"older messages were removed. {_REMEDY}"
        )
    for name, seq in (("startingOffsets", start), ("endingOffsets", end)):
        if seq is not None and seq > beyond:
            raise DataLoss(
                f"{name} is {seq}, but the last sequence of stream {options.stream!r} is "
                f"{beyond - 1}. {_REMEDY}"
            )


_REMEDY: Final = 'To read what is left, set option("failOnDataLoss", "false")'
