"""``ObjectDataSource``: the format ``nats_object`` for Spark.

An object is a row with the columns of Spark's ``binaryFile``: path, modificationTime, length,
content. With ``splitBytes`` a large object is several rows, with where each starts. Written rows
become objects; one with the same name and content is not written again, so that a task that runs
twice changes nothing.
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

from jetspark.spark.objects.options import OBJECT_FORMAT, parse_object_options
from jetspark.spark.objects.reader import ObjectReader, check_object_schema, object_schema
from jetspark.spark.objects.writer import (
    ObjectRowWriter,
    check_object_sink_schema,
    plan_object_write,
)
from jetspark.spark.option_reader import Use, refuse_catalog_table
from jetspark.spark.stream.options import default_min_partitions
from jetspark.spark.stream.refused_reader import RefusedStreamReader
from jetspark.spark.stream.view import PlanningFailed
from jetspark.spark.writers import BatchWriter, StreamWriter


class ObjectDataSource(DataSource):
    """An object store as a table, one row per object."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return OBJECT_FORMAT

    def schema(self) -> StructType:
        """Return the default schema of a read."""
        refuse_catalog_table(OBJECT_FORMAT, self.options)
        return object_schema(split="splitBytes" in self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a store; refuses invalid options and schemas."""
        options = parse_object_options(
            self.options,
            Use.READ,
            default_min_partitions=default_min_partitions(os.environ),
        )
        check_object_schema(schema, split=options.split_bytes is not None)
        return ObjectReader(options, schema)

    # The names and arguments below are Spark's.

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """Return a reader that raises: objects cannot be read as a stream."""
        return RefusedStreamReader(
            PlanningFailed(
                f"format {OBJECT_FORMAT!r} does not support readStream: use spark.read, or for "
                "changes read the store's stream OBJ_<bucket> with format 'jetstream' and "
                "subject '$O.<bucket>.M.>'"
            )
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch; checks with the server that the store exists."""
        return BatchWriter(self._row_writer(schema, overwrite, Use.WRITE))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of an epoch; Spark calls this before each."""
        writer = StreamWriter(self._row_writer(schema, overwrite, Use.WRITE_STREAM))
        # Spark accepts either kind of streaming writer; its annotation names one.
        return cast("DataSourceStreamWriter", writer)

    def _row_writer(self, schema: StructType, overwrite: bool, use: Use) -> ObjectRowWriter:
        options = parse_object_options(self.options, use)
        check_object_sink_schema(schema)
        plan_object_write(options, overwrite=overwrite, streaming=use is Use.WRITE_STREAM)
        return ObjectRowWriter(options, schema)
