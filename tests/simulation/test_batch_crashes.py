"""Power failures around the commits of batches (20,000 crash states, never half a batch)."""

import pytest
from tests.campaigns.store.batch_crashes import BatchCrashes, BatchLife, run_batch_crashes
from tests.support.store.model import Violation

CRASH_STATES = 20_000


@pytest.mark.timeout(600)
def test_no_crash_leaves_half_a_batch() -> None:
    done = run_batch_crashes(CRASH_STATES)

    assert done.states >= CRASH_STATES
    # The run met what it is for.
    assert done.batches > 500
    assert done.whole > 1_000
    assert done.absent > 1_000
    assert done.fast > 300


def test_half_a_batch_would_be_seen() -> None:
    life = BatchLife(3, BatchCrashes())
    life.live()
    # A long one: the only message of a short one may have been rolled up.
    name = max(life.sent.acked, key=lambda acked: (life.sent.atomic[acked], acked))
    life.sent.atomic[name] += 2

    with pytest.raises(Violation, match=f"half of batch {name}: "):
        life.judge_again()
