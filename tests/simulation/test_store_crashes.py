"""Power failures, kills and errors against the store.

These are the short forms; ``tools/torture.py`` calls the same functions for hours.
"""

import pytest
from tests.campaigns.store.crashes import run_crashes
from tests.support.store.model import Found, StreamModel, Violation

# R1 asks for 100,000; in parts, so that all cores have some. The seeds are those of lives in which
# enough segments are removed, although turns of several streams leave less time for that.
CRASH_STATES = 100_000
SEEDS = tuple(n * 1_000_000 for n in (3, 10, 12, 16, 19, 22, 24, 26))
PARTS = len(SEEDS)
# The journal is also in the lives of the parts.
SHARED_STATES = 4_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_crash_loses_what_was_acknowledged(seed: int) -> None:
    """R1: power loss in any state; 0 acknowledged lost, 0 phantoms, 0 half batches.

    The journal is in it: about a third of the changes are turns of several streams.
    """
    done = run_crashes(CRASH_STATES // PARTS, seed=seed)

    assert done.states >= CRASH_STATES // PARTS
    # The run met what it is for.
    assert done.acked > 500
    assert done.torn > 100
    assert done.doubtful > 100
    assert done.segments_dropped > 5
    assert done.batches > 30
    assert done.restated > 5
    assert done.shared > 10
    assert done.releases > 5


@pytest.mark.timeout(600)
def test_no_crash_loses_what_several_streams_share() -> None:
    """R1 for the journal: several streams per turn, one synced write."""
    done = run_crashes(SHARED_STATES, seed=77_000_000, together=0.9)

    assert done.states >= SHARED_STATES
    assert done.shared > 25
    assert done.releases > 3
    assert done.torn > 30


def test_some_logs_are_reopened_after_a_failed_write() -> None:
    """Too rare to be met in every part of the test above."""
    done = run_crashes(10**9, seed=17, go_on=lambda so_far: not so_far.reopened)

    assert done.lives < 200


def test_a_run_can_be_ended_by_the_clock() -> None:
    done = run_crashes(10**9, seed=7, go_on=lambda so_far: so_far.lives < 2)

    assert done.lives == 2


def test_the_same_seed_lives_the_same_life() -> None:
    assert run_crashes(300, seed=11) == run_crashes(300, seed=11)


def broken(_model: StreamModel, _found: Found) -> None:
    raise KeyError("a promise was broken")


def test_a_violation_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is interpreted in every build, so a broken promise can be put into it."""
    monkeypatch.setattr(StreamModel, "adopt", broken)

    with pytest.raises(Violation, match="seed 5: "):
        run_crashes(5000, seed=5)
