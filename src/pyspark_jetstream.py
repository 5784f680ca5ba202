"""Where Spark finds the format ``jetstream``: it looks for ``pyspark_*``."""

from jetspark.spark.needs import needs_spark

with needs_spark():
    from jetspark.spark.stream.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
