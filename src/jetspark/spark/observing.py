"""Counting what flows through a DataFrame, and naming the jobs that read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

_DESCRIPTION: Final = "spark.job.description"


def observed(rows: "DataFrame", name: "str | Observation") -> "DataFrame":
    """Return ``rows`` with an observation: what passes here is counted while the query runs.

    ``rows`` always; ``bytes`` of ``data`` (of a bucket: ``value``), ``first_seq`` and ``last_seq``
    (of a bucket: revisions) and ``newest`` (the latest timestamp) where the columns exist. A
    streaming query has them in ``observedMetrics`` of its progress under ``name``; for a batch
    pass a ``pyspark.sql.Observation`` and read its ``get`` after the action. Observe before you
    drop columns. Spark counts rows again that it computes again, after a lost task.
    """
    from pyspark.sql import functions as f

    present = set(rows.columns)
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
    """Give the jobs of batch actions inside ``with`` a description, shown in Spark's UI and log.

    Spark shows a Python source as ``(Python)``, without its stream or filter:
    ``with described(spark, "ORDERS, orders.eu.>"): rows.count()``. Streaming queries are described
    by Spark with their ``queryName``. A Connect client cannot describe jobs; there the text
    becomes a tag of the operations, in which commas become semicolons.
    """
    if not text:
        raise ValueError("described: the text is empty; expected what the jobs read or write")
    from pyspark.sql import SparkSession as ClassicSession

    # To a type checker the session of Connect is the classic one.
    given: object = spark
    if isinstance(given, ClassicSession):
        context = spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(text)
        try:
            yield
        finally:
            # Spark takes None as "no description"; its annotation does not say so.
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
        return
    tag = text.replace(",", ";")
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)
