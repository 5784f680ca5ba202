"""A page of subjects with their counts is that of a naive walk over all messages."""

import json
import random
from collections import Counter

import pytest

from jetspark.engine.stream.subject_page import SubjectPage
from jetspark.store.log.index import StreamIndex
from jetspark.subjects.match import matches

PATTERNS = (b">", b"a.>", b"*.>", b"a.*", b"*.7", b"a.7", b"b.>", b"none.>", b"none")


def filled(rng: random.Random, kinds: tuple[bytes, ...]) -> tuple[StreamIndex, Counter[bytes]]:
    index = StreamIndex()
    index.add_segment(1, 1, 0, "s")
    messages: dict[int, bytes] = {}
    for seq in range(1, 401):
        messages[seq] = b"%b.%d" % (rng.choice(kinds), rng.randint(0, 90))
        index.add_message(seq, index.entry(messages[seq]), 100, seq, 10)
        if seq == 200:
            index.make_order()
    for seq in rng.sample(range(1, 401), 150):
        index.remove(seq)
        del messages[seq]
    return index, Counter(messages.values())


@pytest.mark.parametrize("kinds", [(b"a",), (b"a", b"b")])
@pytest.mark.parametrize("seed", range(5))
def test_pages_have_the_subjects_in_order_with_their_counts(
    seed: int, kinds: tuple[bytes, ...]
) -> None:
    rng = random.Random(seed)
    index, counts = filled(rng, kinds)

    for pattern in PATTERNS:
        expected = [(s, counts[s]) for s in sorted(counts) if matches(s, pattern)]
        for offset in (0, 3, 50, 500):
            page = SubjectPage(index, pattern, offset, 20)
            while not page.step():
                pass
            found = page.counts()
            shown = json.loads(bytes(found)) if found is not None else {}
            assert page.total == len(expected), pattern
            assert [(s.encode(), n) for s, n in shown.items()] == expected[offset : offset + 20]


def test_the_number_of_all_subjects_is_known_without_a_visit_to_each() -> None:
    index = StreamIndex()
    index.add_segment(1, 1, 0, "s")
    for seq in range(1, 9_001):
        index.add_message(seq, index.entry(b"a.%d" % seq), 100, seq, 10)
    index.make_order()

    for pattern in (b">", b"a.>"):
        page = SubjectPage(index, pattern, 0, 100)
        assert page.step()
        assert page.total == 9_000
