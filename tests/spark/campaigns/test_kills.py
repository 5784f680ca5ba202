"""An executor and the driver are killed; exactly once holds on other cores.

One job for a ledger and for markers, one stream each: killed on a local cluster of its own, and
run again in the session of the tests. The long form is in ``make torture``.
"""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from tests.campaigns.spark.kills import SparkKills

from jetspark import sync
from jetspark.spark.connections import CONNECTIONS


@pytest.mark.timeout(1200)
def test_every_row_is_stored_once_although_the_driver_is_killed_and_restarts_on_other_cores(
    spark: SparkSession, tmp_path: Path
) -> None:
    with sync.Server(store_dir=str(tmp_path / "store")) as server:
        targets = ("IDS", "MARKED")
        kills = SparkKills(
            server.client_url, tmp_path, rows=6_000, per_trigger=3_000, targets=targets
        )
        kills.fill()

        # The only executor: its tasks are run again by the one that Spark starts instead.
        kills.live(executor_at=0.05, driver_at=0.6, master="local-cluster[1,1,1024]")
        half = kills.stored()
        kills.live_in(spark)

        logs = "".join(log.read_text()[-3000:] for log in sorted(tmp_path.glob("life*.log")))
        assert (kills.executors_killed, kills.drivers_killed) == (1, 1), logs
        assert half < len(targets) * 6_000, "the driver must die in the middle"
        assert kills.differences() == {"IDS": (0, 0), "MARKED": (0, 0)}
        kills.close()
        CONNECTIONS.close()
