"""Whether an epoch was begun with another ledger than the one that a run uses.

A query may come back with another ``publishMode`` or ``ledgerSubject``. What was begun with the
ledger bucket is not known to the markers, and the other way round: all rows would be stored again.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from jetspark import sync
from jetspark.errors import BucketNotFound
from jetspark.spark.ledger import Found, SubjectEntries, ledger_key, read_entry
from jetspark.spark.message_ids import WriteTask
from jetspark.spark.sink_options import LEDGER_BUCKET
from jetspark.spark.sink_plan import SinkPlan, WriteRefused

# Subjects of markers are looked for up to this number of words in ``ledgerSubject``.
_WORDS_MAX: Final = 5


def check_begun_here(
    jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask, *, place: str
) -> None:
    """Raise ``WriteRefused`` when another ledger than ``place`` has the epoch, or a later one."""
    for other, found in _others(jetstream, plan, task):
        entry = found.entry
        newest = max(entry.epoch, entry.begun if entry.begun is not None else entry.epoch)
        if other == place or entry.query != task.query or newest < task.epoch:
            continue
        raise WriteRefused(
            f"epoch {task.epoch} of {task.prefix!r} was begun with another publishMode or "
            f"ledgerSubject: {other} has it, {place} has not, and its rows would be stored a "
            "second time. Run it once with the options that it was begun with, and change them "
            'after that; or, if rows may be stored twice, run it once with option("delivery", '
            '"at-least-once")'
        )


def _others(
    jetstream: sync.JetStream, plan: SinkPlan, task: WriteTask
) -> Iterator[tuple[str, Found]]:
    if not plan.ledger_bucket:
        name = f"{task.prefix}.{plan.stream}"
        try:
            found = read_entry(jetstream, LEDGER_BUCKET, name)
        except BucketNotFound:
            found = None
        if found is not None:
            yield f"key {ledger_key(name)!r} of the ledger bucket {LEDGER_BUCKET!r}", found
    stream = jetstream.stream(plan.stream)
    for words in range(1, _WORDS_MAX + 1):
        pattern = f"{'*.' * words}{task.prefix}.run"
        for subject in stream.info(subjects_filter=pattern).state.subjects or ():
            entries = SubjectEntries(plan.stream, subject)
            try:
                found = entries.read(jetstream)
            except msgspec.DecodeError:
                continue  # a message of the user's own
            if found is not None:
                yield entries.place, found
