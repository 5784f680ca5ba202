"""What is left for a consumer of very many messages is counted, searched and listed in steps."""

import random
from functools import cache

import pytest

from jetspark.engine.consumer.cursor import ROWS_PER_TURN, SEARCHING, Cursor, Listing
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


def expected(index: StreamIndex, pattern: bytes, first: int = 1) -> list[int]:
    found = []
    seq = index.next_seq(first, b"")
    while seq:
        columns = index.segment_of(seq)
        assert columns is not None
        if matches(index.entries[columns.subjects[seq - columns.base]].subject, pattern):
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
