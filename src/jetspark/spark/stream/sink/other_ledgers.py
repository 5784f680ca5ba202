"""Detects an epoch that was started with another ledger than the current run uses.

A query may be restarted with another ``publishMode``, ``ledgerSubject``, ``ledgerBucket`` or
``idPrefix``. An epoch started with one ledger, or under one name, is unknown to another: all rows
would be stored again.
"""

import itertools
from collections.abc import Iterator
from typing import Final

import msgspec

from jetspark import sync
from jetspark.errors import BucketNotFound
from jetspark.spark.stream.sink.ledger import (
    LedgerEntry,
    all_entries,
    key_place,
    ledger_key,
    read_entry,
    subject_place,
)
from jetspark.spark.stream.sink.message_ids import WriteTask
from jetspark.spark.stream.sink.options import LEDGER_BUCKET
from jetspark.spark.stream.sink.plan import SinkPlan, WriteRefused

# Subjects of markers with up to this many tokens before the last are read by pattern, one request
# per number. Longer ones are listed: hardly any stream has such subjects.
_WORDS_MAX: Final = 16
_RUN: Final = ".run"


def check_begun_here(
    jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask, *, place: str
) -> None:
    """Raise ``WriteRefused`` if another ledger than ``place`` has the epoch, or a later one."""
    for other, entry in itertools.chain(
        _in_buckets(jetstream, plan, task), _in_stream(jetstream, plan, task)
    ):
        newest = max(entry.epoch, entry.begun if entry.begun is not None else entry.epoch)
        elsewhere = entry.stream not in {"", plan.stream}
        if other == place or elsewhere or entry.query != task.query or newest < task.epoch:
            continue
        what = "epoch" if plan.options.streaming else "txnVersion"
        raise WriteRefused(
            f"{what} {task.epoch} of {task.prefix!r} was started with another publishMode, "
            f"ledgerSubject, ledgerBucket or idPrefix: {other} has it, {place} does not, and its "
            "rows would be stored a second time. Run it once with the options that it was started "
            "with, and change them after that; or, if rows may be stored twice, run it once with "
            'option("delivery", "at-least-once")'
        )


def _in_buckets(
    jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask
) -> Iterator[tuple[str, LedgerEntry]]:
    """Yield entries in buckets: the bucket of this write, and the default one."""
    for bucket in dict.fromkeys((LEDGER_BUCKET, plan.ledger_bucket or LEDGER_BUCKET)):
        try:
            if task.query:
                # Under any name: the entry has the query.
                for key, entry in all_entries(jetstream, bucket):
                    yield key_place(bucket, key), entry
                continue
            for name in (f"{task.prefix}.{plan.stream}", task.prefix):
                found = read_entry(jetstream, bucket, name)
                if found is not None:
                    yield key_place(bucket, ledger_key(name)), found.entry
        except BucketNotFound:
            continue


def _in_stream(
    jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask
) -> Iterator[tuple[str, LedgerEntry]]:
    """Yield entries from the markers in the stream."""
    stream = jetstream.stream(plan.stream)
    name = "*" if task.query else task.prefix
    patterns = [f"{'*.' * words}{name}{_RUN}" for words in range(1, _WORDS_MAX)]
    patterns.append(f"{'*.' * (_WORDS_MAX + 1)}>")
    subjects = [
        subject
        for pattern in patterns
        for subject in stream.info(subjects_filter=pattern).state.subjects or ()
        if subject.endswith(_RUN if task.query else f".{name}{_RUN}")
    ]
    if not subjects:
        return
    last = stream.info().state.last_seq
    for message in stream.get_last_many(subjects, up_to_seq=last, min_last_seq=last):
        try:
            entry = msgspec.json.decode(message.data, type=LedgerEntry)
        except msgspec.DecodeError:
            continue  # the user's own message
        yield subject_place(message.subject), entry
