"""Filters of Spark turned into less to read (spark.md 6.2, push-down)."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from jetspark.spark.planner import SequenceRange
from jetspark.spark.push_down import Pushed, push

SEQ, TIME, SUBJECT = ("seq",), ("timestamp",), ("subject",)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOON_NS = 1_794_744_000 * 10**9


@pytest.mark.parametrize(
    ("filters", "first", "end"),
    [
        ([GreaterThan(SEQ, 5), LessThan(SEQ, 9)], 6, 9),
        ([GreaterThanOrEqual(SEQ, 5), LessThanOrEqual(SEQ, 9), IsNotNull(SEQ)], 5, 10),
        ([EqualTo(SEQ, 7)], 7, 8),
        ([EqualTo(SEQ, 7), GreaterThan(SEQ, 90)], 91, 91),
        ([LessThan(SEQ, -5)], 1, 1),
    ],
)
def test_comparisons_of_seq_are_a_range(filters: list[Filter], first: int, end: int) -> None:
    pushed, left = push(filters, with_subjects=True)

    assert left == []
    assert pushed.clamp(SequenceRange(1, 101)) == (first, end)


def test_times_are_left_to_spark_as_well() -> None:
    """Spark's microsecond may hold several of a stream's nanoseconds."""
    filters: list[Filter] = [GreaterThan(TIME, NOON), LessThanOrEqual(TIME, NOON)]

    pushed, left = push(filters, with_subjects=True)

    assert (pushed.since_ns, pushed.until_ns) == (NOON_NS, NOON_NS + 1000)
    assert left == filters


@pytest.mark.parametrize(
    ("one", "subjects"),
    [
        (EqualTo(SUBJECT, "a.b"), ("a.b",)),
        (In(SUBJECT, cast("Any", ["a", "b", "a"])), ("a", "b")),
        (StringStartsWith(SUBJECT, "a.b."), ("a.b.>",)),
    ],
)
def test_subjects_become_filters(one: Filter, subjects: tuple[str, ...]) -> None:
    assert push([one], with_subjects=True) == (Pushed(subjects=subjects), [])


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(SUBJECT, "a.*"),
        EqualTo(SUBJECT, "not a subject"),
        In(SUBJECT, cast("Any", ["a", ">"])),
        In(SUBJECT, cast("Any", [str(number) for number in range(99)])),
        StringStartsWith(SUBJECT, "a.b"),
        StringStartsWith(SUBJECT, "*."),
        StringContains(SUBJECT, "a"),
        Not(EqualTo(SEQ, 1)),
        EqualTo(("data",), b"x"),
        EqualTo(("headers", "seq"), 1),
    ],
)
def test_what_cannot_be_met_is_left_to_spark(one: Filter) -> None:
    assert push([one], with_subjects=True) == (Pushed(), [one])


def test_subjects_of_the_read_itself_stay() -> None:
    one = EqualTo(SUBJECT, "a.b")

    assert push([one], with_subjects=False) == (Pushed(), [one])
    assert push([one, EqualTo(SUBJECT, "c")], with_subjects=True)[1] == [EqualTo(SUBJECT, "c")]
