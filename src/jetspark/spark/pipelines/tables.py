"""Tables of a continuous run: created before a flow writes, reused after a restart.

Spark's default catalog forgets its tables when the process ends, and refuses to create a table
over existing files. Those are used in place.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark.sql.types import StructType

from jetspark.spark.pipelines.file_tables import place_of
from jetspark.spark.pipelines.graph import Kind, Target
from jetspark.spark.pipelines.project import PipelineRefused, Project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def use_database(spark: "SparkSession", project: Project) -> None:
    """Create the database of the spec if Spark's own catalog lacks it, and use it."""
    if project.catalog != "spark_catalog":
        spark.catalog.setCurrentCatalog(project.catalog)
    elif project.database != "default":
        # The project owns its catalog, so nothing else could create it.
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(project.database)}")
    spark.catalog.setCurrentDatabase(project.database)


def ensure_table(
    spark: "SparkSession", project: Project, target: Target, schema: StructType
) -> None:
    """Create the table of ``target``, or check that the existing one matches ``schema``."""
    if not spark.catalog.tableExists(target.name):
        _make(spark, project, target, schema)
        return
    there = spark.table(target.name).schema
    if _columns(there) == _columns(schema):
        return
    if target.kind is Kind.VIEW:
        # It is computed again anyway.
        _drop(spark, target)
        _make(spark, project, target, schema)
        return
    raise PipelineRefused(
        f"table {target.name!r} has the columns {there.simpleString()}, but its flow returns "
        f"{schema.simpleString()}: run the project without --continuous, which changes tables, or "
        f"start it again with --full-refresh {target.name}"
    )


def remove_table(spark: "SparkSession", project: Project, target: Target) -> None:
    """Remove a table and its rows, whether the catalog knows it or only its files exist."""
    if spark.catalog.tableExists(target.name):
        _drop(spark, target)
    place = place_of(project, target.name)
    if place.exists():
        shutil.rmtree(place)


def refresh(spark: "SparkSession", target: Target, rows: "DataFrame") -> None:
    """Replace the contents of a materialized view."""
    columns = spark.table(target.name).columns
    rows.select(*columns).write.mode("overwrite").insertInto(target.name)


def _make(spark: "SparkSession", project: Project, target: Target, schema: StructType) -> None:
    place = place_of(project, target.name)
    writer = f"CREATE TABLE {quoted(target.name)} ({ddl(schema)}) USING {target.format}"
    if target.partition_by:
        columns = ", ".join(f"`{column}`" for column in target.partition_by)
        writer += f" PARTITIONED BY ({columns})"
    if place.is_dir() and any(place.iterdir()):
        if target.kind is Kind.VIEW:
            shutil.rmtree(place)
        else:
            writer += f" LOCATION '{place.as_uri()}'"
    if target.comment:
        writer += f" COMMENT {_text(target.comment)}"
    if target.properties:
        pairs = ", ".join(
            f"{_text(key)} = {_text(value)}" for key, value in target.properties.items()
        )
        writer += f" TBLPROPERTIES ({pairs})"
    spark.sql(writer)
    there = spark.table(target.name).schema
    assert _columns(there) == _columns(schema), "a new table has the columns it was given"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _drop(spark: "SparkSession", target: Target) -> None:
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted(target.name)}").collect()
    places = [row.data_type for row in rows if row.col_name == "Location"]
    spark.sql(f"DROP TABLE {quoted(target.name)}")
    for place in places:
        shutil.rmtree(Path(unquote(urlsplit(place).path)), ignore_errors=True)


def quoted(name: str) -> str:
    """Quote a name of one or more parts for SQL."""
    return ".".join(f"`{part}`" for part in name.split("."))


def ddl(schema: StructType) -> str:
    """Return the columns as SQL."""
    return ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in schema.fields)


def _columns(schema: StructType) -> dict[str, str]:
    """Names and types; a table may have another order, and all its columns are nullable."""
    return {one.name: one.dataType.simpleString() for one in schema.fields}
