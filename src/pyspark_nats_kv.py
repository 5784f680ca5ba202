"""Where Spark finds the format ``nats_kv``: it looks for ``pyspark_*``."""

from jetspark.spark.needs import needs_spark

with needs_spark():
    from jetspark.spark.kv.source import KvDataSource as DefaultSource

__all__ = ["DefaultSource"]
