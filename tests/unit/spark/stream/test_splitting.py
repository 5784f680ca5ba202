"""Splitting a range by counts: pure decisions."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from jetspark.spark.stream.planner import SequenceRange
from jetspark.spark.stream.splitting import CountPoint, plan_by_count, probe_places


def _points(present: set[int], places: list[int]) -> list[CountPoint]:
    return [CountPoint(seq, sum(one >= seq for one in present)) for seq in places]


def test_the_parts_of_a_stream_that_is_dense_at_its_end_have_equal_counts() -> None:
    whole = SequenceRange(1, 100_001)
    present = set(range(90_001, 100_001))
    points = _points(present, probe_places(whole, 4, filters=1))

    parts = plan_by_count(points, min_partitions=4, max_records=250_000)

    counts = [len(present & set(range(part.first, part.end))) for part in parts]
    assert len(counts) == 4
    assert max(counts) - min(counts) <= 200


def test_few_matches_make_few_parts() -> None:
    whole = SequenceRange(1, 100_001)
    points = _points({500, 70_000}, probe_places(whole, 8, filters=1))

    parts = plan_by_count(points, min_partitions=8, max_records=250_000)

    assert len(parts) == 2
    assert parts[0].end <= 70_000


def test_many_matches_make_more_parts_than_asked_for() -> None:
    points = [CountPoint(1, 1_000_000), CountPoint(2_000_001, 0)]

    parts = plan_by_count(points, min_partitions=2, max_records=100_000)

    assert len(parts) == 10


def test_probes_are_bounded() -> None:
    whole = SequenceRange(1, 10**9)

    assert len(probe_places(whole, 4, filters=1)) == 33
    assert len(probe_places(whole, 100_000, filters=1)) <= 257
    assert len(probe_places(whole, 100_000, filters=16)) <= 17
    assert probe_places(SequenceRange(5, 7), 4, filters=0) == [5, 6, 7]


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(0, 50), min_size=2, max_size=20),
    step=st.integers(1, 1000),
    parts=st.integers(1, 30),
    most=st.integers(1, 100),
)
def test_every_sequence_is_in_one_part_whatever_the_counts_say(
    counts: list[int], step: int, parts: int, most: int
) -> None:
    """Copies that lag answer with any counts: that must never lose a row."""
    points = [CountPoint(1 + step * at, count) for at, count in enumerate(counts)]

    ranges = plan_by_count(points, min_partitions=parts, max_records=most)

    assert ranges[0].first == 1
    assert ranges[-1].end == points[-1].seq
    assert all(one.end == two.first for one, two in itertools.pairwise(ranges))
    assert all(one.first < one.end for one in ranges)
