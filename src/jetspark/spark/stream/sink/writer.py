"""Writing rows to a stream: the tasks, and the driver's commit.

Spark may run a task twice, concurrently or again, and a whole epoch again after a restart, with
the rows in other partitions. Within a run rows have ids that are the same each time, so that the
stream keeps one copy; a ledger (``ledger``, ``replay``) or markers (``markers``) extend the
guarantee across runs. ``abort`` never undoes anything: the same epoch is run again.
"""

import functools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark.spark.stream.sink.epoch_ledger import Totals
from jetspark.spark.stream.sink.markers import (
    COMMIT_PART,
    EpochWriter,
    MarkedLedger,
    MarkedWriter,
    check_size,
    missing_copies,
)
from jetspark.spark.stream.sink.message_ids import IdMaker, WriteTask, row_digests, strong_digest
from jetspark.spark.stream.sink.options import AtomicScope, IdSource
from jetspark.spark.stream.sink.plan import SinkPlan, WriteRefused
from jetspark.spark.stream.sink.replay import KnownIds, ReplayLedger
from jetspark.spark.stream.sink.row_counts import RowCounts, digest_sum, sum_of_sums
from jetspark.spark.stream.sink.rows import RowDecoder, SinkRows
from jetspark.spark.stream.sink.sending import Sender
from jetspark.spark.writers import Commits

_log = logging.getLogger(__name__)

# Arrow batches are combined into chunks of about this size: an acknowledged chunk costs two round
# trips, and is kept in memory until then.
CHUNK_ROWS: Final = 10_000
CHUNK_BYTES: Final = 8 * 1024 * 1024


@dataclass
class SinkCommit(WriterCommitMessage):
    """A task's report to the driver: how much it wrote, as part of what."""

    task: WriteTask
    rows: int
    last_seq: int
    """The highest sequence of its rows, as far as the task knows; 0: unknown."""
    held: SinkRows | None = None
    """SinkRows for the driver to store (``atomicScope`` epoch)."""
    run: str = ""
    """The run of the write that the task belongs to; Spark plans the commit as another one."""
    checksum: int = 0
    """For all rows of the task, written or not."""
    reported: bytes = b""
    """Packed ``RowCounts`` of rows of which earlier runs stored some, for the driver to settle."""
    subjects: dict[bytes, str] = field(default_factory=dict)
    """By digest, the subjects that rows are sent to, if the stream stores them under others."""


class Tally:
    """Counts the rows of a task."""

    def __init__(self, plan: SinkPlan) -> None:
        self.rows: int = 0
        self.last_seq: int = 0
        self.checksum: int = 0
        self._reported = bytearray()
        self._transformed = plan.transformed
        self._subjects: dict[bytes, str] = {}

    def add(self, digests: Sequence[bytes]) -> None:
        """Count rows."""
        self.rows += len(digests)
        self.checksum = digest_sum(digests, self.checksum)

    def new_places(
        self, rows: SinkRows, digests: Sequence[bytes], earlier: RowCounts
    ) -> list[int]:
        """Return the rows that no earlier run has stored; the others are reported."""
        places: list[int] = []
        for place, digest in enumerate(digests):
            if digest in earlier:
                self._reported += digest
                if self._transformed:
                    self._subjects[digest] = rows.messages.subjects[place]
            else:
                places.append(place)
        return places

    def message(self, task: WriteTask, run: str, held: SinkRows | None = None) -> SinkCommit:
        """Return the report to the driver."""
        reported = RowCounts.of(self._reported).packed() if self._reported else b""
        return SinkCommit(
            task, self.rows, self.last_seq, held, run, self.checksum, reported, self._subjects
        )


class StreamRowWriter:
    """Writes rows to a stream. Pickled to the tasks."""

    def __init__(self, plan: SinkPlan, schema: StructType) -> None:
        self._plan = plan
        self._schema = schema

    @property
    def target(self) -> str:
        """The target of the write, for messages."""
        return f"stream {self._plan.stream!r}"

    def write(self, batches: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Publish the rows of one task. Runs in a worker."""
        task = this_task(self._plan)
        chunks = gather(RowDecoder(self._schema, self._plan.options.subject), batches)
        if self._plan.marked:
            return self._write_marked(task, chunks)
        if self._plan.ledger_bucket:
            return self._write_ledgered(task, chunks)
        sender, tally = Sender(self._plan), Tally(self._plan)
        for rows in chunks:
            tally.rows += len(rows)
            ids = encoded(rows.msg_ids) if rows.msg_ids is not None else None
            last = sender.send(rows.finished(self._plan.stream, ids))
            tally.last_seq = max(tally.last_seq, last)
        return tally.message(task, self._plan.run)

    def _write_ledgered(self, task: WriteTask, chunks: Iterator[SinkRows]) -> SinkCommit:
        """Publish rows with message ids, in a run that is in the ledger."""
        plan, tally = self._plan, Tally(self._plan)
        ledger = ReplayLedger(plan, plan.run, task)
        epochs = ledger.epochs
        sender = Sender(plan, epochs.check)
        found = sender.with_retries(epochs.begin)
        if epochs.is_committed(found):
            # Spark's replay of a committed epoch; its rows are read and ignored.
            for rows in chunks:
                tally.add(row_digests(rows))
            return tally.message(task, plan.run)
        by_content = plan.id_source is IdSource.CONTENT
        earlier = None
        if by_content and epochs.is_replay(found):
            earlier = sender.with_retries(lambda js: ledger.earlier_rows(js, found))
        known = KnownIds(plan, found, task, attempt_number())
        if known.due(at_start=True, replay=epochs.is_replay(found)):
            sender.with_retries(known.read)
        maker = IdMaker(task.id_prefix)
        for rows in chunks:
            digests = row_digests(rows)
            tally.add(digests)
            if earlier is not None:
                new = tally.new_places(rows, digests, earlier)
                rows, digests = rows.picked(new), [digests[at] for at in new]  # noqa: PLW2901
            ids = maker.ids(digests) if by_content else encoded(rows.msg_ids or [])
            if known.due():
                sender.with_retries(known.read)
            if known:
                new = [at for at, one in enumerate(ids) if one not in known]
                rows, ids = rows.picked(new), [ids[at] for at in new]  # noqa: PLW2901
            if len(rows):
                last = sender.send(rows.finished(plan.stream, ids))
                tally.last_seq = max(tally.last_seq, last)
                if epochs.may_be_late:
                    sender.with_retries(
                        functools.partial(epochs.check_late, rows=len(ids), last_seq=last)
                    )
        return tally.message(task, plan.run)

    def _write_marked(self, task: WriteTask, chunks: Iterator[SinkRows]) -> SinkCommit:
        """Store rows in atomic batches, or leave that to the driver for a whole epoch."""
        plan, tally = self._plan, Tally(self._plan)
        scope = plan.options.atomic_scope
        rows = SinkRows.joined(list(chunks))
        digests = row_digests(rows, strong_digest)
        tally.add(digests)
        if scope is not AtomicScope.CHUNK:
            check_size(rows, "a partition")
        if scope is AtomicScope.EPOCH:
            return tally.message(task, plan.run, rows)
        sender = Sender(plan)
        sender.check_subjects(rows.messages.subjects)
        ledger = MarkedLedger(plan, plan.run, task)
        found = sender.with_retries(ledger.epochs.begin)
        if ledger.epochs.is_committed(found):
            return tally.message(task, plan.run)
        if ledger.epochs.is_replay(found):
            earlier = sender.with_retries(lambda js: ledger.earlier_rows(js, found)).counts
            new = tally.new_places(rows, digests, earlier)
            rows, digests = rows.picked(new), [digests[at] for at in new]
        if len(rows):
            writer = MarkedWriter(plan, ledger, task, str(task.partition))
            tally.last_seq = writer.write(found, rows.finished(plan.stream, None), digests)
        return tally.message(task, plan.run)

    def commit(self, messages: Commits) -> None:
        """Every task has written; the driver does what is left for all of them."""
        plan = self._plan
        done = [message for message in messages if isinstance(message, SinkCommit)]
        _log.info("%d tasks wrote to stream %r", len(done), plan.stream)
        if done and plan.marked:
            self._commit_marked(done)
        elif done and plan.ledger_bucket:
            self._commit_ledgered(done)
        if plan.overwrite_below:
            Sender(plan).with_retries(
                lambda js: js.stream(plan.stream).purge(seq=plan.overwrite_below)
            )

    def _commit_ledgered(self, done: Sequence[SinkCommit]) -> None:
        plan, totals = self._plan, totals_of(done)
        ledger = ReplayLedger(plan, done[0].run, done[0].task)
        epochs = ledger.epochs
        sender = Sender(plan, epochs.check)
        found = sender.with_retries(epochs.begin)
        if epochs.is_committed(found):
            epochs.check_same_rows(found, totals)
            sender.with_retries(lambda js: ledger.check_still_stored(js, found))
            return
        if plan.id_source is IdSource.CONTENT and epochs.is_replay(found):
            missing = sender.with_retries(
                lambda js: ledger.missing(
                    js, found, reports_of(done), totals.rows, subjects_of(done)
                )
            )
            if missing.ids:
                sender.send(SinkRows(missing.messages).finished(plan.stream, missing.ids))
            sender.with_retries(lambda js: ledger.check_complete(js, found, missing, totals.rows))
        elif plan.id_source is IdSource.CONTENT:
            sender.with_retries(lambda js: ledger.check_taken(js, found, totals.rows))
        sender.with_retries(lambda js: epochs.commit(js, found, totals))

    def _commit_marked(self, done: Sequence[SinkCommit]) -> None:
        plan, totals = self._plan, totals_of(done)
        ledger = MarkedLedger(plan, done[0].run, done[0].task)
        epochs = ledger.epochs
        if plan.options.atomic_scope is AtomicScope.EPOCH:
            held = [message.held for message in done if message.held is not None]
            rows = SinkRows.joined(held)
            check_size(rows, "an epoch")
            Sender(plan).check_subjects(rows.messages.subjects)
            digests = row_digests(rows, strong_digest)
            EpochWriter(plan, ledger).write(rows.finished(plan.stream, None), digests, totals)
            return
        sender = Sender(plan)
        found = sender.with_retries(epochs.begin)
        if epochs.is_committed(found):
            epochs.check_same_rows(found, totals)
            return
        if epochs.is_replay(found):
            stored = sender.with_retries(lambda js: ledger.earlier_rows(js, found))
            reported = RowCounts.merged(reports_of(done))
            surplus = epochs.report_surplus(stored.counts, reported, totals.rows)
            missing, digests = sender.with_retries(
                lambda js: missing_copies(js, plan, stored, reported, subjects_of(done))
            )
            if digests:
                writer = MarkedWriter(plan, ledger, done[0].task, COMMIT_PART)
                messages = SinkRows(missing).finished(plan.stream, None)
                writer.write(found, messages, digests)
            due = totals.rows + surplus
            sender.with_retries(lambda js: ledger.check_complete(js, found, due))
        sender.with_retries(lambda js: epochs.commit(js, found, totals))


def totals_of(done: Sequence[SinkCommit]) -> Totals:
    """Return the rows of all tasks together."""
    return Totals(
        sum(message.rows for message in done), sum_of_sums(message.checksum for message in done)
    )


def reports_of(done: Sequence[SinkCommit]) -> list[RowCounts]:
    """Return the rows that the tasks left to the driver."""
    return [RowCounts.unpacked(message.reported) for message in done if message.reported]


def subjects_of(done: Sequence[SinkCommit]) -> dict[bytes, str]:
    """Return the subjects that rows are sent to if they are stored under others."""
    sent: dict[bytes, str] = {}
    for message in done:
        sent |= message.subjects
    return sent


def this_task(plan: SinkPlan) -> WriteTask:
    """Return the identity of this task's write, from Spark.

    Epoch and query are available to a task as local properties only; a batch is named by the user.
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
            "Spark did not tell this task its query and epoch, which message ids are made of: "
            'set option("delivery", "at-least-once"), or give the rows a column "msg_id"'
        )
    return WriteTask(options.id_prefix or query, int(epoch), partition, query)


def attempt_number() -> int:
    """Return the number of earlier attempts at this task."""
    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0


def gather(decoder: RowDecoder, batches: Iterator[pa.RecordBatch]) -> Iterator[SinkRows]:
    """Yield the rows of small batches combined, in order; none are empty."""
    held: list[SinkRows] = []
    count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        # Spark's batches are bounded (10,000 rows by default), so one fits into a chunk.
        held.append(decoder.decode(batch))
        count += batch.num_rows
        size += batch.nbytes
        if count >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield SinkRows.joined(held)
            held, count, size = [], 0, 0
    if held:
        yield SinkRows.joined(held)


def encoded(ids: Sequence[str]) -> list[bytes]:
    """Return message ids of a column as bytes."""
    return [one.encode() for one in ids]
