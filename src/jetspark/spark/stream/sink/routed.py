"""Writing rows to several streams: a column names that of each row.

Each stream has its own plan, ledger entry and commit, as if it was written alone. A task writes
one stream after the other; until then the rows are in a temporary file, so that its memory does
not grow with them.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.spark.option_reader import shortened
from jetspark.spark.spool import Spool
from jetspark.spark.stream.sink.options import SinkOptions
from jetspark.spark.stream.sink.plan import plan_write
from jetspark.spark.stream.sink.rows import STREAM_COLUMN, RowRefused, column_name
from jetspark.spark.stream.sink.writer import SinkCommit, StreamRowWriter
from jetspark.spark.writers import Commits


@dataclass
class RoutedCommit(WriterCommitMessage):
    """A task's reports to the driver, in the order of the streams."""

    commits: list[SinkCommit]


class RoutedRowWriter:
    """Writes rows to the streams that they name. Pickled to the tasks."""

    def __init__(
        self, streams: Sequence[str], writers: Sequence[StreamRowWriter], at: int
    ) -> None:
        self._streams = tuple(streams)
        self._writers = tuple(writers)
        self._at = at

    @property
    def target(self) -> str:
        """The target of the write, for messages."""
        return f"streams {', '.join(map(repr, self._streams))}"

    def write(self, batches: Iterator[pa.RecordBatch]) -> RoutedCommit:
        """Publish the rows of one task. Runs in a worker."""
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in self._streams]
            spools = [Spool(file) for file in files]
            for batch in batches:
                self._split(batch, spools)
            # A stream without rows, too: whether it has any is decided by all tasks together.
            return RoutedCommit(
                [
                    writer.write(spool.batches())
                    for writer, spool in zip(self._writers, spools, strict=True)
                ]
            )

    def _split(self, batch: pa.RecordBatch, spools: "Sequence[Spool]") -> None:
        column = batch.column(self._at)
        rest = batch.remove_column(self._at)
        left = batch.num_rows
        for stream, spool in zip(self._streams, spools, strict=True):
            mine = pc.equal(column, stream)
            rows = pc.sum(mine).as_py() or 0
            if rows:
                spool.add(rest if rows == batch.num_rows else rest.filter(mine))
                left -= rows
        if left:
            self._refuse(column)

    def _refuse(self, column: pa.Array) -> None:
        if column.null_count:
            raise RowRefused(
                "column 'stream' is NULL in a row: every row requires the stream that it is "
                "written to, so filter such rows out"
            )
        others = sorted(set(column.to_pylist()) - set(self._streams))
        raise RowRefused(
            f"column 'stream' contains {shortened(others[0])}, which option streams does not list "
            f"({', '.join(self._streams)}): add it, or filter such rows out"
        )

    def commit(self, messages: Commits) -> None:
        """Every task has written; the driver does what is left, stream by stream."""
        done = [message for message in messages if isinstance(message, RoutedCommit)]
        for number, writer in enumerate(self._writers):
            writer.commit([message.commits[number] for message in done])


def plan_routed_write(
    options: SinkOptions, columns: frozenset[str], schema: StructType, *, overwrite: bool
) -> RoutedRowWriter:
    """Plan the write of each stream; raises ``WriteRefused`` or ``PlanningFailed``."""
    names = [column_name(name) for name in schema.fieldNames()]
    at = names.index(STREAM_COLUMN)
    rest = StructType([field for place, field in enumerate(schema.fields) if place != at])
    writers = []
    for stream in options.streams:
        one = msgspec.structs.replace(options, stream=stream, streams=())
        plan = plan_write(one, columns - {STREAM_COLUMN}, overwrite=overwrite)
        writers.append(StreamRowWriter(plan, rest))
    return RoutedRowWriter(options.streams, writers, at)
