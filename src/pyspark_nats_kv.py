"""Where Spark finds the format ``nats_kv``: it looks for ``pyspark_*``."""

from jetspark.spark.kv.source import KvDataSource as DefaultSource

__all__ = ["DefaultSource"]
