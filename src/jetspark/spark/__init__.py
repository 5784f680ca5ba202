"""Spark tables over JetStream, in pure Python.

``spark = jetspark.spark.session()`` starts Spark with everything set up; then
``spark.read.format("jetstream").option("servers", ...).option("stream", ...).load()``.

Importing this package does not import pyspark: that happens on first use.
"""

from jetspark.spark.batches.file_table import file_table
from jetspark.spark.batches.once import Batch, exactly_once
from jetspark.spark.columns import encode_headers, parse_headers, with_msg_id
from jetspark.spark.expectations import Expected, expect
from jetspark.spark.inferring import infer_schema
from jetspark.spark.kv.lookup import kv_lookup
from jetspark.spark.kv.merge import MergeReport, kv_merge
from jetspark.spark.observing import described, observed
from jetspark.spark.payloads.decode import (
    decode_avro,
    decode_json,
    decode_msgpack,
    decode_protobuf,
    decode_registered,
)
from jetspark.spark.payloads.encode import (
    encode_avro,
    encode_json,
    encode_msgpack,
    encode_protobuf,
    schema_headers,
)
from jetspark.spark.pipelines.connection import connection_options
from jetspark.spark.progress.notebook import ProgressView, progress_view
from jetspark.spark.progress.publisher import ProgressPublisher, publish_progress
from jetspark.spark.progress.reports import SourceLag, lag, progress_report, watch
from jetspark.spark.refreshing import refresh
from jetspark.spark.registered import registered_schema
from jetspark.spark.session import configure, register, session
from jetspark.spark.starting import wait_for_source
from jetspark.spark.stream.sink.foreach_batch import foreach_batch_writer
from jetspark.spark.tables import register_tables

__all__ = [
    "Batch",
    "Expected",
    "MergeReport",
    "ProgressPublisher",
    "ProgressView",
    "SourceLag",
    "configure",
    "connection_options",
    "decode_avro",
    "decode_json",
    "decode_msgpack",
    "decode_protobuf",
    "decode_registered",
    "described",
    "encode_avro",
    "encode_headers",
    "encode_json",
    "encode_msgpack",
    "encode_protobuf",
    "exactly_once",
    "expect",
    "file_table",
    "foreach_batch_writer",
    "infer_schema",
    "kv_lookup",
    "kv_merge",
    "lag",
    "observed",
    "parse_headers",
    "progress_report",
    "progress_view",
    "publish_progress",
    "refresh",
    "register",
    "register_tables",
    "registered_schema",
    "schema_headers",
    "session",
    "wait_for_source",
    "watch",
    "with_msg_id",
]
