"""The storage of the ledger of exactly-once writes: one entry per query, or batch job.

In a key-value bucket, or, for atomic writes, on a subject of the stream itself. From the bucket
another job also reads how far a query has committed (``endingOffsets`` = ``committed:<queryId>``).
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from jetspark import sync
from jetspark.client.jetstream.kv.config import stream_name
from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.publishing.publisher import Expect
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.errors import (
    BucketNotFound,
    Error,
    KeyExists,
    MessageNotFound,
    StreamNotFound,
    WrongLastSequence,
)
from jetspark.spark.stream.sink.message_ids import WriteTask
from jetspark.spark.stream.sink.plan import SinkPlan
from jetspark.subjects.tokens import key_problem


class EntryChanged(Error):
    """Another run changed the entry between reading and writing it."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of an epoch."""

    token: str
    cut: int | None = None
    """Rows of this epoch up to this sequence were stored by earlier runs; None: not decided yet.

    0 is the end of an empty stream: a driver may die before it has stored anything.
    """


class LedgerEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ledger's entry of a query."""

    epoch: int
    """The last committed epoch; before any, one below the first."""
    last_seq: int
    """No row of a later epoch is at or below this sequence."""
    query: str = ""
    """The checkpoint that counts these epochs; empty for a batch job."""
    begun: int | None = None
    """The epoch of the runs; None: written by 0.1.0, which did not register runs."""
    runs: tuple[Run, ...] = ()
    """In order, the last one is active; empty if the epoch is committed."""
    stream: str = ""
    """The stream that the epochs were written to; empty: unknown."""
    created: int = 0
    """When the stream of ``last_seq`` was created (ns since 1970); 0: unknown."""
    rows: int | None = None
    """The number of rows of the committed epoch, and their checksum; None: unknown."""
    checksum: str = ""
    since: int = 0
    """The end of the stream when the epoch in progress started; 0: unknown."""

    @property
    def first(self) -> int:
        """The lowest sequence at which a row of the epoch in progress may be."""
        return max(self.last_seq, self.since) + 1


class Found(NamedTuple):
    """An entry as read."""

    entry: LedgerEntry
    revision: int
    created_ns: int


class Entries(Protocol):
    """The storage of one query's entry."""

    def read(self, jetstream: sync.JetStream) -> Found | None:
        """Return the entry from the leader; None if there is none."""

    def write(self, jetstream: sync.JetStream, entry: LedgerEntry, revision: int) -> None:
        """Replace the entry of this revision (0: none); raises ``EntryChanged``."""

    @property
    def place(self) -> str:
        """Its location, for messages."""

    @property
    def removal(self) -> str:
        """How to remove it, for messages."""


def ledger_key(name: str) -> str:
    """Return the key for a query or job: its name, in hexadecimal if it cannot be a key."""
    return name if key_problem(name) is None else f"hex={name.encode().hex()}"


def key_place(bucket: str, key: str) -> str:
    """Name an entry in a bucket, for messages."""
    return f"key {key!r} of the ledger bucket {bucket!r}"


def subject_place(subject: str) -> str:
    """Name an entry in the stream, for messages."""
    return f"the last message on subject {subject!r}"


def entry_name(plan: SinkPlan, task: WriteTask) -> str:
    """Return the name of a write in its ledger.

    A job may write to several streams under one name. A bucket named by the user has one entry per
    name, which ``committed:<queryId>`` looks up.
    """
    return task.prefix if plan.options.ledger_bucket else f"{task.prefix}.{plan.stream}"


def read_entry(jetstream: sync.JetStream, bucket: str, name: str) -> Found | None:
    """Return the entry of ``name`` from the leader; None if there is none."""
    message = last_put(jetstream, bucket, ledger_key(name))
    return _found(message) if message is not None else None


def last_put(jetstream: sync.JetStream, bucket: str, key: str) -> StreamMessage | None:
    """Return the value of a key from the leader; None if it has none."""
    # Tasks ask often. A handle to the bucket would cost one more request than its stream.
    try:
        stream = jetstream.stream(stream_name(bucket))
    except StreamNotFound:
        raise BucketNotFound(bucket) from None
    message = _last_on(stream, f"$KV.{bucket}.{key}")
    if message is None or read_operation(message.header_block)[0] is not Operation.PUT:
        return None
    return message


def replace_value(
    jetstream: sync.JetStream, bucket: str, key: str, value: bytes, revision: int
) -> None:
    """Replace the value of this revision (0: none); raises ``EntryChanged``."""
    ledger = jetstream.key_value(bucket)
    try:
        if revision:
            ledger.update(key, value, revision)
        else:
            ledger.create(key, value)
    except (KeyExists, WrongLastSequence):
        raise EntryChanged(f"{key_place(bucket, key)} was changed by another run") from None


def all_entries(jetstream: sync.JetStream, bucket: str) -> Iterator[tuple[str, LedgerEntry]]:
    """Yield the entries of all queries and jobs, with their keys."""
    for entry in jetstream.key_value(bucket).snapshot():
        # A bucket may also have the user's own keys.
        with contextlib.suppress(msgspec.DecodeError):
            yield entry.key, msgspec.json.decode(entry.value, type=LedgerEntry)


def _last_on(stream: sync.Stream, subject: str) -> StreamMessage | None:
    """Return the last message of a subject, from a handle created for this call."""
    # A follower may lag: the read must have reached everything that the leader has (ADR-53).
    last = stream.cached_info.state.last_seq
    try:
        return stream.get_msg(last_by_subject=subject, min_last_seq=last)
    except MessageNotFound:
        return None


def _found(message: StreamMessage) -> Found:
    entry = msgspec.json.decode(message.data, type=LedgerEntry)
    return Found(entry, message.seq, message.time_ns)


class BucketEntries:
    """The entry of a query in a key-value bucket."""

    def __init__(self, bucket: str, name: str) -> None:
        self._bucket = bucket
        self._name = name

    @property
    def place(self) -> str:
        """Its location, for messages."""
        return key_place(self._bucket, ledger_key(self._name))

    @property
    def removal(self) -> str:
        """How to remove it, for messages."""
        return f"delete {self.place}"

    def read(self, jetstream: sync.JetStream) -> Found | None:
        """Return the entry from the leader; None if there is none."""
        return read_entry(jetstream, self._bucket, self._name)

    def write(self, jetstream: sync.JetStream, entry: LedgerEntry, revision: int) -> None:
        """Replace the entry of this revision (0: none); raises ``EntryChanged``."""
        key = ledger_key(self._name)
        replace_value(jetstream, self._bucket, key, msgspec.json.encode(entry), revision)


class SubjectEntries:
    """The entry of a query on a subject of the stream that it writes to."""

    def __init__(self, stream: str, subject: str) -> None:
        self._stream = stream
        self._subject = subject

    @property
    def place(self) -> str:
        """Its location, for messages."""
        return subject_place(self._subject)

    @property
    def removal(self) -> str:
        """How to remove it, for messages.

        If only the last message was deleted, the one before it would count, and the markers.
        """
        every = f"{self._subject.rpartition('.')[0]}.*"
        return f"purge the subject {every!r} of stream {self._stream!r}"

    def read(self, jetstream: sync.JetStream) -> Found | None:
        """Return the entry from the leader; None if there is none."""
        message = _last_on(jetstream.stream(self._stream), self._subject)
        return _found(message) if message is not None else None

    def write(self, jetstream: sync.JetStream, entry: LedgerEntry, revision: int) -> None:
        """Replace the entry of this revision (0: none); raises ``EntryChanged``."""
        expect = Expect(stream=self._stream, last_subject_seq=revision)
        try:
            jetstream.publish(self._subject, msgspec.json.encode(entry), expect=expect)
        except WrongLastSequence:
            raise EntryChanged(f"{self.place} was changed by another run") from None
