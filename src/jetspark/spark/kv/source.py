"""``KvDataSource``: the format ``nats_kv`` for Spark."""

import os
from typing import cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from jetspark.spark.kv.feed import BEFORE_SNAPSHOT, BucketChanges
from jetspark.spark.kv.options import (
    KV_FORMAT,
    parse_kv_feed_options,
    parse_kv_options,
    parse_kv_sink_options,
    wants_previous,
)
from jetspark.spark.kv.reader import KvSnapshotReader
from jetspark.spark.kv.rows import check_kv_schema, kv_schema
from jetspark.spark.kv.writer import KvRowWriter, check_kv_sink_schema, plan_kv_write
from jetspark.spark.option_reader import refuse_catalog_table
from jetspark.spark.stream.options import default_min_partitions, header_mode
from jetspark.spark.stream.refused_reader import reader_or_refusal
from jetspark.spark.stream.streaming_reader import JetStreamStreamReader, OneStream
from jetspark.spark.times import session_zone
from jetspark.spark.writers import BatchWriter, StreamWriter


class KvDataSource(DataSource):
    """A bucket as a table: a snapshot in batch reads, its changes in streaming ones."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return KV_FORMAT

    def schema(self) -> StructType:
        """Return the default schema of a read."""
        refuse_catalog_table(KV_FORMAT, self.options)
        return kv_schema(header_mode(self.options), previous=wants_previous(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a snapshot; refuses invalid options and schemas."""
        options = parse_kv_options(
            self.options,
            default_min_partitions=default_min_partitions(os.environ),
            zone=session_zone(os.environ),
        )
        check_kv_schema(schema, options.headers)
        return KvSnapshotReader(options, schema)

    # The names and arguments below are Spark's.

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of the change feed; one that raises if it cannot be created."""
        return reader_or_refusal(lambda: self._feed_reader(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch; checks with the server that the write is possible."""
        return BatchWriter(self._row_writer(schema, overwrite, streaming=False))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of an epoch; Spark calls this before each."""
        writer = StreamWriter(self._row_writer(schema, overwrite, streaming=True))
        # Spark accepts either kind of streaming writer; its annotation names one.
        return cast("DataSourceStreamWriter", writer)

    def _feed_reader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse_kv_feed_options(
            self.options,
            default_min_partitions=default_min_partitions(os.environ),
            zone=session_zone(os.environ),
        )
        check_kv_schema(schema, options.snapshot.headers, previous=options.include_previous)
        changes = BucketChanges(options, schema)
        streams = OneStream(changes, options.source.stream, BEFORE_SNAPSHOT)
        return JetStreamStreamReader(options.source, streams)

    def _row_writer(self, schema: StructType, overwrite: bool, *, streaming: bool) -> KvRowWriter:
        options = parse_kv_sink_options(self.options, streaming=streaming)
        columns = check_kv_sink_schema(schema, options.order_by)
        return KvRowWriter(plan_kv_write(options, columns, overwrite=overwrite), schema)
