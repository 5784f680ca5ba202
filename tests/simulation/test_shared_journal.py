"""Streams that share writes of the journal: power failures, failing steps, damaged files.

These are the short forms; ``tools/torture.py`` calls the same functions for hours.
"""

import pytest
from tests.campaigns.store.shared import run_damaged, run_shared

STATES = 3_000
DAMAGED = 300


@pytest.mark.timeout(600)
def test_failing_steps_and_power_failures_lose_nothing_that_streams_share() -> None:
    done = run_shared(STATES, seed=5_000_000)

    assert done.states >= STATES
    # The run met what it is for.
    assert done.acked > 400
    assert done.frames > 80
    assert done.faults > 30
    assert done.refused > 3
    assert done.reopened > 1
    assert done.restarts > 25


def test_damaged_journal_files_cost_nothing_that_segments_have() -> None:
    assert run_damaged(DAMAGED, seed=1) > DAMAGED // 10
