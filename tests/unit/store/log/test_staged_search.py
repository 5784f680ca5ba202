"""The newest message of a pattern among the staged ones, and of several among all.

What decisions see, whatever was staged, removed and written since the search began.
"""

import random
from typing import TYPE_CHECKING

from jetspark.engine.stream.expectations import LastLooks, LongLook, staged_last_of
from jetspark.store.log.pattern_lasts import PatternLasts
from jetspark.store.log.staged_search import StagedSearch
from jetspark.subjects.match import matches

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

PATTERNS = [b"s.*.x", b"*.3.>", b"s.*.y", b">", b"none.*"]


def newest(bench: "Bench", pattern: bytes) -> int:
    """The newest message of a pattern that decisions see, from all subjects."""
    bench.log.staged.look_up()
    entries = bench.log.index.entries
    found = [int(entry.staged_last) for entry in entries if matches(entry.subject, pattern)]
    return max(found, default=0)


def change(bench: "Bench", chosen: random.Random) -> None:
    """Stage, remove, roll back, write or apply something."""
    staged = bench.log.staged
    doing = chosen.random()
    if doing < 0.6:
        subject = b"s.%d.%b" % (chosen.randrange(9), chosen.choice([b"x", b"y"]))
        bench.stage(b"hello", subject=subject)
    elif doing < 0.75:
        staged.delete(chosen.randrange(max(1, int(staged.seq) - 20), int(staged.seq) + 2))
    elif doing < 0.78:
        staged.purge(int(staged.seq), chosen.choice([b"s.3.x", b"s.*.y"]), 0)
    elif doing < 0.8:
        staged.begin_batch()
        bench.stage(b"hello", subject=b"s.1.x")
        staged.abort_batch()
    elif doing < 0.85:
        if staged.in_flight is None and not staged.is_empty:
            bench.write()
        elif staged.in_flight is not None:
            bench.log.commit()


def test_a_search_in_steps_follows_what_is_staged_removed_and_written(bench: "Bench") -> None:
    chosen = random.Random(1)
    searches: dict[bytes, StagedSearch] = {}
    found = 0
    for _ in range(1_500):
        change(bench, chosen)
        staged = bench.log.staged
        pattern = chosen.choice(PATTERNS)
        search = searches.get(pattern)
        if search is None or search.staged is not staged:
            search = searches[pattern] = StagedSearch(staged, pattern)
        if not search.step(chosen.randrange(1, 9)):
            continue
        found += 1
        expected = newest(bench, pattern)
        assert search.last == (expected if expected > bench.log.index.last_seq else 0)
        if not staged.deletions.any:
            assert staged.newest_match(pattern) in {search.last, -1}
    assert found > 200


def test_several_patterns_in_steps_follow_what_is_staged_removed_and_written(
    bench: "Bench",
) -> None:
    chosen = random.Random(2)
    search = PatternLasts(bench.log.staged, set(PATTERNS))
    found = 0
    for _ in range(3_000):
        change(bench, chosen)
        if search.staged is not bench.log.staged:
            search = PatternLasts(bench.log.staged, set(PATTERNS))
        if search.step(chosen.randrange(1, 200)):
            found += 1
            assert search.lasts() == {pattern: newest(bench, pattern) for pattern in PATTERNS}
    assert found > 200


def test_expectations_beyond_what_fits_in_a_turn_are_looked_up_in_steps(bench: "Bench") -> None:
    for n in range(5_000):
        bench.stage(b"", subject=b"d.%d" % n)
    bench.write()
    bench.log.commit()
    looks = LastLooks(bench.log)
    bench.stage(b"", subject=b"s.1.x")
    for n in range(40_000):
        bench.stage(b"", subject=b"o.%d" % n)
    looked = 0
    while True:
        try:
            assert looks.last_of(b"s.*.x") == 5_001
            break
        except LongLook as look:
            looked += 1
            steps = 1
            while not look.step():
                steps += 1
            assert steps > 1
    assert looked == 1
    bench.stage(b"", subject=b"s.2.x")
    assert looks.last_of(b"s.*.x") == bench.log.staged.seq
    assert staged_last_of(bench.log, b"s.*.x") == bench.log.staged.seq
