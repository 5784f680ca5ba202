"""Where Spark finds the format ``nats_object``: it looks for ``pyspark_*`` (spark.md 1.3)."""

from jetspark.spark.objects.source import ObjectDataSource as DefaultSource

__all__ = ["DefaultSource"]
