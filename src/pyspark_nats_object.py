"""Where Spark finds the format ``nats_object``: it looks for ``pyspark_*``."""

from jetspark.spark.needs import needs_spark

with needs_spark():
    from jetspark.spark.objects.source import ObjectDataSource as DefaultSource

__all__ = ["DefaultSource"]
