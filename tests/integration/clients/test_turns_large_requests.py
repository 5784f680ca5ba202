"""No request makes the others wait, however much a client puts into it.

The long form, with a megabyte in each of them, is ``tests/campaigns/turn_table.py``.
"""

from pathlib import Path

import pytest
from tests.campaigns.turn_table import large_requests, slow_rows
from tests.support.turn_probe import TurnProbe

from jetspark import COMPILED

# Enough that what is done in one turn would take longer than the limit.
COUNT = 12_000 if COMPILED else 6_000


def test_no_large_request_takes_the_others_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TurnProbe(tmp_path, monkeypatch) as probe, probe.client() as client:
        assert slow_rows(probe, client, large_requests(COUNT)) == {}
