"""The ledger of committed epochs: exactly once beyond the duplicate window (spark.md 6.4, B).

A bucket has one key per query, or batch job: the last committed epoch and where the stream ended
then. Everything of the next epoch lies behind that place, so a replay that comes too late for the
duplicate window reads it back and skips the ids it finds. It is also where another job learns how
far a query has committed (``endingOffsets`` = ``committed:<queryId>``).
"""

import time
from typing import NamedTuple

import msgspec

from jetspark import sync
from jetspark.errors import KeyExists, KeyNotFound, WrongLastSequence
from jetspark.spark.message_ids import WriteTask
from jetspark.spark.sending import ids_between
from jetspark.spark.sink_options import IdSource
from jetspark.spark.sink_plan import SinkPlan, WriteRefused


class LedgerEntry(msgspec.Struct, frozen=True):
    """What the ledger says of a query."""

    epoch: int
    """The last epoch that is committed; one below the first, before that."""
    last_seq: int
    """Nothing of a later epoch lies at or below this sequence."""
    query: str = ""
    """The checkpoint that counts these epochs; empty for a batch job, which counts itself."""


class Found(NamedTuple):
    """An entry as it was read."""

    entry: LedgerEntry
    revision: int
    created_ns: int


def read_entry(jetstream: sync.JetStream, bucket: str, name: str) -> Found | None:
    """Return what the ledger says of ``name``, as its leader knows it; None if nothing."""
    ledger = jetstream.key_value(bucket)
    # A follower may lag: the read must have seen all that the leader has (ADR-53).
    latest = ledger.status().stream_info.state.last_seq
    try:
        entry = ledger.get(name, min_last_revision=latest)
    except KeyNotFound:
        return None
    return Found(
        msgspec.json.decode(entry.value, type=LedgerEntry), entry.revision, entry.created_ns
    )


def begin_epoch(jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask) -> Found:
    """Return the entry of this write, made before its first row is published."""
    bucket = plan.options.ledger_bucket
    while True:
        found = read_entry(jetstream, bucket, task.prefix)
        if found is not None:
            _check_query(plan, task, found.entry)
            return found
        last = jetstream.stream(plan.stream).info().state.last_seq
        entry = LedgerEntry(task.epoch - 1, last, task.query)
        try:
            jetstream.key_value(bucket).create(task.prefix, msgspec.json.encode(entry))
        except KeyExists:
            continue  # another task of the same epoch was faster; its entry counts


def _check_query(plan: SinkPlan, task: WriteTask, entry: LedgerEntry) -> None:
    """Refuse to go by the epochs of another checkpoint: those of a new one begin at 0 again."""
    if entry.query != task.query and (entry.query or plan.options.id_prefix):
        raise WriteRefused(
            f"the ledger {plan.options.ledger_bucket!r} has epochs up to {entry.epoch} of "
            f"{task.prefix!r} from another checkpoint (query {entry.query or 'unknown'}), and "
            "would take the epochs of this one for committed: go on with that checkpoint, choose "
            f"another idPrefix, or delete the key {task.prefix!r} of the ledger"
        )


def stored_before(
    jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask, found: Found
) -> set[bytes]:
    """Return the ids of this task that an earlier run stored too long ago to be refused."""
    age = time.time_ns() - found.created_ns
    if 0 <= age <= plan.duplicate_window_ns // 2:
        return set()
    stream = jetstream.stream(plan.stream)
    last = stream.info().state.last_seq
    # Ids of a column are whatever the user made of them.
    prefix = "" if plan.id_source is IdSource.COLUMN else task.id_prefix
    return ids_between(stream, found.entry.last_seq + 1, last, prefix.encode())


def commit_epoch(jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask) -> None:
    """Note that an epoch is committed; doing it again is no error."""
    found = begin_epoch(jetstream, plan, task)
    if found.entry.epoch >= task.epoch:
        return
    last = jetstream.stream(plan.stream).info().state.last_seq
    entry = LedgerEntry(task.epoch, last, task.query)
    ledger = jetstream.key_value(plan.options.ledger_bucket)
    try:
        ledger.update(task.prefix, msgspec.json.encode(entry), found.revision)
    except WrongLastSequence:
        again = read_entry(jetstream, plan.options.ledger_bucket, task.prefix)
        if again is not None and again.entry == entry:
            return  # this very update, sent twice
        raise WriteRefused(
            f"epoch {task.epoch} of {task.prefix!r} was not committed: the ledger "
            f"{plan.options.ledger_bucket!r} was changed by another run of the same query, which "
            "must not run twice at once"
        ) from None
