"""Power cuts around the commits of batches (issue 6: 20,000 crash states, never half a batch)."""

import pytest

from jetspark.testing.batch_crashes import run_batch_crashes

CRASH_STATES = 20_000


@pytest.mark.timeout(180)
def test_no_crash_leaves_half_a_batch() -> None:
    done = run_batch_crashes(CRASH_STATES)

    assert done.states >= CRASH_STATES
    # The run met what it is for.
    assert done.batches > 500
    assert done.whole > 1_000
    assert done.absent > 1_000
    assert done.fast > 300
