"""A filtered stream that is read in pages: each page knows how many messages follow it."""

import random

import pytest

from jetspark.engine.consumer.cursor import ROWS_PER_TURN, SEARCHING
from jetspark.engine.direct.pages import KEPT_MAX, Page, Pages
from jetspark.store.log.index import StreamIndex
from jetspark.subjects.match import matches

PATTERNS = (b"a.*", b"a.7", b"b.>", b"none.*")


def add(index: StreamIndex, subject: bytes) -> None:
    seq = index.last_seq + 1
    index.add_message(seq, index.entry(subject), 100, seq, 10)


def filled(rng: random.Random, count: int) -> StreamIndex:
    index = StreamIndex()
    index.add_segment(1, 1, 0, "s")
    for n in range(count):
        if n % 300 == 0:
            index.add_segment(1, index.last_seq + 1, 0, "s")
        add(index, random_subject(rng))
    return index


def random_subject(rng: random.Random) -> bytes:
    return b"%b.%d" % (rng.choice((b"a", b"b")), rng.randint(0, 20))


def following(index: StreamIndex, pattern: bytes, first: int) -> list[int]:
    found = []
    seq = index.next_seq(first, b"")
    while seq:
        columns = index.segment_of(seq)
        assert columns is not None
        if matches(index.entries[columns.subjects[seq - columns.base]].subject, pattern):
            found.append(int(seq))
        seq = index.next_seq(seq + 1, b"")
    return found


def counted(page: Page) -> int:
    while not page.cursor.count_some():
        pass
    return int(page.cursor.catch_up())


@pytest.mark.parametrize("seed", range(12))
def test_what_follows_a_page_is_exact_whatever_came_and_went_since_the_page_before(
    seed: int,
) -> None:
    rng = random.Random(seed)
    index = filled(rng, 1_000)
    pages = Pages(index)

    for _ in range(150):
        pattern = rng.choice(PATTERNS)
        first = rng.randint(1, index.last_seq + 2)
        page = pages.take(pattern, first)
        expected = following(index, pattern, first)
        assert counted(page) == len(expected)
        for seq in expected[: rng.randint(0, 30)]:
            assert page.cursor.peek() == seq
            page.cursor.advance(seq)
        if rng.random() < 0.2:
            add(index, random_subject(rng))
        for _ in range(rng.choice((0, 0, 3))):
            index.remove(index.first_seq)
        if rng.random() < 0.1:
            index.remove(rng.randint(1, index.last_seq))
        pages.keep(page)


def test_the_next_page_counts_only_the_rows_in_between() -> None:
    rng = random.Random(1)
    index = filled(rng, ROWS_PER_TURN + 1_000)
    pages = Pages(index)
    # Too many messages to follow each of the subjects.
    page = pages.take(b"a.*", ROWS_PER_TURN // 2)
    page.cursor.place(100)
    page.cursor.recount_later()
    left = counted(page)
    pages.keep(page)

    index.remove(index.first_seq)  # the oldest is none of them
    page = pages.take(b"a.*", 200)

    assert page.cursor.uncounted() == 0
    assert counted(page) == len(following(index, b"a.*", 200)) < left


def test_a_page_that_is_in_use_is_not_given_to_another_reader() -> None:
    pages = Pages(filled(random.Random(2), 100))

    one, other = pages.take(b"a.*", 1), pages.take(b"a.*", 1)
    assert one is not other
    pages.keep(one)
    pages.keep(other)

    assert pages.take(b"a.*", 5) is other
    for n in range(3 * KEPT_MAX):
        pages.keep(pages.take(b"a.%d" % n, 1))
    assert len(pages.kept) == KEPT_MAX


def test_a_message_far_ahead_is_searched_for_in_steps() -> None:
    index = StreamIndex()
    index.add_segment(1, 1, 0, "s")
    count = 2 * ROWS_PER_TURN + 10
    for n in range(count):
        add(index, b"a.1" if n in {0, count - 2} else b"b.1")
    page = Pages(index).take(b"a.*", 1)
    assert counted(page) == 2
    page.cursor.advance(1)

    steps = 0
    while (seq := page.cursor.peek()) == SEARCHING:
        steps += 1

    assert seq == count - 1
    assert steps > 0
