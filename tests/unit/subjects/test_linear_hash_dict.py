"""A dict that grows in small steps."""

from __future__ import annotations

import random
import tracemalloc

from jetspark.subjects.linear_hash_dict import PART_SIZE, LinearHashDict


def test_it_does_what_a_dict_does_while_parts_are_divided() -> None:
    chosen = random.Random(7)
    made = LinearHashDict()
    model: dict[bytes, int] = {}
    for turn in range(8 * PART_SIZE):
        key = b"%d" % chosen.randrange(4 * PART_SIZE)
        if chosen.random() < 0.3:
            assert made.pop(key) == model.pop(key, None)
        else:
            made.set(key, turn)
            model[key] = turn
        other = b"%d" % chosen.randrange(4 * PART_SIZE)
        assert made.get(other) == model.get(other)
        assert (other in made) == (other in model)
        assert len(made) == len(model)
    assert len(model) > 2 * PART_SIZE
    assert sorted(made.values()) == sorted(model.values())
    assert set(made.some(100)) <= set(model.values())
    assert len(made.some(100)) == 100
    for key in list(model):
        assert made.pop(key) == model.pop(key)
    assert (len(made), made.values(), made.some(5)) == (0, [], [])
    made.set(b"a", 1)
    assert made.get(b"a") == 1


def test_a_few_thousand_keep_their_order() -> None:
    made = LinearHashDict()
    for number in range(int(PART_SIZE)):
        made.set(b"%d" % number, number)

    assert made.values() == list(range(int(PART_SIZE)))
    assert made.some(3) == [0, 1, 2]


def test_no_insertion_moves_all_entries() -> None:
    """A plain dict allocates 5 MB at once when it grows beyond 87,381 entries."""
    made = LinearHashDict()
    keys = [b"%d" % number for number in range(100_000)]
    tracemalloc.start()
    try:
        most = before = 0
        for key in keys:
            made.set(key, key)
            now, peak = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            most, before = max(most, peak - before), now
    finally:
        tracemalloc.stop()

    assert most < 2 << 20
