"""Spark tables over JetStream, in pure Python.

``spark = jetspark.spark.session()`` starts Spark with everything set up; then
``spark.read.format("jetstream").option("servers", ...).option("stream", ...).load()``.

Importing this package does not import pyspark: that happens on first use.
"""

from jetspark.spark.columns import encode_headers, parse_headers, with_msg_id
from jetspark.spark.decode import decode_avro, decode_json, decode_msgpack
from jetspark.spark.encode import encode_avro, encode_json, encode_msgpack
from jetspark.spark.foreach_batch import foreach_batch_writer
from jetspark.spark.pipelines.connection import connection_options
from jetspark.spark.session import configure, register, session
from jetspark.spark.starting import wait_for_source

__all__ = [
    "configure",
    "connection_options",
    "decode_avro",
    "decode_json",
    "decode_msgpack",
    "encode_avro",
    "encode_headers",
    "encode_json",
    "encode_msgpack",
    "foreach_batch_writer",
    "parse_headers",
    "register",
    "session",
    "wait_for_source",
    "with_msg_id",
]
