"""Atomic batches in the group that fills: one run of records, all of it or nothing (ADR-50).

Every record of the run has the flag ``BATCH_MEMBER``, its first one ``BATCH_FIRST``, its last one
``BATCH_LAST``. A group is never cut inside a run, so a run lies in one synced write and in one
segment, and recovery drops a run of the last write that is not whole (``recovery.py``).

Not compiled: the work is per batch.
"""

from typing import TYPE_CHECKING

from xxhash import xxh3_64_digest

from jetspark.store.record import BATCH_FIRST, BATCH_LAST, BATCH_MEMBER

FLAGS_AT = 27  # where the flags of a record are

if TYPE_CHECKING:
    from jetspark.store.staging import Staging
    from jetspark.store.subject_table import SubjectEntry


class Batch:
    """A run that is being staged: what the log was before it."""

    def __init__(self, log: "Staging") -> None:
        self.size = len(log.writer)
        self.entries = len(log.entries)
        self.seq = int(log.staged_seq)
        self.time = int(log.staged_time)
        self.position = int(log.staged_position)
        self.messages = int(log.filling_messages)
        self.bytes = int(log.filling_bytes)
        self.doomed = log.doomed.copy()
        # Where the last record of the run begins so far.
        self.last_at = -1
        # Subjects and what their newest staged message was, in the order of their changes.
        self.changed: list[tuple[SubjectEntry, int]] = []


def begin(log: "Staging") -> None:
    """Stage what must stand before the run, and remember where it begins."""
    if log.batch is not None:
        raise ValueError("a batch is being staged already; end or abort it first")
    log.stage_prelude()
    log.batch = Batch(log)
    log.batch_flags = int(BATCH_MEMBER | BATCH_FIRST)


def end(log: "Staging") -> None:
    """Mark the last record of the run as the last one."""
    batch = _under_way(log)
    # A caller that knew the last record said so when it was staged.
    if batch.last_at >= 0 and not int(log.writer[batch.last_at + FLAGS_AT]) & BATCH_LAST:
        record = bytearray(log.writer.getvalue()[batch.last_at :])
        record[FLAGS_AT] |= BATCH_LAST
        checked = bytes(record[8:-8])
        log.writer.truncate(batch.last_at)
        log.writer.write(bytes(record[:8]) + checked + xxh3_64_digest(checked, log.codec.seed))
    log.batch = None
    log.batch_flags = 0


def abort(log: "Staging") -> None:
    """Forget what was staged since the run began: nobody saw any of it."""
    batch = _under_way(log)
    log.writer.truncate(batch.size)
    del log.entries[batch.entries :]
    for entry, before in reversed(batch.changed):
        entry.staged_last = before
    log.staged_seq = batch.seq
    log.staged_time = batch.time
    log.staged_position = batch.position
    log.filling_messages = batch.messages
    log.filling_bytes = batch.bytes
    log.doomed = batch.doomed
    log.batch = None
    log.batch_flags = 0


def _under_way(log: "Staging") -> Batch:
    if log.batch is None:
        raise ValueError("no batch is being staged; begin one first")
    return log.batch
