"""Writing rows into a stream: what a task does, and what the driver does when all are done.

Spark may run a task twice, side by side or again, and a whole epoch again after a restart. Rows
carry ids that come out the same, so the stream keeps one copy (spark.md 6.4, A); a ledger (B) or
markers (C) carry the promise beyond the duplicate window. ``abort`` never
undoes: the same epoch comes again.
"""

import functools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from jetspark.headers.block import append_lines
from jetspark.spark.ledger import begin_epoch, commit_epoch, stored_before
from jetspark.spark.markers import MarkedWriter, check_size
from jetspark.spark.message_ids import IdMaker, WriteTask
from jetspark.spark.same_version import Sealed, reduced
from jetspark.spark.sending import Sender
from jetspark.spark.sink_options import AtomicScope
from jetspark.spark.sink_plan import SinkPlan, WriteRefused
from jetspark.spark.sink_rows import RowDecoder, Rows

_log = logging.getLogger(__name__)

# Arrow batches are gathered into chunks of about this size: an acknowledged chunk costs two round
# trips, and is kept in memory until then.
CHUNK_ROWS: Final = 10_000
CHUNK_BYTES: Final = 8 * 1024 * 1024


@dataclass
class SinkCommit(WriterCommitMessage):
    """What a task tells the driver: how much it wrote, as part of what."""

    task: WriteTask
    rows: int
    last_seq: int
    """The highest sequence of its rows, as far as the task knows; 0: unknown."""
    held: Rows | None = None
    """Rows that the driver is to store (``atomicScope`` epoch)."""


class RowWriter:
    """What batch and streaming writes have in common. Travels to the tasks by pickle."""

    def __init__(self, plan: SinkPlan, schema: StructType) -> None:
        self._plan = plan
        self._schema = schema

    def write(self, batches: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Publish the rows of one task. Runs in a worker."""
        plan = self._plan
        task = this_task(plan)
        chunks = gather(RowDecoder(self._schema, plan.options.subject), batches)
        if plan.marked:
            return self._write_marked(task, chunks)
        sender = Sender(plan)
        known: set[bytes] = set()
        if plan.options.ledger_bucket:
            found = sender.with_retries(lambda js: begin_epoch(js, plan, task))
            if found.entry.epoch >= task.epoch:
                # Spark's replay of a committed epoch; its rows are taken and left alone.
                return SinkCommit(task, sum(len(rows.subjects) for rows in chunks), 0)
            known = sender.with_retries(lambda js: stored_before(js, plan, task, found))
        maker = IdMaker(plan.id_source, task) if plan.id_source is not None else None
        count, last = 0, 0
        for rows in chunks:
            count += len(rows.subjects)
            ids = maker.ids(rows) if maker is not None else None
            if known and ids is not None:
                new = [row for row, one in enumerate(ids) if one.encode() not in known]
                rows, ids = picked(rows, new), [ids[row] for row in new]  # noqa: PLW2901
            if rows.subjects:
                headers = finished_headers(plan.stream, rows, ids)
                last = max(last, sender.send(rows.subjects, rows.payloads, headers))
        return SinkCommit(task, count, last)

    def _write_marked(self, task: WriteTask, chunks: Iterator[Rows]) -> SinkCommit:
        """Store rows in atomic batches, or leave that to the driver for a whole epoch."""
        scope = self._plan.options.atomic_scope
        rows = functools.reduce(joined, chunks, NO_ROWS)
        count = len(rows.subjects)
        if scope is not AtomicScope.CHUNK:
            check_size(rows, "a partition")
        if scope is AtomicScope.EPOCH:
            return SinkCommit(task, count, 0, rows)
        last = self._store_marked(task, str(task.partition), rows) if count else 0
        return SinkCommit(task, count, last)

    def _store_marked(self, task: WriteTask, part: str, rows: Rows) -> int:
        Sender(self._plan).check_subjects(rows.subjects)
        headers = finished_headers(self._plan.stream, rows, None)
        return MarkedWriter(self._plan, task, part).write(rows, headers)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task has written; the driver does what is left to do for all of them."""
        plan = self._plan
        told = [message for message in messages if isinstance(message, SinkCommit)]
        _log.info("%d tasks have written to stream %r", len(told), plan.stream)
        if plan.options.ledger_bucket and told:
            Sender(plan).with_retries(lambda js: commit_epoch(js, plan, told[0].task))
        if plan.marked and plan.options.atomic_scope is AtomicScope.EPOCH:
            held = [message.held for message in told if message.held is not None]
            rows = functools.reduce(joined, held, NO_ROWS)
            check_size(rows, "an epoch")
            if rows.subjects:
                self._store_marked(told[0].task, "epoch", rows)
        if plan.overwrite_below:
            Sender(plan).with_retries(
                lambda js: js.stream(plan.stream).purge(seq=plan.overwrite_below)
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say so, and leave what is stored: Spark's replay counts on it (spark.md 1.4)."""
        done = sum(message is not None for message in messages)
        _log.warning(
            "a write to stream %r was aborted: %d of %d tasks have written, their rows stay",
            self._plan.stream,
            done,
            len(messages),
        )


class JetStreamBatchWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def __reduce__(self) -> Sealed:
        """Travel to the tasks with the driver's version, which they compare."""
        return reduced(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one task."""
        return self._rows.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every task has written."""
        self._rows.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The write failed."""
        self._rows.abort(messages)


class JetStreamStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write: the same for each epoch."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def __reduce__(self) -> Sealed:
        """Travel to the tasks with the driver's version, which they compare."""
        return reduced(self)

    # The names of the arguments are Spark's.

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one task of one epoch."""
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
        self._rows.abort(messages)


def this_task(plan: SinkPlan) -> WriteTask:
    """Ask Spark which part of which write this is (spark.md 1.4).

    The epoch and the query reach a task as local properties only; a batch is named by the user.
    """
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    options = plan.options
    if not options.streaming:
        return WriteTask(options.txn_app_id, options.txn_version or 0, partition)
    query = epoch = None
    if context is not None:
        query = context.getLocalProperty("sql.streaming.queryId")
        epoch = context.getLocalProperty("streaming.sql.batchId")
    if query is None or epoch is None:
        raise WriteRefused(
            "Spark did not tell this task its query and epoch, of which message ids are made: "
            'set option("delivery", "at-least-once"), or give the rows a column "msg_id"'
        )
    return WriteTask(options.id_prefix or query, int(epoch), partition, query)


def gather(decoder: RowDecoder, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
    """Yield the rows of small batches together, in order; none are empty."""
    held: Rows | None = None
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        # Spark's batches are bounded (10,000 rows by default), so that one fits a chunk.
        rows = decoder.decode(batch)
        size += batch.nbytes
        held = rows if held is None else joined(held, rows)
        if len(held.subjects) >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield held
            held, size = None, 0
    if held is not None:
        yield held


NO_ROWS: Final = Rows([], [], [], None, None)


def joined(first: Rows, second: Rows) -> Rows:
    """Return the rows of both, which have the same columns."""
    if not first.subjects:
        return second
    if not second.subjects:
        return first
    return Rows(
        first.subjects + second.subjects,
        first.payloads + second.payloads,
        first.headers + second.headers,
        first.lines + second.lines if first.lines and second.lines else None,
        first.msg_ids + second.msg_ids if first.msg_ids and second.msg_ids else None,
    )


def picked(rows: Rows, places: Sequence[int]) -> Rows:
    """Return some of the rows."""
    return Rows(
        [rows.subjects[place] for place in places],
        [rows.payloads[place] for place in places],
        [rows.headers[place] for place in places],
        [rows.lines[place] for place in places] if rows.lines is not None else None,
        [rows.msg_ids[place] for place in places] if rows.msg_ids is not None else None,
    )


def finished_headers(stream: str, rows: Rows, ids: Sequence[str] | None) -> list[bytes]:
    """Return the header blocks as they are sent: the user's, then those of this publish.

    ``stream`` empty: whichever stream takes the message.
    """
    expected = b"Nats-Expected-Stream: %s\r\n" % stream.encode() if stream else b""
    if ids is None:
        lines = [expected] * len(rows.subjects)
    else:
        lines = [b"%sNats-Msg-Id: %s\r\n" % (expected, one.encode()) for one in ids]
    if rows.lines is not None:
        lines = [line + asked for line, asked in zip(lines, rows.lines, strict=True)]
    return [
        append_lines(block, line) if line else block
        for block, line in zip(rows.headers, lines, strict=True)
    ]
