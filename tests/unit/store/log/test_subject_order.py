"""A wildcard looks only at subjects that can match, and finds each of them."""

import random

import pytest

from jetspark.store.log.index import StreamIndex
from jetspark.store.log.subject_order import SubjectOrder
from jetspark.subjects.match import matches

PATTERNS = (
    b"a.>", b"a.*", b"a.b.*", b"a.b.>", b"a.*.c", b"*.b", b">", b"b.*.>", b"a-b.*", b"*", b"*.*.c",
    b"*.a-b", b"*.*.*.0", b"a.*.*", b"0.*.c.>", b"*.c.*", b"a..*", b"none.*", b"*.none", b"a.>.b",
)  # fmt: skip
WORDS = (b"a", b"b", b"c", b"a-b", b"a/b", b"0", b"\xff", b"a$")


def subjects(rng: random.Random, count: int) -> list[bytes]:
    return [b".".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4))) for _ in range(count)]


def filled(index: StreamIndex, subjects: list[bytes]) -> None:
    if not index.segments:
        index.add_segment(1, 1, 0, "s")
    for subject in subjects:
        index.add_message(index.last_seq + 1, index.entry(subject), 100, index.last_seq + 1, 10)


def like(index: StreamIndex, pattern: bytes) -> list[bytes]:
    return sorted(entry.subject for entry in index.entries_like(pattern) if entry.count > 0)


def in_steps(order: SubjectOrder, pattern: bytes, units: int) -> list[bytes]:
    found: list[bytes] = []
    following = order.matching(pattern, b"", units, found)
    while following:
        following = order.matching(pattern, following, units, found)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_every_matching_subject_is_found_whenever_it_came(seed: int) -> None:
    rng = random.Random(seed)
    index = StreamIndex()
    known: set[bytes] = set()

    for turn in range(6):
        more = subjects(rng, rng.randint(0, 60))
        filled(index, more)
        known.update(more)
        if turn == 1:
            index.order_step()  # what comes from now on comes while it is made
        elif turn == 2:
            index.make_order()

        for pattern in PATTERNS:
            expected = sorted(s for s in known if matches(s, pattern))
            assert like(index, pattern) == expected
            if turn >= 2:
                assert in_steps(index.order, pattern, rng.randint(1, 50)) == expected


def test_blocks_that_grow_are_divided() -> None:
    index = StreamIndex()
    filled(index, [b"a.%d.x" % n for n in range(100)])
    index.make_order()

    filled(index, [b"a.%d.%d" % (n % 70, n) for n in range(5_000)])

    assert len(index.order.blocks) > 4
    for pattern in (b"a.7.*", b"a.*.x", b"a.*.71", b">", b"*.*.4999"):
        expected = [s for s in sorted(e.subject for e in index.entries) if matches(s, pattern)]
        assert in_steps(index.order, pattern, 64) == expected


def test_a_pattern_passes_over_what_cannot_match() -> None:
    index = StreamIndex()
    filled(index, [b"a%d.k%d" % (a, k) for a in range(40) for k in range(100)])
    index.make_order()
    found: list[bytes] = []

    # In units of which each subject that is looked at takes two, and each leap four.
    assert index.order.matching(b"a7.*", b"", 300, found) == b""
    assert len(found) == 100
    assert index.order.matching(b"*.k7", b"", 600, found) == b""
    assert len(found) == 140


@pytest.mark.parametrize("count", [3, 6_000])
def test_a_pattern_that_covers_all_subjects_is_known_as_such(count: int) -> None:
    index = StreamIndex()
    filled(index, [b"a.%d.x" % n for n in range(count)])
    index.make_order()

    assert index.all_match(b">")
    assert index.all_match(b"a.>")
    assert not index.all_match(b"a.1.>")
    assert not index.all_match(b"*.*.*"), "that would have to be looked up"
    filled(index, [b"a-b.x"])
    assert not index.all_match(b"a.>")


def test_subjects_that_come_while_the_order_is_made_are_added_in_steps() -> None:
    index = StreamIndex()
    filled(index, [b"a.%d.x" % n for n in range(3_000)])
    index.order_step()
    late = [b"b.%d.x" % n for n in range(3_000)]
    filled(index, late)
    steps = 1

    while not index.order_step():
        steps += 1
        filled(index, [b"c.%d" % steps])

    assert steps > 2
    assert in_steps(index.order, b"b.>", 64) == sorted(late)
    assert in_steps(index.order, b"c.>", 64) == sorted(b"c.%d" % n for n in range(2, steps + 1))


def test_subjects_that_went_are_forgotten() -> None:
    index = StreamIndex()
    filled(index, [b"a.%d" % n for n in range(10)])
    index.make_order()
    assert len(like(index, b"a.*")) == 10
    for seq in range(1, 10):
        index.remove(seq)

    index.recycle([])
    filled(index, [b"a.x"])

    assert like(index, b"a.*") == [b"a.9", b"a.x"]
    index.make_order()
    assert like(index, b"a.*") == [b"a.9", b"a.x"]


@pytest.mark.parametrize("seed", range(10))
def test_the_next_and_the_last_message_of_a_pattern(seed: int) -> None:
    rng = random.Random(seed)
    index = StreamIndex()
    rare = [b"rare.%d.x" % n for n in range(4)]
    came = [b"often.%d.x" % rng.randint(0, 2_000) for _ in range(5_000)]
    for n in range(12):
        came[rng.randint(0, 4_999)] = rare[n % 4]
    filled(index, came)
    for _ in range(500):
        index.remove(rng.randint(1, 5_000))

    for pattern in (b"rare.*.x", b"*.3.x", b"*.*.x", b"*.*.none", b"rare.1.x"):
        there = [s for s in range(1, 5_001) if index.next_seq(s, b"") == s]
        hits = [s for s in there if matches(came[s - 1], pattern)]
        assert index.last_match(pattern) == (hits[-1] if hits else 0)
        for seq in (1, 2, rng.randint(1, 5_000), 5_000, 5_001):
            assert index.next_match(seq, pattern) == next((s for s in hits if s >= seq), 0)
