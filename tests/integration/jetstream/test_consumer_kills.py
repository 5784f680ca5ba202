"""Kill -9 during consumption: at least once for every message, no floor ahead of the truth."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.campaigns.consumer_kills import ConsumerKills

KILLS = 5


@pytest.mark.timeout(600)
def test_no_acknowledgement_is_invented_and_no_message_lost_when_killed(tmp_path: Path) -> None:
    campaign = ConsumerKills(tmp_path / "store", seed=5)

    for _ in range(KILLS):
        campaign.live()
    campaign.finish()

    assert campaign.lives == KILLS
    assert campaign.delivered >= campaign.stored.keys()
    assert len(campaign.confirmed) > 0
