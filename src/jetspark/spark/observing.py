"""Counting the rows of a DataFrame, and describing the jobs that read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

_DESCRIPTION: Final = "spark.job.description"


def observed(rows: "DataFrame", name: "str | Observation") -> "DataFrame":
    """Return ``rows`` with an observation: they are counted while the query runs.

    ``rows`` always; ``bytes`` of ``data`` (of a bucket: ``value``), ``first_seq`` and ``last_seq``
    (of a bucket: revisions) and ``newest`` (the latest timestamp) where the columns exist. A
    streaming query has them in ``observedMetrics`` of its progress under ``name``; for a batch
    pass a ``pyspark.sql.Observation`` and read its ``get`` after the action. Observe before you
    drop columns. In a function of a declarative pipeline, where the columns are not known,
    only ``rows`` is counted. Rows that Spark computes again, after a lost task, are counted again.
    """
    from pyspark.sql import functions as f

    from jetspark.spark.columns import known_columns

    present = set(known_columns(rows) or ())
    metrics: list[Column] = [f.count(f.lit(1)).alias("rows")]
    payload = next((each for each in ("data", "value") if each in present), None)
    place = next((each for each in ("seq", "revision") if each in present), None)
    if payload is not None:
        metrics.append(f.coalesce(f.sum(f.octet_length(payload)), f.lit(0)).alias("bytes"))
    if place is not None:
        metrics += [f.min(place).alias("first_seq"), f.max(place).alias("last_seq")]
    if "timestamp" in present:
        metrics.append(f.max("timestamp").alias("newest"))
    return rows.observe(name, *metrics)


@contextmanager
def described(spark: "SparkSession", text: str) -> Iterator[None]:
    """Describe the jobs of batch actions inside ``with``, in Spark's UI and log.

    Spark shows a Python source as ``(Python)``, without its stream or filter: ``with
    described(spark, "ORDERS, orders.eu.>"): rows.count()``. Spark describes streaming queries with
    their ``queryName``. A Connect client cannot describe jobs; there the text becomes a tag of the
    operations, with semicolons instead of commas.
    """
    if not text:
        raise ValueError("described: the text is empty; expected a description of the jobs")
    from pyspark.sql import SparkSession as ClassicSession

    # To a type checker, a Connect session is a classic one.
    given: object = spark
    if isinstance(given, ClassicSession):
        context = spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(text)
        try:
            yield
        finally:
            # Spark accepts None as "no description"; its annotation does not say so.
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
        return
    tag = text.replace(",", ";")
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)
