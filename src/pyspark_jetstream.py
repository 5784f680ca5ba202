"""Where Spark finds the format ``jetstream``: it looks for ``pyspark_*`` (spark.md 1.3)."""

from jetspark.spark.stream.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
