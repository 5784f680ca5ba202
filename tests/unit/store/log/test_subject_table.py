"""Entries by subject, in less memory than a dict takes (hot-path.md, Memory)."""

import random

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


@pytest.mark.parametrize("count", [0, 1, 42, 43, 700, 1_400])
def test_many_subjects_together_find_the_entries_that_each_finds_alone(count: int) -> None:
    """Also while the table is moved to more slots, and after removals."""
    table = filled([b"s.%d" % number for number in range(count)])
    for entry in table.entries[::3]:
        table.remove(entry)
    rng = random.Random(count)
    asked = [b"s.%d" % rng.randint(0, count + 50) for _ in range(200)]
    asked += [b"s.%d" % number for number in range(count)]

    assert table.get_many(asked) == [table.get(subject) for subject in asked]
    assert table.get_many([]) == []


def test_a_slot_takes_at_most_a_third_of_what_a_dict_takes() -> None:
    """At least a third of the slots is used when it has just grown, each of eight bytes."""
    for count in (5_000, 21_845, 21_846, 30_000):
        table = filled([b"s.%d" % number for number in range(count)])

        assert len(table.slots) * 8 <= 24 * count


def test_entries_that_were_removed_are_not_found() -> None:
    table = filled([b"s.%d" % number for number in range(1_000)])
    for number in range(0, 1_000, 2):
        table.remove(table.entries[number])

    found = [table.get(b"s.%d" % number) for number in range(1_000)]
    assert [entry is None for entry in found] == [number % 2 == 0 for number in range(1_000)]
    assert table.used == 500


def test_a_table_of_which_little_is_left_becomes_smaller_and_keeps_it() -> None:
    table = filled([b"s.%d" % number for number in range(20_000)])
    for entry in table.entries[100:]:
        table.remove(entry)

    table.shrink()
    assert [table.get(entry.subject) for entry in table.entries[:100]] == table.entries[:100]
    while not table.move(1_000):
        assert [table.get(entry.subject) for entry in table.entries[:100]] == table.entries[:100]

    assert len(table.slots) <= 1_024
    assert [table.get(entry.subject) for entry in table.entries[:100]] == table.entries[:100]
    assert all(table.get(entry.subject) is None for entry in table.entries[100:])


@pytest.mark.parametrize("seed", range(20))
def test_the_table_is_a_dict_whatever_comes_and_goes(seed: int) -> None:
    """While it is moved to more or fewer slots, too."""
    rng = random.Random(seed)
    table = SubjectTable()
    model: dict[bytes, SubjectEntry] = {}
    subjects = [b"s.%d" % number for number in range(400)]
    for _ in range(3_000):
        growing = rng.random() < 0.5
        for subject in rng.sample(subjects, 3):
            if growing and subject not in model:
                entry = SubjectEntry(subject, len(table.entries))
                table.entries.append(entry)
                table.add(entry)
                model[subject] = entry
            elif not growing and subject in model:
                table.remove(model.pop(subject))
        if rng.random() < 0.05:
            table.shrink()
        if rng.random() < 0.1:
            table.move(rng.randint(1, 40))
        subject = rng.choice(subjects)
        assert table.get(subject) is model.get(subject)

    assert table.used == len(model)
    assert [table.get(subject) for subject in subjects] == [model.get(s) for s in subjects]
