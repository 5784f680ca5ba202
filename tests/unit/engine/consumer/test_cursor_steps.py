"""What is left for a consumer of very many messages is counted, searched and listed in steps."""

import itertools
import random
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from jetspark.engine.consumer.cursor import (
    ROWS_PER_TURN,
    SEARCHING,
    SUBJECTS_PER_TURN,
    SUBJECTS_WORTH,
    Cursor,
    Listing,
)
from jetspark.store.log.index import StreamIndex
from jetspark.subjects.match import matches

COUNT = 2 * ROWS_PER_TURN + 100


@cache
def subjects() -> list[bytes]:
    rng = random.Random(1)
    return [b"s.%d.%d" % (rng.randint(0, 99), rng.randint(0, 19)) for _ in range(COUNT)]


def filled(extra: dict[int, bytes] | None = None) -> StreamIndex:
    index = StreamIndex()
    index.tracking = True
    index.add_segment(1, 1, 0, "s")
    for seq, subject in enumerate(subjects(), 1):
        add(index, (extra or {}).get(seq, subject))
    return index


def add(index: StreamIndex, subject: bytes) -> None:
    seq = index.last_seq + 1
    index.add_message(seq, index.entry(subject), 100, seq, 10)


def remove(index: StreamIndex, cursor: Cursor, seq: int) -> None:
    if index.remove(seq):
        cursor.removed(seq, index.removed_subjects[-1])


def subject_of(index: StreamIndex, seq: int) -> bytes:
    columns = index.segment_of(seq)
    assert columns is not None
    return index.entries[columns.subjects[seq - columns.base]].subject


def expected(index: StreamIndex, pattern: bytes, first: int = 1) -> list[int]:
    found = []
    seq = index.next_seq(first, b"")
    while seq:
        if matches(subject_of(index, seq), pattern):
            found.append(int(seq))
        seq = index.next_seq(seq + 1, b"")
    return found


@pytest.mark.parametrize("pattern", [b"s.*.*", b"*.*.7"])
def test_what_is_left_is_exact_whatever_comes_and_goes_between_the_steps(pattern: bytes) -> None:
    rng = random.Random(2)
    index = filled()
    cursor = Cursor(index, [pattern])
    cursor.next = 10
    cursor.recount()
    steps = 0

    while not cursor.count_some():
        steps += 1
        for _ in range(50):
            add(index, b"s.7.7")
            remove(index, cursor, rng.randint(1, COUNT))

    assert steps > 1 or cursor.uncounted() <= ROWS_PER_TURN
    assert cursor.catch_up() == len(expected(index, pattern, 10))


KEYS = 8_600
"""Subjects of each of two kinds: together more than are added up in one turn."""


def wide(seed: int) -> tuple[StreamIndex, random.Random]:
    """A stream of more subjects than are looked up one by one, in five segments, with holes."""
    rng = random.Random(seed)
    index = StreamIndex()
    index.tracking = True
    for _ in range(5):
        index.add_segment(1, index.last_seq + 1, 0, "s")
        for _ in range(SUBJECTS_WORTH * SUBJECTS_PER_TURN // 4):
            add(index, b"%b.%d" % (rng.choice((b"a", b"b")), rng.randint(0, KEYS)))
    for _ in range(5_000):
        index.remove(rng.randint(1, index.last_seq))
    return index, rng


def counted(index: StreamIndex, cursors: list[Cursor], change: Callable[[], None]) -> None:
    """Count for all of them in steps, with a change after each; the results are exact."""
    waiting = list(cursors)
    while waiting:
        waiting = [cursor for cursor in waiting if not cursor.count_some()]
        change()
    rows = [(seq, subject_of(index, seq)) for seq in expected(index, b">")]
    for cursor in cursors:
        pattern, first = cursor.filters[0] if cursor.filters else b">", cursor.next
        left = sum(seq >= first and matches(subject, pattern) for seq, subject in rows)
        assert cursor.catch_up() == left, pattern


def cursors_of(index: StreamIndex, patterns: Iterable[bytes], first: int) -> list[Cursor]:
    cursors = [Cursor(index, [pattern] if pattern else []) for pattern in patterns]
    for cursor in cursors:
        cursor.place(first)
        cursor.recount()
    return cursors


def removed(index: StreamIndex, cursors: list[Cursor], seq: int) -> None:
    if index.remove(seq):
        for cursor in cursors:
            cursor.removed(seq, index.removed_subjects[-1])


@pytest.mark.parametrize("ordered", [True, False])
def test_many_subjects_are_added_up_whatever_changes_between_the_steps(ordered: bool) -> None:
    index, rng = wide(int(ordered))
    if ordered:
        index.make_order()
    cursors = cursors_of(index, [b"", b">", b"a.>", b"*.*"], 1)
    cursors += cursors_of(index, [b"", b">", b"b.>"], 20_000)
    assert any(cursor.subject_count is not None for cursor in cursors)
    numbered = itertools.count()

    def change() -> None:
        for _ in range(50):
            add(index, b"a.new%d" % next(numbered))
            add(index, b"b.new%d" % next(numbered))
            add(index, b"a.%d" % rng.randint(0, KEYS))
            removed(index, cursors, rng.randint(1, index.last_seq))
            removed(index, cursors, index.last_seq - rng.randint(0, 10))

    counted(index, cursors, change)


def test_ids_that_are_given_to_other_subjects_between_the_steps_are_counted_once() -> None:
    index, rng = wide(3)
    cursors = cursors_of(index, [b"a.>", b"b.*"], 1)
    assert all(cursor.subject_count is not None for cursor in cursors)
    numbered = itertools.count()

    def change() -> None:
        # Most subjects lose all their messages, so that their ids are given to others.
        for entry in rng.sample(index.entries, len(index.entries) * 2 // 3):
            while entry.id >= 0 and entry.count > 0:
                removed(index, cursors, entry.first)
        index.recycle([])
        for _ in range(2_000):
            add(index, b"%b.new%d" % (rng.choice((b"a", b"b")), next(numbered)))

    counted(index, cursors, change)


@pytest.mark.parametrize("pattern", [b"", b">", b"s.>"])
def test_what_covers_all_subjects_is_counted_by_segments(pattern: bytes) -> None:
    index = filled()
    index.add_segment(1, index.last_seq + 1, 0, "t")
    add(index, b"s.1.1")
    index.remove(7)
    index.make_order()
    cursor = Cursor(index, [pattern] if pattern else [])

    cursor.recount()

    assert cursor.uncounted() < 10
    assert cursor.catch_up() == COUNT
    for _ in range(3):
        add(index, b"t.1.1")
    assert cursor.catch_up() == COUNT + (0 if pattern == b"s.>" else 3)


def test_few_subjects_are_counted_at_once() -> None:
    index = filled({5: b"rare.1", COUNT - 5: b"rare.2", COUNT - 4: b"rare.1"})
    cursor = Cursor(index, [b"rare.*"])

    cursor.recount()
    assert cursor.uncounted() == 0
    assert cursor.catch_up() == 3

    cursor.next = 6
    cursor.recount()
    assert cursor.uncounted() == 0
    assert cursor.catch_up() == 2
    assert cursor.peek() == COUNT - 5, "it knows where to look"


def test_a_message_far_ahead_is_found_in_some_turns() -> None:
    index = filled({5: b"rare.1", COUNT - 5: b"rare.2"})
    cursor = Cursor(index, [b"rare.*"])
    cursor.recount()
    cursor.catch_up()

    assert cursor.peek() == 5
    cursor.advance(5)
    turns = 0
    while (found := cursor.peek()) == SEARCHING:
        turns += 1

    assert found == COUNT - 5
    assert turns >= 1
    assert cursor.next == 6, "it is where it was delivered to"


def test_the_last_of_each_subject_is_that_of_when_it_was_asked_for() -> None:
    index = filled()
    numbered = enumerate(subjects(), 1)
    last = {subject: seq for seq, subject in numbered if matches(subject, b"s.*.3")}
    listing = Listing(Cursor(index, [b"s.*.3"]))
    steps = 1

    while not listing.step():
        steps += 1
        for n in range(100):
            add(index, b"s.%d.3" % n)

    assert steps == 3
    assert [int(seq) for seq in listing.found] == sorted(last.values())


def test_listed_messages_that_went_are_not_counted() -> None:
    index = filled()
    cursor = Cursor(index, [b"s.*.*"])
    listing = Listing(cursor)
    while not listing.step():
        pass
    listed = [int(seq) for seq in listing.found]
    index.remove(listed[0])
    cursor.listed = listing.found
    cursor.next = index.last_seq + 1
    cursor.recount()
    remove(index, cursor, listed[1])  # not counted yet

    assert cursor.catch_up() == len(listed) - 2
    remove(index, cursor, listed[2])
    assert cursor.catch_up() == len(listed) - 3
    assert cursor.peek() == listed[3]
