"""A server whose streams share a journal, killed: nothing acknowledged is lost."""

import signal
from pathlib import Path

import nats
from tests.campaigns.kills import Kills
from tests.support.served import Served

from jetspark.store.store import JOURNAL_MARK, PLAIN_MARK


async def test_kills_lose_nothing_that_only_the_journal_has(tmp_path: Path) -> None:
    kills = Kills(tmp_path / "store", seed=4, streams=25)
    for _ in range(4):
        await kills.live()

    assert kills.wiped > 25
    assert len(kills.acked) > 100


async def test_a_stopped_server_leaves_no_journal(tmp_path: Path) -> None:
    store = tmp_path / "store"
    kills = Kills(store, seed=4, streams=25)
    await kills.live()
    assert (store / "STORE").read_bytes() == JOURNAL_MARK

    served = Served(store)
    client = await nats.connect(served.url)
    await client.close()
    assert served.stop(signal.SIGTERM) == 0
    assert (store / "STORE").read_bytes() == PLAIN_MARK
    assert not (store / "journal").exists()
