"""``JetStreamDataSource``: the format ``jetstream`` for Spark.

Spark creates an instance in a short-lived process on the driver for every plan, so nothing here
connects: the reader connects first, when it plans its partitions.
"""

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

from jetspark.spark.option_reader import refuse_catalog_table
from jetspark.spark.stream.batch_reader import JetStreamBatchReader
from jetspark.spark.stream.options import (
    FORMAT_NAME,
    SourceOptions,
    default_min_partitions,
    header_mode,
    parse_source_options,
)
from jetspark.spark.stream.refused_reader import reader_or_refusal
from jetspark.spark.stream.schema import check_schema, default_schema
from jetspark.spark.stream.sink.options import parse_sink_options
from jetspark.spark.stream.sink.plan import plan_write
from jetspark.spark.stream.sink.routed import plan_routed_write
from jetspark.spark.stream.sink.rows import check_sink_schema
from jetspark.spark.stream.sink.writer import StreamRowWriter
from jetspark.spark.stream.streaming_reader import JetStreamStreamReader, SelectedStreams
from jetspark.spark.times import session_zone
from jetspark.spark.writers import BatchWriter, RowWriter, StreamWriter


class JetStreamDataSource(DataSource):
    """A stream as a table, one row per message: batch and streaming."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return FORMAT_NAME

    def schema(self) -> StructType:
        """Return the default schema of a read."""
        refuse_catalog_table(FORMAT_NAME, self.options)
        # Spark calls this before it is known whether the read is a batch or a stream.
        return default_schema(header_mode(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query; refuses invalid options and schemas."""
        options = self._source_options(streaming=False)
        check_schema(schema, options.headers)
        return JetStreamBatchReader(options, schema)

    # The names and arguments below are Spark's.

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch; checks with the server that the guarantee is possible."""
        return BatchWriter(self._row_writer(schema, overwrite, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query; one that raises if it cannot be created."""
        return reader_or_refusal(lambda: self._stream_reader(schema))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of an epoch; Spark calls this before each."""
        writer = StreamWriter(self._row_writer(schema, overwrite, streaming=True))
        # Spark accepts either kind of streaming writer; its annotation names one.
        return cast("DataSourceStreamWriter", writer)

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._source_options(streaming=True)
        check_schema(schema, options.headers)
        return JetStreamStreamReader(options, SelectedStreams(options, schema))

    def _row_writer(self, schema: StructType, overwrite: bool, *, streaming: bool) -> RowWriter:
        options = parse_sink_options(self.options, streaming=streaming)
        several = bool(options.streams)
        columns = check_sink_schema(schema, options.subject, several=several)
        if several:
            return plan_routed_write(options, columns, schema, overwrite=overwrite)
        return StreamRowWriter(plan_write(options, columns, overwrite=overwrite), schema)

    def _source_options(self, *, streaming: bool) -> SourceOptions:
        return parse_source_options(
            self.options,
            default_min_partitions=default_min_partitions(os.environ),
            zone=session_zone(os.environ),
            streaming=streaming,
        )
