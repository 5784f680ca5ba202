"""Where Spark finds the format ``nats_kv``: it looks for ``pyspark_*`` (spark.md 1.3)."""

from jetspark.spark.kv.source import KvDataSource as DefaultSource

__all__ = ["DefaultSource"]
