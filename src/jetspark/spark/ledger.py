"""Where the ledger of exactly-once writes is kept: one entry for each query, or batch job.

In a key-value bucket, or, for atomic writes, on a subject of the stream itself. The bucket is also
where another job learns how far a query has committed (``endingOffsets`` =
``committed:<queryId>``).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from jetspark import sync
from jetspark.api.stream import StreamInfo
from jetspark.client.jetstream.publish import Expect
from jetspark.errors import Error, KeyExists, KeyNotFound, MessageNotFound, WrongLastSequence
from jetspark.spark.message_ids import WriteTask
from jetspark.spark.sink_plan import SinkPlan
from jetspark.subjects.tokens import key_problem


class EntryChanged(Error):
    """Somebody else changed the entry between reading and writing it."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of an epoch."""

    token: str
    cut: int = 0
    """Rows of this epoch up to this sequence were stored by earlier runs; 0: not decided yet."""


class LedgerEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the ledger says of a query."""

    epoch: int
    """The last epoch that is committed; one below the first, before that."""
    last_seq: int
    """Nothing of a later epoch lies at or below this sequence."""
    query: str = ""
    """The checkpoint that counts these epochs; empty for a batch job, which counts itself."""
    begun: int | None = None
    """The epoch that the runs belong to; None: written by 0.1.0, which did not register runs."""
    runs: tuple[Run, ...] = ()
    """In order, the last one is in charge; empty when the epoch is committed."""
    stream: str = ""
    """The stream that the epochs were written to; empty: unknown."""
    created: int = 0
    """When the stream was created (ns since 1970), which ``last_seq`` refers to; 0: unknown."""
    rows: int | None = None
    """How many rows the committed epoch had, and their checksum; None: unknown."""
    checksum: str = ""


class Found(NamedTuple):
    """An entry as it was read."""

    entry: LedgerEntry
    revision: int
    created_ns: int


class Entries(Protocol):
    """Where the entry of one query is kept."""

    def read(self, jetstream: sync.JetStream) -> Found | None:
        """Return the entry as its leader knows it; None if there is none."""

    def write(self, jetstream: sync.JetStream, entry: LedgerEntry, revision: int) -> None:
        """Replace the entry of this revision (0: none); raises ``EntryChanged``."""

    def first_entry(self, jetstream: sync.JetStream, info: StreamInfo) -> LedgerEntry:
        """Return what the entry would say, had it been kept from the beginning."""

    @property
    def place(self) -> str:
        """Where it is, for messages to people."""


def ledger_key(name: str) -> str:
    """Return the key for a query or job: its name, in hexadecimal if it cannot be a key."""
    return name if key_problem(name) is None else f"hex={name.encode().hex()}"


def entry_name(plan: SinkPlan, task: WriteTask) -> str:
    """Return the name of a write in its ledger.

    A job may write to several streams under one name. A bucket that the user named has one entry
    for each name, which ``committed:<queryId>`` looks for.
    """
    return task.prefix if plan.options.ledger_bucket else f"{task.prefix}.{plan.stream}"


def read_entry(jetstream: sync.JetStream, bucket: str, name: str) -> Found | None:
    """Return what the ledger says of ``name``, as its leader knows it; None if nothing."""
    ledger = jetstream.key_value(bucket)
    # A follower may lag: the read must have seen all that the leader has (ADR-53).
    latest = ledger.status().stream_info.state.last_seq
    try:
        entry = ledger.get(ledger_key(name), min_last_revision=latest)
    except KeyNotFound:
        return None
    return Found(
        msgspec.json.decode(entry.value, type=LedgerEntry), entry.revision, entry.created_ns
    )


class BucketEntries:
    """The entry of a query in a key-value bucket."""

    def __init__(self, bucket: str, name: str, first_entry: Callable[..., LedgerEntry]) -> None:
        self._bucket = bucket
        self._name = name
        self._first_entry = first_entry

    @property
    def place(self) -> str:
        """Where it is, for messages to people."""
        return f"key {ledger_key(self._name)!r} of the ledger bucket {self._bucket!r}"

    def read(self, jetstream: sync.JetStream) -> Found | None:
        """Return the entry as its leader knows it; None if there is none."""
        return read_entry(jetstream, self._bucket, self._name)

    def write(self, jetstream: sync.JetStream, entry: LedgerEntry, revision: int) -> None:
        """Replace the entry of this revision (0: none); raises ``EntryChanged``."""
        ledger, key = jetstream.key_value(self._bucket), ledger_key(self._name)
        try:
            if revision:
                ledger.update(key, msgspec.json.encode(entry), revision)
            else:
                ledger.create(key, msgspec.json.encode(entry))
        except (KeyExists, WrongLastSequence):
            raise EntryChanged(f"{self.place} was changed by another run") from None

    def first_entry(self, jetstream: sync.JetStream, info: StreamInfo) -> LedgerEntry:
        """Return what the entry would say, had it been kept from the beginning."""
        return self._first_entry(jetstream, info)


class SubjectEntries:
    """The entry of a query on a subject of the stream that it writes to."""

    def __init__(self, stream: str, subject: str, first_entry: Callable[..., LedgerEntry]) -> None:
        self._stream = stream
        self.subject = subject
        self._first_entry = first_entry

    @property
    def place(self) -> str:
        """Where it is, for messages to people."""
        return f"the last message on subject {self.subject!r}"

    def read(self, jetstream: sync.JetStream) -> Found | None:
        """Return the entry as its leader knows it; None if there is none."""
        stream = jetstream.stream(self._stream)
        last = stream.info().state.last_seq
        try:
            message = stream.get_msg(last_by_subject=self.subject, min_last_seq=last)
        except MessageNotFound:
            return None
        entry = msgspec.json.decode(message.data, type=LedgerEntry)
        return Found(entry, message.seq, message.time_ns)

    def write(self, jetstream: sync.JetStream, entry: LedgerEntry, revision: int) -> None:
        """Replace the entry of this revision (0: none); raises ``EntryChanged``."""
        expect = Expect(stream=self._stream, last_subject_seq=revision)
        try:
            jetstream.publish(self.subject, msgspec.json.encode(entry), expect=expect)
        except WrongLastSequence:
            raise EntryChanged(f"{self.place} was changed by another run") from None

    def first_entry(self, jetstream: sync.JetStream, info: StreamInfo) -> LedgerEntry:
        """Return what the entry would say, had it been kept from the beginning."""
        return self._first_entry(jetstream, info)
