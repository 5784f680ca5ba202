"""Where Spark finds the format ``nats_object``: it looks for ``pyspark_*``."""

from jetspark.spark.objects.source import ObjectDataSource as DefaultSource

__all__ = ["DefaultSource"]
