"""Spark tables over JetStream, in pure Python.

``spark = jetspark.spark.session()`` starts Spark with everything set up; then
``spark.read.format("jetstream").option("servers", ...).option("stream", ...).load()``.

Importing this package does not import pyspark: that happens on first use.
"""

from jetspark.spark.columns import encode_headers, parse_headers, with_msg_id
from jetspark.spark.notebook import ProgressView, progress_view
from jetspark.spark.observing import described, observed
from jetspark.spark.payloads.decode import decode_avro, decode_json, decode_msgpack
from jetspark.spark.payloads.encode import encode_avro, encode_json, encode_msgpack
from jetspark.spark.pipelines.connection import connection_options
from jetspark.spark.progress import SourceLag, lag, progress_report, watch
from jetspark.spark.progress_publisher import ProgressPublisher, publish_progress
from jetspark.spark.refreshing import refresh
from jetspark.spark.session import configure, register, session
from jetspark.spark.starting import wait_for_source
from jetspark.spark.stream.sink.foreach_batch import foreach_batch_writer

__all__ = [
    "ProgressPublisher",
    "ProgressView",
    "SourceLag",
    "configure",
    "connection_options",
    "decode_avro",
    "decode_json",
    "decode_msgpack",
    "described",
    "encode_avro",
    "encode_headers",
    "encode_json",
    "encode_msgpack",
    "foreach_batch_writer",
    "lag",
    "observed",
    "parse_headers",
    "progress_report",
    "progress_view",
    "publish_progress",
    "refresh",
    "register",
    "session",
    "wait_for_source",
    "watch",
    "with_msg_id",
]
