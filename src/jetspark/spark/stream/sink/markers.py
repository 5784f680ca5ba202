"""Atomic batches with a marker: exactly once after any delay, with any partitioning.

The rows of a task are sent in atomic batches, each with a marker on
``<ledgerSubject>.<query>.<part>`` that holds the digests of its rows and expects the marker before
it: a batch that is sent twice is refused as a whole. The runs of an epoch are registered on
``<ledgerSubject>.<query>.run``, and every batch expects that message to be the last there: once a
later run is registered, the stream refuses whatever an earlier one still sends. So a replay finds
in the markers what is stored, settles it by count as ``replay`` does, and nothing can change
meanwhile.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from jetspark import sync
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.models.stream import StreamInfo
from jetspark.errors import Error, MessageNotFound, WrongLastSequence
from jetspark.headers.block import append_lines, find_value, remove_header
from jetspark.spark.stream.sink.epoch_ledger import (
    HOW_TO_CONTINUE,
    EpochLedger,
    ReplayRefused,
    Totals,
)
from jetspark.spark.stream.sink.ledger import Found, LedgerEntry, SubjectEntries
from jetspark.spark.stream.sink.message_ids import WriteTask, row_digests, strong_digest
from jetspark.spark.stream.sink.plan import SinkPlan
from jetspark.spark.stream.sink.row_counts import DIGEST_SIZE, RowCounts
from jetspark.spark.stream.sink.rows import RowRefused, SinkRows, own_headers
from jetspark.spark.stream.sink.sending import ATOMIC_ROWS_MAX, Sender

ROWS_PER_BATCH: Final = ATOMIC_ROWS_MAX - 1  # the marker is one of its messages
RUN_PART: Final = "run"
COMMIT_PART: Final = "commit"
_EXPECTED: Final = b"Nats-Expected-Last-Subject-Sequence:"


class Marker(msgspec.Struct, frozen=True):
    """What was stored with a batch; the digests of its rows follow after a line break."""

    epoch: int
    run: str = ""
    rows: int | None = None
    """None: a marker of 0.1.0, without digests."""
    prev: int = 0
    """The sequence of the previous marker on the same subject."""


class StoredMarker(NamedTuple):
    """A marker in the stream."""

    seq: int
    part: str
    marker: Marker
    digests: bytes


class MarkedRows(NamedTuple):
    """The digests of stored rows with their positions."""

    counts: RowCounts
    batches: Sequence[StoredMarker]

    def places_of(self, digests: Collection[bytes]) -> dict[bytes, int]:
        """Return the sequence of a stored copy of each of these rows."""
        places: dict[bytes, int] = {}
        for seq, _, _, stored in self.batches:
            # The rows of an atomic batch are consecutive, the marker comes last.
            first = seq - len(stored) // DIGEST_SIZE
            for at in range(0, len(stored), DIGEST_SIZE):
                digest = stored[at : at + DIGEST_SIZE]
                if digest in digests:
                    places.setdefault(digest, first + at // DIGEST_SIZE)
        return places


class MarkedLedger:
    """The runs of an epoch in the stream that they write to, and the markers of their rows."""

    def __init__(self, plan: SinkPlan, run: str, task: WriteTask) -> None:
        self._plan = plan
        self.run = run
        self._task = task
        self.subject: str = f"{plan.options.ledger_subject}.{task.prefix}"
        entries = SubjectEntries(plan.stream, f"{self.subject}.{RUN_PART}")
        self.epochs: EpochLedger = EpochLedger(plan, run, task, entries, self)

    def fence(self, revision: int) -> bytes:
        """Return header lines that refuse a message once a later run is registered."""
        return b"%s %d\r\nNats-Expected-Last-Subject-Sequence-Subject: %s.%s\r\n" % (
            _EXPECTED,
            revision,
            self.subject.encode(),
            RUN_PART.encode(),
        )

    def earlier_rows(self, jetstream: sync.JetStream, found: Found) -> MarkedRows:
        """Return what earlier runs of the epoch stored.

        All of it is below the message that registered this run, which fences them off.
        """
        first, last = found.entry.first, found.revision
        # A removed marker that was the last of its part leaves only a gap.
        gone = removed_between(jetstream.stream(self._plan.stream), first, last)
        self.epochs.check_gaps(first, last, gone)
        return self._stored(jetstream, first, last, "*")

    def check_complete(self, jetstream: sync.JetStream, found: Found, rows: int) -> None:
        """Raise if fewer than ``rows`` are stored; the next run repairs that."""
        stream, first = jetstream.stream(self._plan.stream), found.entry.first
        last = stream.info().state.last_seq
        if removed_between(stream, first, last):
            return  # accepted by failOnReplayGaps, or removed by a limit just now
        stored = self._stored(jetstream, first, last, "*")
        self.epochs.check_stored(stored.counts.total, rows)

    def own_rows(
        self, jetstream: sync.JetStream, found: Found, part: str
    ) -> tuple[RowCounts, int]:
        """Return what this run stored of a part, and the sequence of the part's last marker."""
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        try:
            message = stream.get_msg(last_by_subject=f"{self.subject}.{part}", min_last_seq=last)
        except MessageNotFound:
            return RowCounts.of(b""), 0
        if message.seq < found.revision:
            return RowCounts.of(b""), message.seq
        stored = self._stored(jetstream, found.revision, message.seq, part)
        return stored.counts, message.seq

    def _stored(self, jetstream: sync.JetStream, first: int, last: int, part: str) -> MarkedRows:
        markers = [
            one
            for one in self._markers(jetstream, first, last, part)
            if one.marker.epoch == self._task.epoch
        ]
        self._check_chains(markers, first)
        counts = RowCounts.of(b"".join(one.digests for one in markers))
        return MarkedRows(counts, markers)

    def _markers(
        self, jetstream: sync.JetStream, first: int, last: int, part: str
    ) -> Iterator[StoredMarker]:
        stream = jetstream.stream(self._plan.stream)
        if first > last:
            return
        chunks = stream.scan(
            first,
            last,
            filters=(f"{self.subject}.{part}",),
            columns=("sequences", "subjects", "data"),
        )
        for chunk in chunks:
            for seq, subject, payload in zip(
                chunk.sequences, chunk.subjects, chunk.data, strict=True
            ):
                found = subject.rpartition(".")[2]
                if found != RUN_PART:
                    yield self._decoded(stream, seq, found, payload)

    def _decoded(self, stream: sync.Stream, seq: int, part: str, payload: bytes) -> StoredMarker:
        head, _, digests = payload.partition(b"\n")
        marker = msgspec.json.decode(head, type=Marker)
        if marker.rows is None and marker.epoch == self._task.epoch:
            digests = batch_digests(stream, seq)
        return StoredMarker(seq, part, marker, digests)

    def _check_chains(self, markers: Sequence[StoredMarker], first: int) -> None:
        """Refuse to rely on markers if some were removed."""
        known = {one.seq for one in markers}
        for one in markers:
            if one.marker.prev >= first and one.marker.prev not in known:
                raise ReplayRefused(
                    f"{self.epochs.named} was started before, and the marker at sequence "
                    f"{one.marker.prev} on subject {self.subject}.{one.part}, which recorded what "
                    "was stored, was removed (max_msgs_per_subject, a purge): it is unknown "
                    f"which rows were stored. To continue, {HOW_TO_CONTINUE}"
                )

    def first_entry(self, jetstream: sync.JetStream, info: StreamInfo) -> LedgerEntry:
        """Look for markers of 0.1.0, which did not register runs."""
        task, last = self._task, info.state.last_seq
        stream = jetstream.stream(self._plan.stream)
        parts = stream.info(subjects_filter=f"{self.subject}.*").state.subjects or {}
        begins, newest = last, task.epoch - 1
        for subject in parts:
            for one in self._markers(jetstream, 1, last, subject.rpartition(".")[2]):
                newest = max(newest, one.marker.epoch)
                if one.marker.epoch == task.epoch:
                    begins = min(begins, one.seq - len(one.digests) // DIGEST_SIZE - 1)
        if newest > task.epoch:
            return LedgerEntry(newest, last, task.query, begun=newest)
        if begins < last:
            return LedgerEntry(task.epoch - 1, begins, task.query)
        return LedgerEntry(task.epoch - 1, last, task.query, begun=task.epoch - 1)

    def is_outdated(self, *_: object) -> bool:
        """Whether rows are stored that are not in the entry: both are in one stream, so never."""
        return False


class MarkedWriter:
    """Stores the rows of one part of an epoch."""

    def __init__(self, plan: SinkPlan, ledger: MarkedLedger, task: WriteTask, part: str) -> None:
        self._plan = plan
        self._ledger = ledger
        self._task = task
        self._sender = Sender(plan)
        self._part = part

    def write(self, found: Found, messages: MessageColumns, digests: Sequence[bytes]) -> int:
        """Store all rows; return a sequence at or above theirs."""
        left, seq = self._left(found, digests)
        retries = self._sender.retries(also=(WrongLastSequence,))
        while left:
            places = left[:ROWS_PER_BATCH]
            # Outside the try: this has its own retries.
            batch = self._fenced(found, messages.picked(places))
            try:
                seq = self._store(batch, [digests[place] for place in places], seq)
            except Error as error:
                # Stored but the answer was lost, or stored by another attempt at this task, or a
                # later run has taken over: the stream shows which.
                retries.pause(error)
                self._sender.with_retries(self._ledger.epochs.check_now)
                before = len(left)
                left, seq = self._left(found, digests)
                if len(left) != before:
                    retries.restart()
            else:
                left = left[ROWS_PER_BATCH:]
                retries.restart()
        return seq

    def _left(self, found: Found, digests: Sequence[bytes]) -> tuple[list[int], int]:
        """Return the indices of the rows that this run has not stored yet."""
        stored, seq = self._sender.with_retries(
            lambda js: self._ledger.own_rows(js, found, self._part)
        )
        left, unknown = not_stored(digests, stored)
        if unknown:
            raise ReplayRefused(
                f"epoch {self._task.epoch}: an earlier attempt at this task stored {unknown} rows "
                "that this one does not have: rows must be the same whenever Spark "
                "computes them (leave out rand(), current_timestamp() and the like)"
            )
        return left, seq

    def _fenced(self, found: Found, batch: MessageColumns) -> MessageColumns:
        """Return the batch with a fence that stops it once a later run has taken over."""
        blocks = fenced(batch.headers, self._ledger.fence(found.revision))
        if blocks is not None:
            return MessageColumns.to_publish(batch.subjects, batch.data, blocks)
        # Every row already expects a sequence, and a message can expect only one.
        self._sender.with_retries(self._ledger.epochs.check)
        return batch

    def _store(self, batch: MessageColumns, digests: Sequence[bytes], expected: int) -> int:
        marker = Marker(self._task.epoch, self._ledger.run, len(batch), expected)
        payload = msgspec.json.encode(marker) + b"\n" + b"".join(digests)
        return self._sender.send_together(
            followed_by(
                batch,
                f"{self._ledger.subject}.{self._part}",
                payload,
                expecting(self._plan.stream, expected),
            )
        )


class EpochWriter:
    """Stores all rows of an epoch, and its commit, as one atomic batch."""

    def __init__(self, plan: SinkPlan, ledger: MarkedLedger) -> None:
        self._plan = plan
        self._ledger = ledger
        self._sender = Sender(plan)

    def write(self, messages: MessageColumns, digests: Sequence[bytes], totals: Totals) -> None:
        """Commit the epoch; idempotent."""
        epochs = self._ledger.epochs
        retries = self._sender.retries(also=(WrongLastSequence,))
        while True:
            found = self._sender.with_retries(epochs.begin)
            if epochs.is_committed(found):
                epochs.check_same_rows(found, totals)
                return
            places = self._left(found, digests)
            entry = self._committed_entry(found, totals)
            try:
                self._store(found, messages.picked(places), entry)
            except Error as error:
                retries.pause(error)
            else:
                return

    def _left(self, found: Found, digests: Sequence[bytes]) -> Sequence[int]:
        """Return the indices of the rows that no earlier run stored.

        A run with this scope stores nothing unless it commits, but atomicScope may have been
        different when the epoch was started.
        """
        if not self._ledger.epochs.is_replay(found):
            return range(len(digests))
        stored = self._sender.with_retries(lambda js: self._ledger.earlier_rows(js, found))
        return not_stored(digests, stored.counts)[0]

    def _committed_entry(self, found: Found, totals: Totals) -> LedgerEntry:
        epochs = self._ledger.epochs
        return self._sender.with_retries(lambda js: epochs.committed_entry(js, found, totals))

    def _store(self, found: Found, batch: MessageColumns, entry: LedgerEntry) -> None:
        self._sender.send_together(
            followed_by(
                batch,
                f"{self._ledger.subject}.{RUN_PART}",
                msgspec.json.encode(entry),
                expecting(self._plan.stream, found.revision),
            )
        )


def followed_by(
    batch: MessageColumns, subject: str, payload: bytes, headers: bytes
) -> MessageColumns:
    """Return the messages of ``batch`` and one more after them."""
    return MessageColumns.to_publish(
        [*batch.subjects, subject], [*batch.data, payload], [*batch.headers, headers]
    )


def expecting(stream: str, last_seq: int) -> bytes:
    """Return the headers of a marker that expects another one to be the last on its subject."""
    lines = b"Nats-Expected-Stream: %s\r\n%s %d\r\n" % (stream.encode(), _EXPECTED, last_seq)
    return append_lines(b"", lines)


def not_stored(digests: Sequence[bytes], stored: RowCounts) -> tuple[list[int], int]:
    """Return the indices of rows that are not stored, and the number of unknown stored rows."""
    known = dict(stored.items())
    left: list[int] = []
    for place, digest in enumerate(digests):
        if known.get(digest, 0):
            known[digest] -= 1
        else:
            left.append(place)
    return left, sum(known.values())


def missing_copies(
    jetstream: sync.JetStream,
    plan: SinkPlan,
    stored: MarkedRows,
    reported: RowCounts,
    subjects: Mapping[bytes, str],
) -> tuple[MessageColumns, list[bytes]]:
    """Return the rows that a replay has more often than they are stored, with their digests.

    ``subjects`` maps digests to the subjects that rows are sent to, if stored under others.
    """
    stream = jetstream.stream(plan.stream)
    missing, digests = MessageColumns.empty(), list[bytes]()
    lacking = {
        digest: count - stored.counts[digest]
        for digest, count in reported.items()
        if count > stored.counts[digest]
    }
    places = stored.places_of(lacking)
    for digest, wanted in lacking.items():
        try:
            seq = places[digest]
            message = stream.get_msg(seq=seq, min_last_seq=seq)
        except (KeyError, MessageNotFound):
            raise ReplayRefused(
                "a row that must be stored once more was removed from the stream "
                f"meanwhile, or its marker was: {HOW_TO_CONTINUE}"
            ) from None
        digests += [digest] * wanted
        for _ in range(wanted):
            missing.append_to_publish(
                subjects.get(digest, message.subject),
                message.data,
                own_headers(message.header_block),
            )
    return missing, digests


def removed_between(stream: sync.Stream, first: int, last: int) -> int:
    """Return the number of removed messages in a range of sequences."""
    state = stream.info().state
    if state.first_seq <= first and state.messages == state.last_seq + 1 - state.first_seq:
        return 0
    if first > last:
        return 0
    left = sum(len(chunk) for chunk in stream.scan(first, last, columns=("sequences",)))
    return last + 1 - first - left


def fenced(headers: Sequence[bytes], fence: bytes) -> list[bytes] | None:
    """Return the headers with the fence in the first one without an expectation; None if none."""
    for at, block in enumerate(headers):
        if _EXPECTED not in block:
            return [*headers[:at], append_lines(block, fence), *headers[at + 1 :]]
    return None


def batch_digests(stream: sync.Stream, marker_seq: int) -> bytes:
    """Return the digests of the rows of an atomic batch whose last message is a marker."""
    first = max(1, marker_seq - ROWS_PER_BATCH)
    messages = MessageColumns.joined(list(stream.scan(first, marker_seq)))
    ids = [find_value(block, b"Nats-Batch-Id") for block in messages.headers]
    digests: list[bytes] = []
    for at in range(len(ids) - 1):
        if ids[at] is not None and ids[at] == ids[-1]:
            block, lines = split_headers(messages.headers[at])
            row = MessageColumns.to_publish([messages.subjects[at]], [messages.data[at]], [block])
            digests += row_digests(SinkRows(row, [lines]), strong_digest)
    return b"".join(digests)


def split_headers(block: bytes) -> tuple[bytes, bytes]:
    """Return the user's headers of a stored row, and the header lines from columns."""
    lines = b""
    for name in (b"Nats-Expected-Last-Subject-Sequence", b"Nats-TTL"):
        value = find_value(block, name)
        if value is not None:
            lines += b"%s: %s\r\n" % (name, value)
    return remove_header(own_headers(block), b"Nats-TTL"), lines


def check_size(rows: SinkRows, what: str) -> None:
    """Refuse rows that do not fit into one atomic batch."""
    if len(rows) > ROWS_PER_BATCH:
        raise RowRefused(
            f"{what} has {len(rows)} rows, but an atomic batch at most "
            f'{ROWS_PER_BATCH}: lower maxOffsetsPerTrigger, or set option("atomicScope", "chunk")'
        )
