"""Spark's two kinds of writers, on top of a format's row writer.

A batch write and an epoch of a streaming query are written alike; Spark has a class for each.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from jetspark.spark.same_version import Sealed, reduced

_log = logging.getLogger(__name__)

Commits = Sequence[WriterCommitMessage | None]
"""The reports of a write's tasks to the driver; None for a task that failed."""


class RowWriter(Protocol):
    """How one format writes rows. Pickled to the tasks."""

    @property
    def target(self) -> str:
        """The target, for messages: ``stream 'ORDERS'``."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task. Runs in a worker."""

    def commit(self, messages: Commits) -> None:
        """Finish when every task has written. Runs on the driver."""


class BatchWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def __reduce__(self) -> Sealed:
        """Pickle with the driver's version, which the tasks compare with theirs."""
        return reduced(self)

    # The names of the arguments are Spark's, here and below.

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task."""
        return self._rows.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every task has written."""
        self._rows.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The write failed."""
        _report_abort(self._rows, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming write: the same for each epoch."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def __reduce__(self) -> Sealed:
        """Pickle with the driver's version, which the tasks compare with theirs."""
        return reduced(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of one task of one epoch."""
        return self._rows.write(iterator)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803, ARG002
    ) -> None:
        """Every task of an epoch has written."""
        self._rows.commit(messages)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803, ARG002
    ) -> None:
        """The epoch failed; Spark runs it again."""
        _report_abort(self._rows, messages)


def _report_abort(rows: RowWriter, messages: Commits) -> None:
    """Log it, and keep what is stored: a replay of the same rows relies on it."""
    done = sum(message is not None for message in messages)
    _log.warning(
        "a write to %s was aborted: %d of %d tasks have written; their rows are kept",
        rows.target,
        done,
        len(messages),
    )
