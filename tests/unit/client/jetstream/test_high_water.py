import pytest

from jetspark.client.jetstream.high_water import HighWater


def test_the_highest_sequence_of_each_stream_is_remembered() -> None:
    """A handle remembers the highest sequence it wrote or saw."""
    marks = HighWater(enabled=True)
    for stream, seq in (("A", 5), ("B", 2), ("A", 3)):
        marks.note(stream, seq)

    assert (marks.wanted("A"), marks.wanted("B"), marks.wanted("C")) == (5, 2, 0)


def test_a_deleted_stream_starts_again() -> None:
    marks = HighWater(enabled=True)
    marks.note("A", 5)
    marks.forget("A")

    assert marks.wanted("A") == 0


def test_a_stream_that_was_created_again_starts_over_when_it_is_opened() -> None:
    """By any client: waiting for its old sequences would never end."""
    marks = HighWater(enabled=True)
    marks.opened("A", 1000)
    marks.note("A", 5)
    marks.opened("A", 1000)
    before = marks.wanted("A")
    marks.opened("A", 2000)

    assert (before, marks.wanted("A")) == (5, 0)


def test_what_was_asked_for_counts_when_it_is_higher() -> None:
    marks = HighWater(enabled=True)
    marks.note("A", 5)

    assert (marks.wanted("A", 3), marks.wanted("A", 7), marks.wanted("B", 1)) == (5, 7, 1)
    with pytest.raises(ValueError, match="min_last_seq=-1: expected at least 0"):
        marks.wanted("A", -1)


def test_nothing_is_remembered_when_it_is_off() -> None:
    marks = HighWater(enabled=False)
    marks.note("A", 5)

    assert marks.wanted("A") == 0
