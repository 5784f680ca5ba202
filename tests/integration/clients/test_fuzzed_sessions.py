"""Random sessions and configurations with extreme values: short form of campaigns/fuzzed.py."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.campaigns.fuzzed import SAMPLES, Maker, play, try_configurations
from tests.campaigns.hostile import street


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the kernel does not count CPU time there"
)
def test_no_session_harms_the_server_or_a_neighbour(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    with street(tmp_path, "jetspark", 1.0) as made:
        play(made, Maker(seed), 120)
        assert made.internal_errors() == 0, f"seed {seed}"
    with street(tmp_path, "jetspark", 1.0) as made:  # it starts with what they left
        assert made.internal_errors() == 0, f"seed {seed}"


def test_any_configuration_is_accepted_or_refused_with_a_reason() -> None:
    assert 0 < try_configurations(Maker(random.randrange(2**32)), 400, SAMPLES) < 400
