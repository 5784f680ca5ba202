"""Power cuts, kills, errors and damage against the store (reliability.md 3: R1, R4, R5, R6).

These are the short forms; ``tools/torture.py`` calls the same functions for hours.
"""

import errno
from pathlib import Path
from random import Random

import pytest

from jetspark.testing.store_crashes import run_crashes
from jetspark.testing.store_damage import Sample, check_damage, run_faults, run_flips
from jetspark.testing.store_model import Found, Opened, StreamModel, Violation, messages

# R1 asks for 100,000; in parts, so that all cores have some.
CRASH_STATES = 100_000
PARTS = 8
FLIPS = 1_500


@pytest.mark.timeout(180)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_crash_loses_what_was_acknowledged(part: int) -> None:
    """R1: power loss in any state; 0 acknowledged lost, 0 phantoms, 0 half batches."""
    done = run_crashes(CRASH_STATES // PARTS, seed=part * 1_000_000)

    assert done.states >= CRASH_STATES // PARTS
    # The run met what it is for.
    assert done.acked > 500
    assert done.torn > 100
    assert done.doubtful > 100
    assert done.segments_dropped > 10
    assert done.batches > 30
    assert done.restated > 10
    assert done.reopened > 0


def test_a_run_can_be_ended_by_the_clock() -> None:
    done = run_crashes(10**9, seed=7, go_on=lambda so_far: so_far.lives < 2)

    assert done.lives == 2


def test_the_same_seed_lives_the_same_life() -> None:
    assert run_crashes(300, seed=11) == run_crashes(300, seed=11)


@pytest.mark.parametrize("condensed", [False, True], ids=["plain", "condensed"])
def test_a_flipped_bit_costs_at_most_its_record(condensed: bool) -> None:
    """R4: at most one record lost each, every loss reported, no stream lost, no wrong bytes."""
    done = run_flips(FLIPS, condensed=condensed)

    assert done.cases == FLIPS
    assert 0 < done.records_lost <= FLIPS


@pytest.fixture(scope="module")
def sample() -> Sample:
    return Sample()


def segments(sample: Sample) -> list[Path]:
    return sorted(sample.places)


@pytest.mark.parametrize("how", ["zeros", "garbage"])
def test_a_bad_page_costs_the_records_it_meets(sample: Sample, how: str) -> None:
    """R5: zeroed pages, at every place and in several sizes."""
    random = Random(3)
    for path in segments(sample):
        content = sample.disk.read_file(path)
        for size in (1, 64, 512):
            for begin in range(0, len(content), max(32, size // 4)):
                end = min(begin + size, len(content))
                blank = bytes(end - begin) if how == "zeros" else random.randbytes(end - begin)
                if content[begin:end] == blank:
                    continue
                disk = sample.disk.survivor()
                disk.put(path, content[:begin] + blank + content[end:])
                check_damage(sample, disk, path, begin, end)


def test_a_file_cut_at_any_byte_costs_what_was_cut_off(sample: Sample) -> None:
    """R5: truncation at every byte offset."""
    for path in segments(sample):
        content = sample.disk.read_file(path)
        for length in range(len(content)):
            disk = sample.disk.survivor()
            disk.put(path, content[:length])
            opened = Opened(disk, 1500, 600)
            for log in opened.logs:
                found = messages(log)
                number = log.identity.stream_id
                ours = log.folder == path.parent
                gone = {p.seq for p in sample.places[path] if ours and p.end > length}
                missing = sample.messages[number].keys() - found.keys()
                assert missing <= gone
                assert found.items() <= sample.published[number].items()
                # What was removed is back only when its removal was cut off.
                assert found.keys() <= sample.messages[number].keys() or 0 in gone
            opened.close()


def test_no_failing_step_loses_what_was_acknowledged() -> None:
    """R6: every step fails once, with every error."""
    runs = run_faults((errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS))

    assert runs > 600


def broken(_model: StreamModel, _found: Found) -> None:
    raise KeyError("a promise was broken")


def test_a_violation_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is interpreted in every build, so a broken promise can be put into it."""
    monkeypatch.setattr(StreamModel, "adopt", broken)

    with pytest.raises(Violation, match="seed 5: "):
        run_crashes(5000, seed=5)
