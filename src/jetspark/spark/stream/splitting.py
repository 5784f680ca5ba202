"""Splitting a range by its number of messages, not of sequences.

With a filter, or gaps, the messages of a stream are distributed unevenly: equal ranges would give
one task all the work. Probes count the messages after some sequences; the cuts are placed between
them.
"""

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

from jetspark import sync
from jetspark.spark.stream.planner import PARTITIONS_MAX, SequenceRange
from jetspark.sync.bulk import count_from

# A probe makes the server count, 3 ms for 200,000 messages: not worth it for few.
SPAN_MIN: Final = 10_000
PROBES_PER_CUT: Final = 8
PROBES_MAX: Final = 256


class CountPoint(NamedTuple):
    """The number of messages at or after a sequence."""

    seq: int
    remaining: int


def probe_places(whole: SequenceRange, parts: int, *, filters: int) -> list[int]:
    """Return the sequences to probe, from the first to the end, for this many parts."""
    probes = min(PROBES_PER_CUT * parts, max(2, PROBES_MAX // max(1, filters)))
    span = whole.end - whole.first
    places = {whole.first + span * step // probes for step in range(probes)}
    return sorted(places | {whole.end})


def plan_by_count(
    points: Sequence[CountPoint], *, min_partitions: int, max_records: int
) -> list[SequenceRange]:
    """Split the range from the first point to the last into parts of about equal counts.

    The whole range is always covered: counts may come from a copy that lags, which affects only
    the balance. Raises ``ValueError`` if there are more parts than Spark can plan.
    """
    first, end = points[0].seq, points[-1].seq
    if first >= end:
        return []
    falling = _falling(points)
    total = falling[0].remaining - falling[-1].remaining
    parts = max(1, min(max(min_partitions, -(-total // max_records)), total, end - first))
    if parts > PARTITIONS_MAX:
        raise ValueError(
            f"{total} messages would make {parts} partitions, more than {PARTITIONS_MAX}: "
            "raise maxRecordsPerPartition or lower minPartitions"
        )
    edges = [first]
    at = 0
    for cut in range(1, parts):
        wanted = falling[0].remaining - total * cut // parts
        while falling[at + 1].remaining > wanted:
            at += 1
        low, high = falling[at], falling[at + 1]
        share = (low.remaining - wanted) / max(1, low.remaining - high.remaining)
        edge = low.seq + round((high.seq - low.seq) * share)
        if edges[-1] < edge < end:
            edges.append(edge)
    edges.append(end)
    return [SequenceRange(low, high) for low, high in itertools.pairwise(edges)]


def count_points(
    stream: sync.Stream, places: Sequence[int], subjects: Sequence[str], *, min_last_seq: int = 0
) -> tuple[list[CountPoint], bool]:
    """Probe a stream; also return whether the answering copies proved to have a sequence."""
    totals = [0] * len(places)
    proven = True
    for subject in subjects or ("",):
        counted = count_from(stream, places, subject=subject, min_last_seq=min_last_seq)
        totals = [total + one.count for total, one in zip(totals, counted, strict=True)]
        proven = proven and all(one.proven for one in counted)
    points = [CountPoint(seq, total) for seq, total in zip(places, totals, strict=True)]
    return points, proven


def _falling(points: Sequence[CountPoint]) -> list[CountPoint]:
    """Return the points with counts that never rise, as in a consistent snapshot."""
    made: list[CountPoint] = []
    lowest = points[0].remaining
    for point in points:
        lowest = min(lowest, point.remaining)
        made.append(CountPoint(point.seq, lowest))
    return made
