"""Ranges and partitions of a batch read."""

import itertools

import msgspec
import pytest

from jetspark.spark.connection_settings import Connection
from jetspark.spark.stream.options import SourceOptions
from jetspark.spark.stream.planner import (
    PARTITIONS_MAX,
    DataLoss,
    SequenceRange,
    StreamBounds,
    first_missing,
    plan_partitions,
    plan_range,
)

OPTIONS = SourceOptions(connection=Connection(servers=("nats://h:4222",)), stream="ORDERS")


def _options(
    start: int | None = None, end: int | None = None, *, strict: bool = True
) -> SourceOptions:
    return msgspec.structs.replace(
        OPTIONS, starting_seq=start, ending_seq=end, fail_on_data_loss=strict
    )


@pytest.mark.parametrize(
    ("options", "bounds", "expected"),
    [
        pytest.param(_options(), (1, 100), (1, 101), id="everything"),
        pytest.param(_options(), (40, 100), (40, 101), id="earliest is the first that is left"),
        pytest.param(_options(end=50), (1, 100), (1, 50), id="the end is exclusive"),
        pytest.param(_options(50), (1, 100), (50, 101), id="the start is inclusive"),
        pytest.param(_options(50, 50), (1, 100), (50, 50), id="nothing asked for"),
        pytest.param(_options(3, 3), (40, 100), (40, 40), id="nothing asked for, long gone"),
        pytest.param(_options(101), (1, 100), (101, 101), id="caught up"),
        pytest.param(_options(end=10), (40, 100), (40, 40), id="the end lies before the earliest"),
        pytest.param(_options(), (0, 0), (1, 1), id="a stream that never had a message"),
        pytest.param(_options(), (101, 100), (101, 101), id="a purged stream"),
        pytest.param(_options(), (1000, 999), (1000, 1000), id="an empty stream with first_seq"),
    ],
)
def test_the_range_within_the_stream(
    options: SourceOptions, bounds: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert plan_range(options, StreamBounds(*bounds)) == expected


@pytest.mark.parametrize(
    ("start", "end", "bounds", "text", "kept"),
    [
        pytest.param(5, None, (40, 100), "starts at 40", (40, 101), id="expired unread"),
        pytest.param(5, 20, (40, 100), "starts at 40", (40, 40), id="all of it expired"),
        pytest.param(200, None, (1, 100), "is 100", (101, 101), id="the stream is shorter"),
        pytest.param(None, 200, (1, 100), "is 100", (1, 101), id="the end is not written yet"),
        pytest.param(1, None, (101, 100), "starts at 101", (101, 101), id="purged"),
    ],
)
def test_numbers_outside_the_stream_are_data_loss(
    start: int | None,
    end: int | None,
    bounds: tuple[int, int],
    text: str,
    kept: tuple[int, int],
) -> None:
    """Refused with failOnDataLoss, otherwise what exists is read."""
    with pytest.raises(DataLoss, match=rf"'ORDERS'.*{text}.*failOnDataLoss"):
        plan_range(_options(start, end), StreamBounds(*bounds))

    assert plan_range(_options(start, end, strict=False), StreamBounds(*bounds)) == kept


@pytest.mark.parametrize("count", [1, 2, 7, 99, 1000, 250_001])
@pytest.mark.parametrize("min_partitions", [1, 2, 3, 8])
@pytest.mark.parametrize("max_records", [1000, 250_000])
def test_partitions_cover_the_range_once_and_evenly(
    count: int, min_partitions: int, max_records: int
) -> None:
    whole = SequenceRange(17, 17 + count)

    parts = plan_partitions(whole, min_partitions=min_partitions, max_records=max_records)

    sizes = [part.end - part.first for part in parts]
    assert parts[0].first == whole.first
    assert parts[-1].end == whole.end
    assert all(a.end == b.first for a, b in itertools.pairwise(parts))
    assert max(sizes) <= max_records
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
    assert len(parts) >= min(min_partitions, count)


def test_an_empty_range_has_no_partitions() -> None:
    assert plan_partitions(SequenceRange(5, 5), min_partitions=8, max_records=10) == []


def test_more_partitions_than_spark_can_plan_are_refused() -> None:
    whole = SequenceRange(1, PARTITIONS_MAX + 2)

    with pytest.raises(ValueError, match="maxRecordsPerPartition"):
        plan_partitions(whole, min_partitions=1, max_records=1)


@pytest.mark.parametrize(
    ("sequences", "expected", "missing"),
    [
        ([5, 6, 7], 5, None),
        ([6, 7], 5, 5),
        ([5, 7, 8], 5, 6),
        ([5, 6, 9], 5, 7),
    ],
)
def test_the_first_hole_of_a_run_is_found(
    sequences: list[int], expected: int, missing: int | None
) -> None:
    assert first_missing(sequences, expected) == missing
