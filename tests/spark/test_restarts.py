"""A query stops inside an epoch and starts again with something changed: its rows stay exact.

In the shared session, where ``stop`` ends the tasks of an epoch as a kill of the driver does; the
checkpoint and the targets are the same then. ``tests/campaigns/spark_restarts.py`` kills drivers
and has many more changes, for ``make torture``.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from tests.campaigns.spark_restart_job import start, wait_until_held
from tests.campaigns.spark_restart_world import BY_NAME, Query, World
from tests.campaigns.spark_restarts import LIMIT, Life, flow_of, wait_until_settled

from jetspark.spark.options import MIN_PARTITIONS_VARIABLE

# Each strength of the sink, and a source of Spark's own, whose partitions follow the cores.
QUERIES = ("DEFAULT", "LEDGERED", "CHUNKS", "FILED")


class StoppedQueries:
    """Queries that were stopped inside their second epoch, and start again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.world = World(folder)
        self._spark = spark
        self._folder = folder

    def run(self, query: Query, life: Life, *, cores: int) -> None:
        """Run one query on a machine of so many cores, to the end or until it is held."""
        self._spark.sparkContext.environment[MIN_PARTITIONS_VARIABLE] = str(2 * cores)
        flow = flow_of(self.world, life, query)
        running = start(self._spark, self._folder, flow)
        if life.killed:
            wait_until_held(self._folder, flow, running)
            wait_until_settled(self.world, [query])
            running.stop()
            return
        running.awaitTermination()

    def differences(self, query: Query) -> tuple[int, int]:
        """Return how many rows a target lacks and how many are too many."""
        due = self.world.due(query, Counter())
        found = self.world.contents(query)
        return (due - found).total(), (found - due).total()


@pytest.fixture(scope="module")
def stopped(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoppedQueries]:
    before = spark.sparkContext.environment.get(MIN_PARTITIONS_VARIABLE, "")
    queries = StoppedQueries(spark, tmp_path_factory.mktemp("restarts"))
    try:
        queries.world.fill()
        yield queries
    finally:
        queries.world.close()
        spark.sparkContext.environment[MIN_PARTITIONS_VARIABLE] = before


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_that_died_inside_an_epoch_ends_exact_on_other_cores_and_partitions(
    stopped: StoppedQueries, name: str
) -> None:
    query = BY_NAME[name]

    stopped.run(query, Life(source=LIMIT, killed=True, layout={"coalesce": 7}), cores=4)
    partly = stopped.world.contents(query)
    stopped.run(query, Life(source=LIMIT, layout={"repartition": 3}), cores=1)

    assert 600 < partly.total() < 1200, "it must have stopped inside the second epoch"
    assert stopped.differences(query) == (0, 0)
