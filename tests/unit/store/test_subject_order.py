"""Wildcards look only at subjects that begin like them (disk-format.md)."""

import random

import pytest

from jetspark.store.index import StreamIndex
from jetspark.store.subject_order import SubjectOrder
from jetspark.subjects.match import matches

PATTERNS = (b"a.>", b"a.*", b"a.b.*", b"a.b.>", b"a.*.c", b"*.b", b">", b"b.*.>", b"a-b.*")


def filled(index: StreamIndex, subjects: list[bytes]) -> None:
    if not index.segments:
        index.add_segment(1, 1, 0, "s")
    for subject in subjects:
        index.add_message(index.last_seq + 1, index.entry(subject), 100, index.last_seq + 1, 10)


def like(index: StreamIndex, pattern: bytes) -> list[bytes]:
    return sorted(entry.subject for entry in index.entries_like(pattern) if entry.count > 0)


@pytest.mark.parametrize("seed", range(20))
def test_every_matching_subject_is_found_whenever_it_came(seed: int) -> None:
    rng = random.Random(seed)
    words = [b"a", b"b", b"c", b"a-b", b"a/b", b"0"]
    index = StreamIndex()
    known: set[bytes] = set()

    for _ in range(6):
        more = [
            b".".join(rng.choice(words) for _ in range(rng.randint(1, 4)))
            for _ in range(rng.randint(0, 40))
        ]
        filled(index, more)
        known.update(more)

        for pattern in PATTERNS:
            assert like(index, pattern) == sorted(s for s in known if matches(s, pattern))


def test_a_full_tail_is_merged() -> None:
    order = SubjectOrder(tail_max=2)
    order.make([b"a.1", b"b.1"])

    for subject in (b"a.3", b"a.2", b"b.0"):
        order.add(subject)

    assert order.tail == []
    assert order.beginning_with(b"a.") == [b"a.1", b"a.2", b"a.3"]


def test_only_subjects_that_begin_alike_are_looked_at() -> None:
    order = SubjectOrder()
    order.make([b"k.%d.x" % n for n in range(10_000)])

    assert order.beginning_with(b"k.77.") == [b"k.77.x"]


def test_subjects_that_went_are_forgotten() -> None:
    index = StreamIndex()
    filled(index, [b"a.%d" % n for n in range(10)])
    assert len(like(index, b"a.*")) == 10
    for seq in range(1, 10):
        index.remove(seq)

    index.recycle([])
    filled(index, [b"a.x"])

    assert like(index, b"a.*") == [b"a.9", b"a.x"]
