"""nats.js publishes batches to our server and to nats-server 2.15.1, with the same results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop
from tests.support.judges import running_nats_server
from tests.support.loopback import Servers
from tests.support.nats_js import started

Results = dict[str, Any]


async def played(url: str) -> Results:
    async with started("batches.mjs", {"url": url}) as script:
        return await script.results()


async def on_ours() -> Results:
    async with Servers() as servers:
        return await played(await servers.url())


@pytest.fixture(scope="module")
def ours() -> Results:
    results: Results = uvloop.run(on_ours())
    return results


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("theirs")
    config = folder / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{folder / "store"}" }}\n')
    with running_nats_server(config) as port:
        return asyncio.run(played(f"nats://127.0.0.1:{port}"))


def test_an_atomic_batch_is_committed(ours: Results) -> None:
    ack = {"seq": 4, "count": 4, "named": True}

    assert ours["atomic"] == {"got": ack, "messages": 4, "last": 4}


def test_a_fast_batch_of_a_thousand_is_stored_in_full(ours: Results) -> None:
    ack = {"seq": 1001, "count": 1001, "named": True}

    assert ours["fast"] == {"got": ack, "messages": 1001, "last": 1001}


def test_a_gap_is_reported_and_the_batch_continues(ours: Results) -> None:
    ack = {"seq": 2, "count": 5, "named": True}

    assert ours["fastGap"]["got"] == [ack, [{"lastSeq": 2, "seq": 5}]]


def test_a_gap_ends_a_batch_that_allows_none(ours: Results) -> None:
    assert ours["fastNoGap"]["got"] == {"seq": 1, "count": 1, "named": True}


def test_four_fast_publishers_at_once_lose_nothing(ours: Results) -> None:
    assert ours["fastMany"] == {"got": [300] * 4, "messages": 1200, "last": 1200}


def test_nats_js_sees_no_difference_between_the_servers(ours: Results, theirs: Results) -> None:
    assert ours == theirs
    assert not any("failed" in result for result in ours.values())
