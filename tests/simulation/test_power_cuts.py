"""Power failures of a real server: its file operations are recorded and cut anywhere.

This is the short form; ``tools/torture.py`` calls the same function for hours.
"""

import shutil

import pytest
from tests.campaigns.power.cuts import run_cuts

STATES = 40


@pytest.mark.skipif(shutil.which("cc") is None, reason="the recorder needs a C compiler")
@pytest.mark.parametrize("faults", [False, True], ids=["plain", "failing syncs"])
def test_a_power_failure_of_a_server_loses_nothing_that_it_acknowledged(*, faults: bool) -> None:
    done = run_cuts(STATES, seed=7, seconds=1.5, faults=faults)

    assert done.states == STATES
    assert done.acked > 100
    assert done.applied > 0
