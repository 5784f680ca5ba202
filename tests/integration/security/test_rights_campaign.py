"""Random users of a server and of a replica see what their permissions say, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.campaigns.rights import Campaign

ACTIONS = 60


@pytest.mark.parametrize("replica", [False, True], ids=["server", "replica"])
async def test_users_see_what_their_permissions_say(tmp_path: Path, *, replica: bool) -> None:
    delivered = denied = 0
    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        campaign = Campaign(20261116 + seed, replica=replica)
        await campaign.run(folder, ACTIONS)
        delivered += campaign.delivered
        denied += campaign.denied

    assert delivered > 0
    assert denied > 0
