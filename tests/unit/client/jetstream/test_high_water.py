from jetspark.client.jetstream.high_water import HighWater


def test_the_highest_sequence_of_each_stream_is_remembered() -> None:
    """design.md, "The client": a handle remembers the highest sequence it wrote or saw."""
    marks = HighWater(enabled=True)
    for stream, seq in (("A", 5), ("B", 2), ("A", 3)):
        marks.note(stream, seq)

    assert (marks.wanted("A"), marks.wanted("B"), marks.wanted("C")) == (5, 2, 0)


def test_a_deleted_stream_starts_anew() -> None:
    marks = HighWater(enabled=True)
    marks.note("A", 5)
    marks.forget("A")

    assert marks.wanted("A") == 0


def test_nothing_is_remembered_when_it_is_off() -> None:
    marks = HighWater(enabled=False)
    marks.note("A", 5)

    assert marks.wanted("A") == 0
