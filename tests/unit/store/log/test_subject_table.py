"""Entries by subject, in less memory than a dict takes (hot-path.md, Memory)."""

import pytest

from jetspark.store.log.subject_table import SubjectEntry, SubjectTable


def filled(subjects: list[bytes]) -> SubjectTable:
    table = SubjectTable()
    for subject in subjects:
        entry = SubjectEntry(subject, len(table.entries))
        table.entries.append(entry)
        table.add(entry)
    return table


@pytest.mark.parametrize("count", [0, 1, 42, 43, 5_000])
def test_every_subject_finds_its_own_entry_and_others_find_none(count: int) -> None:
    """At 43 of 64 slots the table grows."""
    subjects = [b"s.%d" % number for number in range(count)]

    table = filled(subjects)

    found = [table.get(subject) for subject in subjects]
    assert found == table.entries
    assert [entry.subject for entry in table.entries] == subjects
    assert all(table.get(b"t.%d" % number) is None for number in range(count + 10))
    assert table.get(b"") is None
    assert table.used == count


def test_a_slot_takes_at_most_a_third_of_what_a_dict_takes() -> None:
    """At least a third of the slots is used when it has just grown, each of eight bytes."""
    for count in (5_000, 21_845, 21_846, 30_000):
        table = filled([b"s.%d" % number for number in range(count)])

        assert len(table.slots) * 8 <= 24 * count


def test_entries_that_lost_their_subjects_are_not_found() -> None:
    table = filled([b"s.%d" % number for number in range(1_000)])
    blank = SubjectEntry(b"", -1)
    for number in range(0, 1_000, 2):
        table.entries[number] = blank

    table.rebuild()

    found = [table.get(b"s.%d" % number) for number in range(1_000)]
    assert [entry is None for entry in found] == [number % 2 == 0 for number in range(1_000)]
    assert table.used == 500
    assert len(table.slots) == 1_024
