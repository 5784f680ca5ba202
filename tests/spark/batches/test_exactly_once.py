"""``exactly_once`` in a real Spark session: tables of files and of a database."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from tests.campaigns.spark.batch_kills import stopped_before
from tests.campaigns.spark.batch_sinks import rows_of

from jetspark.spark import Batch, exactly_once, file_table
from jetspark.spark.batches.file_table import HadoopFiles, TableRefused, files_of
from jetspark.spark.stream.sink.plan import WriteRefused

if TYPE_CHECKING:
    from tests.spark.conftest import Streams


class Killed(BaseException):
    """The end of a driver; nothing in the product catches it."""


def _kill(step: str) -> None:
    raise Killed(step)


def test_a_driver_killed_between_any_two_steps_leaves_each_row_once_in_a_parquet_table(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    """Real kills of real drivers, step by step: ``tests/campaigns/spark/batch_kills.py``."""
    frames = [
        spark.range(start, end, numPartitions=1)
        .select(functions.col("id").cast("string"))
        .toDF("data")
        for start, end in ((0, 100), (100, 250))
    ]
    due = Counter((0, str(row)) for row in range(100))
    due += Counter((1, str(row)) for row in range(100, 250))
    killed: list[str] = []

    def life(name: str, seen: list[int]) -> None:
        """What a driver does, from the micro-batch that Spark has not seen committed."""
        each = exactly_once(name, file_table(str(tmp_path / name)), servers=streams.url)
        while seen:
            each(frames[seen[0]], seen[0])
            seen.pop(0)

    for at in range(100):
        name, seen = f"steps-{at}", [0, 1]
        try:
            with stopped_before(at, _kill):
                life(name, seen)
        except Killed as step:
            killed.append(str(step))
            life(name, seen)
        assert rows_of(tmp_path / name) == due, killed
        if len(killed) == at:
            break

    first = ["begin", "write", "save", "rename", "commit"]
    assert killed == [*first, "begin", "save", "rename", "commit"]


def test_a_query_writes_a_parquet_and_a_jdbc_table_once_although_it_fails_between_them(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    streams.fill("TWOSINKS", 60)
    database = f"jdbc:derby:memory:{tmp_path.name};create=true"
    failures = [1]

    def insert(rows: DataFrame, batch: Batch) -> None:
        rows = rows.selectExpr("cast(data AS string) AS data", f"{batch.id} AS batch")
        rows.write.jdbc(database, "copied", mode="append")
        if batch.id in failures:
            failures.remove(batch.id)
            raise RuntimeError("after the rows, before the commit")

    def delete(batch: Batch) -> None:
        manager = cast("Any", spark)._jvm.java.sql.DriverManager
        connection = manager.getConnection(database)
        connection.createStatement().execute(f'DELETE FROM copied WHERE "batch" = {batch.id}')
        connection.close()

    def run() -> None:
        # Everything is made again, as by a new driver.
        table = exactly_once("two.files", file_table(str(tmp_path / "t")), servers=streams.url)
        jdbc = exactly_once("two.jdbc", insert, undo=delete, servers=streams.url)

        def each(rows: DataFrame, batch_id: int) -> None:
            table(rows.select("data"), batch_id)
            jdbc(rows, batch_id)

        rows = spark.readStream.format("jetstream").options(servers=streams.url)
        rows = rows.options(stream="TWOSINKS", startingOffsets="earliest")
        writer = rows.option("maxOffsetsPerTrigger", "25").load().writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    with pytest.raises(StreamingQueryException, match="after the rows, before the commit"):
        run()
    run()
    # A driver that dies before Spark's own record of a micro-batch that both sinks have.
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    run()

    due = Counter(((row - 1) // 25, str(row)) for row in range(1, 61))
    stored = spark.read.jdbc(database, "copied").collect()
    assert rows_of(tmp_path / "t") == due
    assert Counter((row.batch, row.data) for row in stored) == due
    assert exactly_once("two.jdbc", insert, servers=streams.url).committed() == 2

    # Another query, whose micro-batches count from 0 again, must not pass for this one.
    (tmp_path / "checkpoint" / "metadata").write_text(
        json.dumps({"id": "00000000-0000-0000-0000-000000000000"})
    )
    (tmp_path / "checkpoint" / ".metadata.crc").unlink(missing_ok=True)
    streams.client.publish("TWOSINKS.1", b"61")
    with pytest.raises(StreamingQueryException, match="of another checkpoint"):
        run()


def test_a_table_of_another_writer_and_a_column_in_the_way_are_refused(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    rows = spark.range(3).toDF("batch_id")
    table = file_table(str(tmp_path))
    exactly_once("first", table, servers=streams.url)(rows.toDF("data"), 0)

    with pytest.raises(TableRefused, match=r"is written by 'first'.*choose another path"):
        exactly_once("second", table, servers=streams.url)(rows.toDF("data"), 0)
    with pytest.raises(TableRefused, match=r"column 'batch_id'.*batch_column"):
        exactly_once("third", table, servers=streams.url)(rows, 0)
    with pytest.raises(TableRefused, match="file system 'http' is not known"):
        files_of(spark, "http://127.0.0.1/table")


def test_files_of_hadoop_behave_as_those_of_a_disk(spark: SparkSession, tmp_path: Path) -> None:
    jvm = cast("Any", spark)._jvm
    root = jvm.org.apache.hadoop.fs.Path(f"file:{tmp_path}/table")
    hadoop = HadoopFiles(
        jvm, root.getFileSystem(cast("Any", spark)._jsc.hadoopConfiguration()), root
    )
    for files in (hadoop, files_of(spark, f"{tmp_path}/table")):
        assert files.names("") == [] or files is not hadoop
        files.write("owner", "text")
        (tmp_path / "table" / "_s" / "1-a").mkdir(parents=True)
        (tmp_path / "table" / "_s" / "1-a" / "part").write_text("new")
        assert (files.exists("owner"), files.exists("none")) == (True, False)
        assert files.read("owner") == "text"
        assert files.rename("_s/1-a", "b=1")
        (tmp_path / "table" / "_s" / "1-b").mkdir()
        (tmp_path / "table" / "_s" / "1-b" / "part").write_text("newer")
        assert not files.rename("_s/1-b", "b=1")
        assert (tmp_path / "table" / "b=1" / "part").read_text() == "new"
        assert files.names("_s") == ["1-b"]
        files.remove("_s")
        files.remove("b=1")
        assert [name for name in files.names("") if not name.startswith(".")] == ["owner"]


def test_two_writers_under_one_name_are_refused_instead_of_one_writing_nothing(
    spark: SparkSession, streams: "Streams", tmp_path: Path
) -> None:
    streams.fill("SHARED", 3)
    written: list[int] = []
    first = exactly_once("same", lambda _, batch: written.append(batch.id), servers=streams.url)
    second = exactly_once("same", lambda _, batch: written.append(batch.id), servers=streams.url)

    def each(rows: DataFrame, batch_id: int) -> None:
        first(rows, batch_id)
        first(rows, batch_id)  # a retry of the user's own: not written again
        second(rows, batch_id)

    rows = spark.readStream.format("jetstream").options(servers=streams.url, stream="SHARED")
    writer = rows.option("startingOffsets", "earliest").load().writeStream.foreachBatch(each)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)

    with pytest.raises(StreamingQueryException, match="give each sink a name of its own"):
        writer.start().awaitTermination(120)
    assert written == [0]
    with pytest.raises(WriteRefused, match="comes after micro-batch 0"):
        first(spark.range(1), -1)
