"""nats.js reads streams, buckets and object stores of ours, with restarts in between.

The script runs once, on a server on uvloop; what came of its checks is compared here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.interop.clients.restarts import Restarted
from tests.support.nats_js import Script, started

Results = dict[str, Any]
# Checks that want the server restarted in their middle.
RESTARTS = 6

pytestmark = pytest.mark.timeout(600)


async def run_script(store: Path) -> Results:
    async with (
        Restarted(store) as server,
        started("consumers.mjs", {"url": server.url}) as script,
    ):
        return await results_of(script, server)


async def results_of(script: Script, server: Restarted) -> Results:
    """Restart the server as often as the script says, and wait for its results."""
    for _ in range(RESTARTS):
        await script.waits_for("restart")
        await server.restart()
    return await script.results()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    found: Results = uvloop.run(run_script(tmp_path_factory.mktemp("store")))
    return found


def test_fetch_continues_where_it_was_after_a_restart(results: Results) -> None:
    assert results["fetch"] == {"all": True, "empty": [], "pending": 0, "floor": 60}


def test_next_naks_and_terms(results: Results) -> None:
    assert results["next"] == {
        "seqs": [1, 1, 2],
        "deliveries": [1, 2],
        "pending": 1,
        "none": None,
    }


def test_consume_gets_everything_through_a_restart(results: Results) -> None:
    """A message whose acknowledgement was in progress may come twice."""
    assert results["consume"]["everything"] is True
    assert results["consume"]["twice"] <= 20


def test_an_ordered_consumer_gets_everything_once_and_in_order(results: Results) -> None:
    assert results["ordered"] is True


def test_an_ordered_consumer_filters(results: Results) -> None:
    assert results["filtered"] == [0, 2, 3, 5, 6, 8]


def test_push_continues_after_a_restart(results: Results) -> None:
    assert results["push"] == {"all": True, "bound": True}


def test_consumers_are_managed(results: Results) -> None:
    assert results["manage"] == {
        "names": ["a", "b"],
        "description": "new",
        "paused": True,
        "resumed": False,
        "gone": True,
        "missing": "consumer not found",
        "wrong": "consumer already exists",
    }


def test_keys_history_and_watch_of_a_bucket(results: Results) -> None:
    assert results["kv"] == {
        "first": ["x=2", "y=DEL"],
        "there": ["x=2", "y=DEL"],
        "live": ["z=9"],
        "keys": ["x", "z"],
        "history": ["x=1", "x=2"],
    }


def test_objects_are_stored_read_listed_and_watched(results: Results) -> None:
    assert results["objects"] == {
        "same": True,
        "names": ["large", "small"],
        "seen": ["large", "small"],
        "missing": None,
    }
