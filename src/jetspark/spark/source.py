"""``JetStreamDataSource``: what Spark knows as the format ``jetstream``.

Spark makes an instance in a short-lived process on the driver for every plan, so nothing here
connects: the first to do so is the reader, when it is asked for its partitions (spark.md 1.1).
"""

import os
from typing import NoReturn

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from jetspark.spark.batch_reader import JetStreamBatchReader
from jetspark.spark.options import (
    FORMAT_NAME,
    SourceOptions,
    default_min_partitions,
    header_mode,
    parse_source_options,
)
from jetspark.spark.schema import check_schema, default_schema
from jetspark.spark.stream_reader import JetStreamStreamReader


class JetStreamDataSource(DataSource):
    """A stream as a table, one row for each message: batch and streaming reads (spark.md 6.2)."""

    @classmethod
    def name(cls) -> str:
        """Return the word for ``spark.read.format``."""
        return FORMAT_NAME

    def schema(self) -> StructType:
        """Return the columns of a read whose user gave no schema."""
        # Spark asks before it says whether the read is a batch or a stream.
        return default_schema(header_mode(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for a batch query; wrong options and schemas are refused here."""
        options = self._source_options(streaming=False)
        check_schema(schema, options.headers)
        return JetStreamBatchReader(options, schema)

    # The names and arguments below are Spark's.

    def writer(
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceWriter:
        """Refuse: there is no sink yet."""
        _refuse("Writing to")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader for a streaming query; wrong options and schemas are refused here."""
        options = self._source_options(streaming=True)
        check_schema(schema, options.headers)
        return JetStreamStreamReader(options, schema)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamWriter:
        """Refuse: there is no sink yet."""
        _refuse("writeStream to")

    def _source_options(self, *, streaming: bool) -> SourceOptions:
        return parse_source_options(
            self.options,
            default_min_partitions=default_min_partitions(os.environ),
            streaming=streaming,
        )


def _refuse(what: str) -> NoReturn:
    raise PySparkNotImplementedError(
        errorClass="NOT_IMPLEMENTED",
        messageParameters={
            "feature": f"{what} format '{FORMAT_NAME}' (reading is: "
            f"spark.read and spark.readStream with format('{FORMAT_NAME}'))"
        },
    )
