"""A query stops inside an epoch and starts again with something changed: its rows stay exact.

In the shared session, where ``stop`` ends the tasks of an epoch as a kill of the driver does; the
checkpoint and the targets are the same then. ``tests/campaigns/spark/restarts.py`` kills drivers
and has many more changes, for ``make torture``.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from tests.campaigns.spark.restart_job import start, wait_until_held
from tests.campaigns.spark.restart_world import BY_NAME, Query, World
from tests.campaigns.spark.restarts import LIMIT, Life, flow_of, wait_until_settled

from jetspark import KeyValueConfig, StreamConfig
from jetspark.spark.stream.options import MIN_PARTITIONS_VARIABLE
from jetspark.spark.stream.view import view_of

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

# A ledger, markers, and a source of Spark's own, whose partitions follow the cores.
QUERIES = ("DEFAULT", "CHUNKS", "FILED")


class StoppedQueries:
    """Queries that were stopped inside their second epoch, and start again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.world = World(folder)
        self._spark = spark
        self._folder = folder

    def run(self, query: Query, life: Life, *, cores: int) -> None:
        """Run one query on a machine with this many cores, to the end or until it is held."""
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
        queries.world.fill(apart_s=0.0)
        yield queries
    finally:
        queries.world.close()
        spark.sparkContext.environment[MIN_PARTITIONS_VARIABLE] = before


@pytest.mark.timeout(400)
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


# Checkpoints of jetspark 0.1.0 whose second of three epochs (20 rows each) was in progress, and
# what their targets and the ledger held then.
OLD = Path(__file__).parents[1] / "data" / "checkpoints-0.1.0"
OLD_ROWS = [str(row) if row % 3 else "same" for row in range(1, 61)]


@pytest.mark.parametrize("name", ["DEFAULT", "LEDGERED"])
def test_a_checkpoint_of_0_1_0_continues_inside_its_epoch_on_other_partitions(
    spark: SparkSession, streams: "Streams", tmp_path: Path, name: str
) -> None:
    js, origin = streams.jetstream, f"OLD{name}"
    source = streams.create(origin)
    for row, text in enumerate(OLD_ROWS, 1):
        js.publish(f"{origin}.{row % 3}", text.encode())
    js.create_stream(StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=True))
    for line in (OLD / name / "stored.ndjson").read_text().splitlines():
        row = json.loads(line)
        js.publish(row["subject"], row["data"].encode(), msg_id=row["msg_id"])
    sink = {"servers": streams.url, "stream": name}
    if name == "LEDGERED":
        bucket = js.create_key_value(KeyValueConfig(bucket="OLD_LEDGER"))
        for key, entry in json.loads((OLD / name / "ledger.json").read_text()).items():
            bucket.put(key, json.dumps(entry).encode())
        sink["ledgerBucket"] = "OLD_LEDGER"
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(OLD / name / "checkpoint", checkpoint)
    for offset in (checkpoint / "offsets").iterdir():
        text = offset.read_text().replace("@STREAM@", origin)
        offset.write_text(text.replace("@CREATED@", view_of(source.cached_info).created))
    flow = {
        "name": name,
        "kind": "stream",
        "format": "jetstream",
        "source": {"servers": streams.url, "stream": origin, "minPartitions": "5"},
        "sink": sink,
        "layout": {"repartition": 3},
        "checkpoint": str(checkpoint),
        "hold": [],
    }

    start(spark, tmp_path, flow).awaitTermination()

    stored: Counter[str] = Counter()
    for chunk in js.stream(name).scan():
        stored.update(payload.decode() for payload in chunk.data)
    assert stored == Counter(OLD_ROWS)
