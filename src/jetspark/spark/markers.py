"""Atomic batches with a marker: exactly once, whatever the delay (spark.md 6.4, C).

The rows of a task go in atomic batches, each with a marker on ``<ledgerSubject>.<query>.<part>``
that expects the marker before it. A replay finds its marker and goes on behind it; a batch sent
twice is refused as a whole. Rows are sorted, so that a replay makes the same batches of them.
"""

import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from jetspark import sync
from jetspark.errors import Error, MessageNotFound, WrongLastSequence
from jetspark.headers.block import append_lines
from jetspark.spark.message_ids import DIGEST_SIZE, WriteTask, row_digests, strong_digest
from jetspark.spark.range_reader import retry_delay
from jetspark.spark.sending import ATOMIC_ROWS_MAX, Sender
from jetspark.spark.sink_plan import SinkPlan
from jetspark.spark.sink_rows import RowRefused, Rows
from jetspark.sync.bulk import TRANSIENT

ROWS_PER_BATCH: Final = ATOMIC_ROWS_MAX - 1  # the marker is one of its messages


class ReplayRefused(Error):
    """A run that the marker contradicts: of an older epoch, or of other rows."""


class Marker(msgspec.Struct, frozen=True):
    """What was written last under a marker's subject."""

    epoch: int
    batch: int
    """Which batch of the task, from 0."""
    final: bool
    digest: str
    """Of all rows up to here; a replay with other rows is found out by it."""


class Batch(NamedTuple):
    """Rows that are stored together, and the marker that says so."""

    places: Sequence[int]
    marker: Marker


def split(rows: Rows, epoch: int) -> list[Batch]:
    """Return the rows in batches that do not depend on the order in which they came."""
    digests = row_digests(rows, strong_digest)
    order = sorted(range(len(digests)), key=digests.__getitem__)
    running = blake2b(digest_size=DIGEST_SIZE)
    batches: list[Batch] = []
    for at in range(0, len(order), ROWS_PER_BATCH):
        places = order[at : at + ROWS_PER_BATCH]
        for place in places:
            running.update(digests[place])
        final = at + ROWS_PER_BATCH >= len(order)
        marker = Marker(epoch, len(batches), final, running.hexdigest())
        batches.append(Batch(places, marker))
    return batches


def resume_at(batches: Sequence[Batch], epoch: int, found: Marker | None) -> int:
    """Return the first batch that is not stored yet, going by the marker there is."""
    if found is None or found.epoch < epoch:
        return 0
    if found.epoch > epoch:
        raise ReplayRefused(
            f"epoch {epoch} comes too late: epoch {found.epoch} is stored already. Another run of "
            "the same query is ahead of this one"
        )
    if found.batch >= len(batches) or batches[found.batch].marker != found:
        raise ReplayRefused(
            f"epoch {epoch} was stored with other rows than this run has: a replay must have the "
            "same rows in the same partitions. Keep the number of partitions (minPartitions, "
            "spark.sql.shuffle.partitions) and leave out what differs from run to run"
        )
    return found.batch + 1


class MarkedWriter:
    """Stores the rows of one part of an epoch."""

    def __init__(self, plan: SinkPlan, task: WriteTask, part: str) -> None:
        self._plan = plan
        self._task = task
        self._sender = Sender(plan)
        self._subject = f"{plan.options.ledger_subject}.{task.prefix}.{part}"

    def write(self, rows: Rows, headers: Sequence[bytes]) -> int:
        """Return when all rows are stored, with a sequence at or above theirs."""
        batches = split(rows, self._task.epoch)
        failures = 0
        while True:
            try:
                found, seq = self._sender.with_retries(self._read)
                at = resume_at(batches, self._task.epoch, found)
                for batch in batches[at:]:
                    seq = self._store(rows, headers, batch, seq)
            except (WrongLastSequence, *TRANSIENT) as error:
                # Perhaps it was stored and the answer lost: the marker tells.
                failures += 1
                if failures > self._plan.options.retries:
                    raise
                error.add_note(f"try {failures}")
                time.sleep(retry_delay(failures))
            else:
                return seq

    def _store(self, rows: Rows, headers: Sequence[bytes], batch: Batch, expected: int) -> int:
        lines = b"Nats-Expected-Stream: %s\r\nNats-Expected-Last-Subject-Sequence: %d\r\n" % (
            self._plan.stream.encode(),
            expected,
        )
        return self._sender.send_together(
            [*(rows.subjects[place] for place in batch.places), self._subject],
            [*(rows.payloads[place] for place in batch.places), msgspec.json.encode(batch.marker)],
            [*(headers[place] for place in batch.places), append_lines(b"", lines)],
        )

    def _read(self, jetstream: sync.JetStream) -> tuple[Marker | None, int]:
        """Return the marker and its sequence, as the leader knows them."""
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        try:
            message = stream.get_msg(last_by_subject=self._subject, min_last_seq=last)
        except MessageNotFound:
            return None, 0
        return msgspec.json.decode(message.data, type=Marker), message.seq


def check_size(rows: Rows, what: str) -> None:
    """Refuse rows that do not fit one atomic batch."""
    if len(rows.subjects) > ROWS_PER_BATCH:
        raise RowRefused(
            f"{what} has {len(rows.subjects)} rows, and one atomic batch at most "
            f'{ROWS_PER_BATCH}: lower maxOffsetsPerTrigger, or set option("atomicScope", "chunk")'
        )
