"""A project as streaming queries that do not end (docs/pipelines.md, "Run modes").

On the released server, in the session that the other files share. Statements of each kind in SQL;
a flow that fails is started again, is interrupted in the middle of a micro-batch, continues in the
next run, and is given up when it fails for good. Rows are compared by their sequence.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("grpc", reason="needs the extra pipelines")
pytest.importorskip("yaml", reason="needs the extra pipelines")

from jetspark import Storage
from jetspark.spark.pipelines.continuous import ContinuousOptions, ContinuousRun
from jetspark.spark.pipelines.graph import read_graph
from jetspark.spark.pipelines.progress import (
    Event,
    FlowFailed,
    FlowProgress,
    FlowStarted,
    RunStopped,
    ViewFailed,
    ViewRefreshed,
)
from jetspark.spark.pipelines.project import PipelineRefused, Project, load_project
from jetspark.spark.pipelines.selection import select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Streams

DATABASE = "steady"
# Views are computed once in each run: a reader may find that the files of one were deleted.
OPTIONS = ContinuousOptions(refresh_seconds=1000.0, restarts=1)
SPEC = """
name: steady
storage: {storage}
database: steady
libraries: [{{glob: {{include: transformations/**}}}}]
"""
PYTHON = """
import time
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import functions as f

from jetspark.spark import connection_options, expect

ROOT = Path({root!r})


@dp.temporary_view
def messages():
    source = spark.readStream.format("jetstream").options(**connection_options(spark))
    return source.option("stream", "STEADY").option("startingOffsets", "earliest").load()


@f.udf("long")
def checked(seq):
    if (ROOT / "fails").exists():
        raise ValueError("the flag is up")
    if seq == 16 and (ROOT / "waits").exists():  # in one task: the others need the second core
        (ROOT / "begun").touch()
        while (ROOT / "waits").exists():
            time.sleep(0.05)
    return seq


@dp.table(comment="It's checked.")
def copies():
    rows = expect(spark.readStream.table("numbers"), {{"wanted": "seq != 21"}}).valid
    return rows.select(checked("seq").alias("seq"))
"""
SQL = """
SET spark.sql.ansi.enabled = false;
CREATE STREAMING TABLE numbers COMMENT 'it''s; all' TBLPROPERTIES ('made by' = 'hand')
AS SELECT seq, CAST('none' AS INT) AS nothing FROM STREAM(messages);
CREATE STREAMING TABLE parts (seq BIGINT, part INT) USING json PARTITIONED BY (part);
CREATE FLOW into_parts AS INSERT INTO parts BY NAME
SELECT CAST(seq % 3 AS INT) AS part, seq FROM STREAM(large);
CREATE TEMPORARY VIEW large AS SELECT * FROM STREAM(numbers) WHERE seq > 4;
CREATE MATERIALIZED VIEW counted (part INT, n BIGINT) PARTITIONED BY (part)
AS SELECT count(*) AS n, part FROM parts GROUP BY part;
CREATE TEMPORARY VIEW counts AS SELECT sum(n) AS n FROM counted;
CREATE MATERIALIZED VIEW whole AS SELECT n FROM counts;
"""


@pytest.fixture
def project(tmp_path: Path, spark: "SparkSession", streams: "Streams") -> Iterator[Project]:
    root = tmp_path / "project"
    (root / "transformations").mkdir(parents=True)
    spec = root / "spark-pipeline.yml"
    spec.write_text(SPEC.format(storage=(root / "storage").as_uri()))
    (root / "transformations/a.py").write_text(PYTHON.format(root=str(root)))
    (root / "transformations/b.sql").write_text(SQL)
    # In a run of its own the session would have this as its warehouse.
    place = (root / f"warehouse/{DATABASE}.db").as_uri()
    spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{place}'")
    spark.conf.set("spark.jetspark.servers", streams.url)
    yield load_project(spec)
    spark.conf.unset("spark.jetspark.servers")
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")
    for view in ("messages", "large", "counts"):
        spark.catalog.dropTempView(view)
    if "STEADY" in streams.jetstream.stream_names():
        streams.jetstream.delete_stream("STEADY")


class Watched:
    """A run, and everything that it has reported."""

    def __init__(
        self, spark: "SparkSession", project: Project, options: ContinuousOptions = OPTIONS
    ) -> None:
        self.events: list[Event] = []
        self.run = ContinuousRun(spark, project, options, self.events.append)
        self.run.start()

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not done():
            assert time.monotonic() < deadline, self.told()
            self.run.step()
            time.sleep(0.05)

    def told(self) -> str:
        """The reports, without those that carry no information."""
        dull = [one for one in self.events if isinstance(one, FlowProgress) and not one.rows]
        return "\n".join(str(one) for one in self.events if one not in dull)

    def rows(self, flow: str) -> int:
        told = [one for one in self.events if isinstance(one, FlowProgress)]
        return sum(one.rows for one in told if one.flow == flow)

    def violations(self, flow: str) -> int:
        told = [one for one in self.events if isinstance(one, FlowProgress)]
        counts = [one.observed.get("expectations", {}) for one in told if one.flow == flow]
        return sum(one.get("wanted") or 0 for one in counts)

    def failures(self) -> list[FlowFailed]:
        return [one for one in self.events if isinstance(one, FlowFailed)]

    def views(self) -> int:
        assert not [one for one in self.events if isinstance(one, ViewFailed)]
        return sum(isinstance(one, ViewRefreshed) for one in self.events)


def seqs(spark: "SparkSession", table: str) -> Counter[int]:
    return Counter(row.seq for row in spark.table(table).select("seq").collect())


@pytest.mark.timeout(400)
def test_flows_are_started_again_interrupted_and_given_up(
    project: Project, spark: "SparkSession", streams: "Streams"
) -> None:
    streams.fill("STEADY", 10, storage=Storage.MEMORY)

    def publish(count: int) -> None:
        for _ in range(count):
            streams.jetstream.publish("STEADY.1", b"more")

    # Everything is read; then a function fails once.
    first = Watched(spark, project)
    first.until(lambda: first.rows("copies") == 10)
    (project.root / "fails").touch()
    publish(5)
    first.until(lambda: bool(first.failures()))
    (project.root / "fails").unlink()
    first.until(lambda: first.rows("copies") == 15)
    first.until(lambda: seqs(spark, "parts") == Counter(range(5, 16)))

    (failed,) = first.failures()
    started = [one for one in first.events if isinstance(one, FlowStarted)]
    again = [one.query for one in started if one.flow == "copies"]
    assert failed == FlowFailed(
        flow="copies", error="a.py:22: ValueError: the flag is up", restart_seconds=1.0
    )
    assert len(again) == 2
    assert len(set(again)) == 1
    assert seqs(spark, "copies") == Counter(range(1, 16))
    assert seqs(spark, "numbers") == Counter(range(1, 16))
    assert spark.table("numbers").where("nothing IS NULL").count() == 15
    assert all(row.part == row.seq % 3 for row in spark.table("parts").collect())
    told = {
        row.col_name: row.data_type for row in spark.sql("DESCRIBE EXTENDED numbers").collect()
    }
    assert told["Comment"] == "it's; all"
    assert "made by=hand" in told["Table Properties"]

    # It is stopped in the middle of a micro-batch.
    (project.root / "waits").touch()
    publish(5)
    first.until((project.root / "begun").exists)
    first.until(lambda: seqs(spark, "parts") == Counter(range(5, 21)))
    first.run.stop(patience_s=0.2)
    (project.root / "waits").unlink()

    assert isinstance(first.events[-1], RunStopped)
    assert seqs(spark, "copies") == Counter(range(1, 16))

    # The next run continues from there, until the function fails for good.
    second = Watched(spark, project)
    second.until(lambda: second.rows("copies") == 5)
    second.until(lambda: second.views() == 2)
    assert seqs(spark, "copies") == Counter(range(1, 21))
    assert {row.part: row.n for row in spark.table("counted").collect()} == {0: 5, 1: 5, 2: 6}
    assert [row.n for row in spark.table("whole").collect()] == [16]
    assert (project.warehouse / "steady.db/counted/part=1").is_dir()
    publish(1)
    second.until(lambda: second.violations("copies") == 1)
    (project.root / "fails").touch()
    publish(1)
    second.until(lambda: bool(second.run.given_up))
    second.run.stop(patience_s=5)

    assert [one.restart_seconds for one in second.failures()] == [1.0, None]
    assert second.run.given_up == (
        "flow 'copies' was stopped after 2 failures without progress in between: "
        "a.py:22: ValueError: the flag is up"
    )
    assert seqs(spark, "copies") == Counter(range(1, 21))


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE STREAMING TABLE t CLUSTER BY (seq) AS SELECT 1 AS seq", "'t' is partitioned by"),
        ("CREATE STREAMING TABLE t; CREATE FLOW f AS INSERT INTO u SELECT 1", "is not defined"),
        ("CREATE STREAMING TABLE t", "no flow writes to 't'"),
        ("CREATE MATERIALIZED VIEW counted AS SELECT 1", "'counted' is defined twice"),
        ("CREATE TABLE t (a INT)", r"c\.sql: .* is not supported in a continuous run"),
        ("CREATE FLOW two AS INSERT INTO numbers SELECT 1", "'numbers' has 2 flows"),
    ],
)
def test_a_statement_that_cannot_be_run_is_named(
    project: Project, spark: "SparkSession", sql: str, said: str
) -> None:
    (project.root / "transformations/c.sql").write_text(sql)

    with pytest.raises(PipelineRefused, match=said):
        read_graph(spark, project)


@pytest.mark.timeout(400)
def test_some_tables_are_run_or_start_over_and_the_others_continue_after_a_failure(
    project: Project, spark: "SparkSession", streams: "Streams"
) -> None:
    streams.fill("STEADY", 10, storage=Storage.MEMORY)
    chosen = select(project, ("numbers",), (), everything=False)
    first = Watched(spark, project, replace(OPTIONS, selection=chosen))
    first.until(lambda: first.rows("numbers") == 10)
    first.run.stop(patience_s=5)
    flows = {one.flow for one in first.events if isinstance(one, FlowStarted)}
    assert flows == {"numbers"}

    # The rest of it; a flow that fails for good does not end the others.
    (project.root / "fails").touch()
    options = replace(OPTIONS, restarts=0, keep_going=True)
    second = Watched(spark, project, options)
    second.until(lambda: bool(second.run.given_up))
    streams.jetstream.publish("STEADY.1", b"more")
    second.until(lambda: seqs(spark, "parts") == Counter(range(5, 12)))
    assert not second.run.is_over
    assert second.run.given_up.startswith("flow 'copies' was stopped")
    second.run.stop(patience_s=5)
    (project.root / "fails").unlink()

    # One table is emptied and read again, from what its source has now; the others stay.
    streams.jetstream.stream("STEADY").purge(keep=3)
    emptied = select(project, (), ("Numbers",), everything=False)
    third = Watched(spark, project, replace(OPTIONS, selection=emptied))
    third.until(lambda: third.rows("numbers") == 3)
    third.run.stop(patience_s=5)
    assert seqs(spark, "numbers") == Counter(range(9, 12))
    assert seqs(spark, "parts") == Counter(range(5, 12))

    unknown = replace(OPTIONS, selection=select(project, ("number",), (), everything=False))
    with pytest.raises(PipelineRefused, match="expected one of copies, counted"):
        Watched(spark, project, unknown)
