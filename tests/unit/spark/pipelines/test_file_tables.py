"""Rows that Spark would lose in tables of files are refused before a run (docs/pipelines.md)."""

from pathlib import Path

import pytest

from jetspark.spark.pipelines.file_tables import FileTables, sql_targets
from jetspark.spark.pipelines.project import PipelineRefused, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(
        root=tmp_path, spec=tmp_path / "s.yml", name="shop", storage=tmp_path / "storage"
    )


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def ran(project: Project, table: str, flow: str, *, written: int, planned: int) -> None:
    """What a run of so many micro-batches leaves; the log is compacted now and then."""
    put(project.warehouse / table / "_spark_metadata", "0", f"{written}.compact", ".1.crc")
    place = project.checkpoints / "spark_catalog/default" / table / flow / "0"
    put(place / "offsets", *map(str, range(planned + 1)))


@pytest.mark.parametrize(
    "sql",
    [
        """CREATE STREAMING TABLE t; CREATE FLOW a AS INSERT INTO t BY NAME SELECT 1;
        CREATE FLOW b AS INSERT INTO spark_catalog.default.`t` BY NAME SELECT 2""",
        """create or refresh streaming table if not exists default.t using ORC as select 1; -- ;
        create flow b comment 'it; is' as insert into t select 2;""",
        "CREATE FLOW a AS INSERT INTO t SELECT 1; CREATE STREAMING TABLE t AS (SELECT 1)",
    ],
)
def test_a_second_flow_into_a_table_of_files_is_refused(project: Project, sql: str) -> None:
    with pytest.raises(PipelineRefused, match="table 't' has 2 flows"):
        FileTables(project).add_sql(sql)


def test_flows_of_python_and_sql_are_counted_together_in_any_order(project: Project) -> None:
    tables = FileTables(project)
    tables.add_flow("one", "t")
    tables.add_sql("/* CREATE FLOW no AS INSERT INTO t */ CREATE FLOW two AS INSERT INTO t SELECT")

    with pytest.raises(PipelineRefused, match=r"2 flows \(one, two\)"):
        tables.add_table("spark_catalog.default.t", None)


def test_other_formats_sinks_and_views_take_many_flows(project: Project) -> None:
    tables = FileTables(project)

    tables.add_sql("CREATE STREAMING TABLE t USING delta AS SELECT 'USING parquet' AS x")
    for name in ("a", "b"):
        tables.add_flow(name, "t")
        tables.add_flow(f"to_sink_{name}", "sink")

    with pytest.raises(PipelineRefused, match="table 'sink' has 2 flows"):
        tables.add_table("sink", "parquet")


@pytest.mark.parametrize(("written", "planned"), [(0, 0), (9, 9), (9, 10)])
def test_a_table_and_its_checkpoint_continue_together(
    project: Project, written: int, planned: int
) -> None:
    ran(project, "t", "t", written=written, planned=planned)

    FileTables(project).add_sql("CREATE STREAMING TABLE t AS SELECT 1")


def test_a_flow_that_was_renamed_is_refused(project: Project) -> None:
    ran(project, "t", "old", written=9, planned=9)
    renamed = "CREATE STREAMING TABLE t; CREATE FLOW new AS INSERT INTO t SELECT 1"

    with pytest.raises(
        PipelineRefused, match=r"unknown to the checkpoint of its flow 'new'.*--full-refresh t"
    ):
        FileTables(project).add_sql(renamed)
    FileTables(project, lambda _: False).add_sql(renamed)


def test_a_checkpoint_that_lags_its_table_is_refused(project: Project) -> None:
    ran(project, "t", "t", written=9, planned=3)

    with pytest.raises(PipelineRefused, match="its checkpoint removed"):
        FileTables(project).add_sql("CREATE STREAMING TABLE t AS SELECT 1")


def test_after_a_full_refresh_the_newest_checkpoint_counts(project: Project) -> None:
    ran(project, "t", "t", written=3, planned=1)
    put(project.checkpoints / "spark_catalog/default/t/t/1/offsets", "0", "1", "2", "3")

    FileTables(project).add_sql("CREATE STREAMING TABLE t AS SELECT 1")


def test_a_table_is_the_same_however_it_is_spelled(project: Project) -> None:
    put(project.warehouse / "t/_spark_metadata", "3")
    put(project.checkpoints / "spark_catalog/default/T/Copy/0/offsets", "3")

    FileTables(project).add_sql("CREATE STREAMING TABLE T; CREATE FLOW copy AS INSERT INTO t FROM")

    twice = "CREATE STREAMING TABLE u AS FROM x; CREATE FLOW f AS INSERT INTO U"
    with pytest.raises(PipelineRefused, match="table 'u' has 2 flows"):
        FileTables(project).add_sql(twice)


def test_what_a_sql_file_defines_is_found_by_name() -> None:
    text = """
    CREATE MATERIALIZED VIEW revenue AS SELECT 1;
    create or refresh streaming table if not exists default.`a b` as select 2;
    -- CREATE MATERIALIZED VIEW no AS
    CREATE OR REPLACE MATERIALIZED VIEW spark_catalog.default.c COMMENT ';' AS SELECT 3;
    CREATE TEMPORARY VIEW v AS SELECT 'CREATE STREAMING TABLE t';
    CREATE FLOW f AS INSERT INTO x BY NAME SELECT 1
    """

    assert list(sql_targets(text)) == ["revenue", "default.`a b`", "spark_catalog.default.c"]
