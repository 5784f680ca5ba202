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
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import StructType

from jetspark.spark.batch_reader import JetStreamBatchReader
from jetspark.spark.options import (
    FORMAT_NAME,
    SourceOptions,
    default_min_partitions,
    parse_source_options,
)
from jetspark.spark.schema import check_schema, default_schema


class JetStreamDataSource(DataSource):
    """A stream as a table: one row for each message. Batch reads; options in spark.md 6.2."""

    @classmethod
    def name(cls) -> str:
        """Return the word for ``spark.read.format``."""
        return FORMAT_NAME

    def schema(self) -> StructType:
        """Return the columns of a read whose user gave no schema."""
        return default_schema(self._source_options().headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for a batch query; wrong options and schemas are refused here."""
        options = self._source_options()
        check_schema(schema, options.headers)
        return JetStreamBatchReader(options, schema)

    # The names and arguments of the four below are Spark's.

    def writer(
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceWriter:
        """Refuse: there is no sink yet."""
        _refuse("Writing to")

    def streamReader(  # noqa: N802
        self,
        schema: StructType,  # noqa: ARG002
    ) -> DataSourceStreamReader:
        """Refuse: there are no streaming reads yet."""
        _refuse("readStream from")

    def simpleStreamReader(  # noqa: N802
        self,
        schema: StructType,  # noqa: ARG002
    ) -> SimpleDataSourceStreamReader:
        """Refuse: Spark asks for this one when ``streamReader`` is not there."""
        _refuse("readStream from")

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamWriter:
        """Refuse: there is no sink yet."""
        _refuse("writeStream to")

    def _source_options(self) -> SourceOptions:
        return parse_source_options(
            self.options, default_min_partitions=default_min_partitions(os.environ)
        )


def _refuse(what: str) -> NoReturn:
    raise PySparkNotImplementedError(
        errorClass="NOT_IMPLEMENTED",
        messageParameters={
            "feature": f"{what} format '{FORMAT_NAME}' (batch reads are: "
            f"spark.read.format('{FORMAT_NAME}'))"
        },
    )
