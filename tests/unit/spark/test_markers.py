"""Batches with markers (spark.md 6.4, C): what a replay makes again, and where it goes on."""

import pytest

pytest.importorskip("pyspark")

from jetspark.spark.markers import ROWS_PER_BATCH, Marker, ReplayRefused, resume_at, split
from jetspark.spark.sink_rows import Rows


def _rows(count: int, first: int = 0) -> Rows:
    payloads = [b"%d" % number for number in range(first, first + count)]
    return Rows(["s"] * count, payloads, [b""] * count, None, None)


def _reversed(rows: Rows) -> Rows:
    return Rows(rows.subjects, rows.payloads[::-1], rows.headers, None, None)


def test_batches_do_not_depend_on_the_order_of_rows() -> None:
    rows = _rows(2 * ROWS_PER_BATCH + 1)

    batches, again = split(rows, 5), split(_reversed(rows), 5)

    assert [len(batch.places) for batch in batches] == [ROWS_PER_BATCH, ROWS_PER_BATCH, 1]
    assert [batch.marker for batch in batches] == [batch.marker for batch in again]
    assert [batch.marker.final for batch in batches] == [False, False, True]


def test_a_new_epoch_begins_at_the_start() -> None:
    batches = split(_rows(10), 5)

    assert resume_at(batches, 5, None) == 0
    assert resume_at(batches, 5, Marker(4, 7, True, "old")) == 0


def test_a_replay_goes_on_behind_its_marker() -> None:
    batches = split(_rows(3000), 5)

    assert resume_at(batches, 5, batches[1].marker) == 2
    assert resume_at(batches, 5, batches[-1].marker) == len(batches)


def test_a_run_that_is_behind_is_refused() -> None:
    with pytest.raises(ReplayRefused, match="epoch 5 comes too late: epoch 6 is stored"):
        resume_at(split(_rows(1), 5), 5, Marker(6, 0, True, "x"))


def test_a_replay_with_other_rows_is_refused() -> None:
    stored = split(_rows(10), 5)[0].marker

    with pytest.raises(ReplayRefused, match="other rows"):
        resume_at(split(_rows(10, first=1), 5), 5, stored)
    with pytest.raises(ReplayRefused, match="other rows"):
        resume_at([], 5, stored)
