"""What earlier runs of an epoch stored by message ids, and what a replay still has to store.

The rows may be in other partitions than before, so that ids alone do not tell what is missing. The
digests in the ids of stored rows do, by count: a row of which no copy is stored is written by its
task at once. Of all others the tasks only report how often they have them; the driver compares the
sums with what is stored and writes the copies that are missing (only equal rows can be).
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jetspark import sync
from jetspark.api.base import Timestamp
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamInfo
from jetspark.errors import MessageNotFound
from jetspark.spark.stream.sink.epoch_ledger import HOW_TO_GO_ON, EpochLedger, ReplayRefused
from jetspark.spark.stream.sink.ledger import BucketEntries, Found, LedgerEntry, entry_name
from jetspark.spark.stream.sink.message_ids import (
    WriteTask,
    digest_in,
    epoch_in,
    has_place,
)
from jetspark.spark.stream.sink.options import IdSource
from jetspark.spark.stream.sink.plan import SinkPlan, WriteRefused
from jetspark.spark.stream.sink.row_counts import DIGEST_SIZE, RowCounts
from jetspark.spark.stream.sink.rows import own_headers
from jetspark.spark.stream.sink.sending import id_of, ids_between
from jetspark.units import format_duration

# Added to the time at which a wait should be over, so that it is not repeated for a rounding.
_MARGIN_S = 0.05
# How many messages after the last commit are looked at when an epoch begins.
_LOOK_ROWS = 1_000
# Where the ledger has nothing of a query that had epochs before, so many messages are searched.
_SEARCHED_ROWS = 1_000_000
_SEARCH_PAGE = 20_000


class StoredRows(NamedTuple):
    """Rows of one epoch within a range of the stream."""

    digests: bytearray
    newest_ns: int
    """When the last of them was stored; 0 if there are none."""
    messages: int
    """How many messages of any kind the range still has."""


class MissingRows(NamedTuple):
    """Rows that the driver has to store, with their ids."""

    messages: MessageColumns
    ids: list[bytes]
    surplus: int
    """How many stored rows of earlier runs this run does not have."""
    before: int
    """How many rows earlier runs have stored."""


class ReplayLedger:
    """The ledger of a write by message ids, and the rows that it leads to."""

    def __init__(self, plan: SinkPlan, run: str, task: WriteTask) -> None:
        self._plan = plan
        self._run = run
        self._task = task
        self._prefix = task.epoch_prefix.encode()
        entries = BucketEntries(plan.ledger_bucket, entry_name(plan, task))
        self.epochs: EpochLedger = EpochLedger(plan, run, task, entries, self)

    def earlier_rows(self, jetstream: sync.JetStream, found: Found) -> RowCounts:
        """Return what earlier runs stored, the same for every task of this run."""
        stream = jetstream.stream(self._plan.stream)
        first = found.entry.first
        while (cut := found.entry.runs[-1].cut) is None:
            # A task of an earlier run may have asked the ledger just before this run was
            # registered, and have a chunk on its way: nothing is read before that has arrived.
            info = stream.info()
            stored = self._read(stream, first, info.state.last_seq)
            ready = max(found.created_ns, stored.newest_ns)
            ready += int(self.epochs.settling_s * 1e9)
            wait = ready - (int(to_wire(info).ts) or time.time_ns())
            if wait > 0:
                time.sleep(wait / 1e9 + _MARGIN_S)
                found = self.epochs.begin(jetstream)
                continue
            found = self.epochs.decide_cut(jetstream, found, info.state.last_seq)
        return self._counted(stream, first, cut)

    def missing(
        self,
        jetstream: sync.JetStream,
        found: Found,
        reports: Sequence[RowCounts],
        rows: int,
        subjects: Mapping[bytes, str],
    ) -> MissingRows:
        """Compare what the tasks of a replay report with what is stored.

        ``subjects`` has, by digest, where rows are sent to that are stored under other subjects.
        """
        stream = jetstream.stream(self._plan.stream)
        entry = found.entry
        # An entry that was deleted while the tasks wrote has none: then they have written all.
        cut = entry.runs[-1].cut or 0
        reported = RowCounts.merged(reports)
        stored = self._counted(stream, entry.first, cut)
        wanted = {
            digest: count - stored[digest]
            for digest, count in reported.items()
            if count > stored[digest]
        }
        surplus = self.epochs.report_surplus(stored, reported, rows)
        last = stream.info().state.last_seq
        prefix = f"{self._task.epoch_prefix}c{self._run}."
        # Stored by this commit before, when its answer was lost.
        done = ids_between(stream, cut + 1, last, prefix.encode()) if wanted else set()
        missing = MissingRows(MessageColumns.empty(), [], surplus, stored.total)
        if wanted:
            self._copy(
                stream, range(entry.first, cut + 1), wanted, prefix, done, missing, subjects
            )
        return missing

    def check_complete(
        self, jetstream: sync.JetStream, found: Found, missing: MissingRows, rows: int
    ) -> None:
        """Raise when a replay left less in the stream than its ``rows``."""
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        # What lies up to the cut was counted; messages may have been removed there.
        first = max(found.entry.first, (found.entry.runs[-1].cut or 0) + 1)
        read = self._read(stream, first, last)
        stored = missing.before - missing.surplus + len(read.digests) // DIGEST_SIZE
        if stored >= rows or read.messages == last + 1 - first:
            self.epochs.check_stored(stored, rows, hint=self._window_hint())

    def check_taken(self, jetstream: sync.JetStream, found: Found, rows: int) -> None:
        """Raise when the stream took rows of a first run for duplicates of others that are gone.

        That is so when the ledger has forgotten the epoch, and the stream's window has not.
        """
        stream = jetstream.stream(self._plan.stream)
        state = stream.info().state
        if state.last_seq + 1 - found.entry.first >= rows:
            return
        # Seldom: the entry may also have been deleted, and made again, while the tasks wrote.
        read = self._read(stream, max(1, state.first_seq), state.last_seq)
        stored = len(read.digests) // DIGEST_SIZE
        if stored < rows:
            self.epochs.check_stored(stored, rows, hint=self._window_hint())

    def _window_hint(self) -> str:
        window = format_duration(self._plan.duplicate_window_ns)
        return (
            ". Rows that were removed from the stream (a purge, a deletion) are taken for "
            f"duplicates until its duplicate_window of {window} is over: wait so long before"
        )

    def check_still_stored(self, jetstream: sync.JetStream, found: Found) -> None:
        """Refuse a committed epoch whose rows went with a stream that was deleted or replaced.

        The entry outlives the stream: taken at its word, the rows would be dropped in silence.
        """
        plan, task, entry = self._plan, self._task, found.entry
        stream = jetstream.stream(plan.stream)
        info = stream.info()
        last = info.state.last_seq
        same = entry.created in {0, int(to_wire(info).created)} and entry.last_seq <= last
        if same or plan.options.keep_committed_epoch == task.epoch:
            return
        if plan.id_source is IdSource.CONTENT and entry.rows is not None:
            # A copy of the stream has another creation time, and the rows.
            read = self._read(stream, max(1, info.state.first_seq), last)
            if len(read.digests) // DIGEST_SIZE >= entry.rows:
                return
        place = self.epochs.entries.place
        raise WriteRefused(
            f"{self.epochs.named} is committed, but stream {plan.stream!r} was "
            "deleted and created again, or restored from an older state, since then, and does not "
            f"have its rows: nothing was stored. To store them, delete {place}, and run it again; "
            f'to go on without them set option("keepCommittedEpoch", "{task.epoch}")'
        )

    def first_entry(self, jetstream: sync.JetStream, info: StreamInfo) -> LedgerEntry:
        """Look for rows of this epoch that this ledger has not seen begin.

        Of 0.1.0, which had none; or the query had a bucket of another name, or its entry was
        deleted.
        """
        last, task = info.state.last_seq, self._task
        entry = LedgerEntry(task.epoch - 1, last, task.query, begun=task.epoch - 1)
        if self._plan.id_source is IdSource.COLUMN or not last:
            return entry
        stream = jetstream.stream(self._plan.stream)
        since = (int(to_wire(info).ts) or time.time_ns()) - self._plan.duplicate_window_ns
        try:
            first = stream.get_msg(start_time=Timestamp(since), min_last_seq=last).seq
        except MessageNotFound:
            first = last + 1
        if self._plan.options.streaming and task.epoch:
            first = self._search_back(stream, info, first)
        if first > last or not self._read(stream, first, last).newest_ns:
            return entry
        return LedgerEntry(task.epoch - 1, first - 1, task.query)

    def _search_back(self, stream: sync.Stream, info: StreamInfo, since: int) -> int:
        """Return where rows of this epoch may begin, at ``since`` or before.

        They lie after those of earlier epochs, so that the search ends at one of them, or after a
        million messages. Rows of a later epoch are those of another checkpoint with the same
        idPrefix, and so is all that lies before them.
        """
        task, state = self._task, info.state
        lowest = max(state.first_seq, state.last_seq - _SEARCHED_ROWS)
        query, last = f"{task.prefix}.".encode(), state.last_seq
        while last >= lowest:
            first = max(lowest, last - _SEARCH_PAGE + 1)
            later, earlier = 0, False
            for chunk in stream.scan(first, last, columns=("sequences", "headers")):
                for seq, block in zip(chunk.sequences, chunk.headers, strict=True):
                    msg_id = id_of(block, query)
                    epoch = None if msg_id is None else epoch_in(msg_id, query)
                    if epoch is None:
                        continue
                    if epoch > task.epoch:
                        later = seq
                    earlier = earlier or epoch < task.epoch
            if later:
                return later + 1
            if earlier:
                return min(first, since)
            last = first - 1
        return min(lowest, since)

    def is_outdated(self, jetstream: sync.JetStream, entry: LedgerEntry, info: StreamInfo) -> bool:
        """Look for rows of this epoch that the ledger has not seen begin.

        There are some when the bucket was restored from an older state. They lie right after the
        last commit, unless others write much to the stream: one request is enough. All messages
        since then are read only where epochs of a query are missing in the ledger.
        """
        first, last = entry.last_seq + 1, info.state.last_seq
        if self._plan.id_source is IdSource.COLUMN or first > last:
            return False
        stream = jetstream.stream(self._plan.stream)
        if not self._plan.options.streaming or entry.epoch == self._task.epoch - 1:
            last = min(last, first + _LOOK_ROWS - 1)
        return bool(self._read(stream, first, last).newest_ns)

    def _counted(self, stream: sync.Stream, first: int, cut: int) -> RowCounts:
        stored = self._read(stream, first, cut)
        self.epochs.check_gaps(first, cut, cut + 1 - first - stored.messages)
        return RowCounts.of(stored.digests)

    def _read(self, stream: sync.Stream, first: int, last: int) -> StoredRows:
        digests, newest, messages = bytearray(), 0, 0
        if first > last:
            return StoredRows(digests, newest, messages)
        for chunk in stream.scan(first, last, columns=("headers", "times")):
            messages += len(chunk)
            for block, time_ns in zip(chunk.headers, chunk.times, strict=True):
                msg_id = id_of(block, self._prefix)
                if msg_id is None:
                    continue
                digest = digest_in(msg_id, self._prefix)
                if digest is None and not has_place(msg_id, self._prefix):
                    continue  # of another write, whose name begins as this epoch's ids do
                if digest is None:
                    raise ReplayRefused(
                        f"{self.epochs.named} was begun with ids such as {msg_id.decode()!r}, "
                        "which do not say which row they are of (idSource position): "
                        f"{HOW_TO_GO_ON}"
                    )
                digests += digest
                newest = time_ns
        return StoredRows(digests, newest, messages)

    def _copy(
        self,
        stream: sync.Stream,
        places: range,
        wanted: dict[bytes, int],
        prefix: str,
        done: set[bytes],
        missing: MissingRows,
        subjects: Mapping[bytes, str],
    ) -> None:
        """Add the missing copies of rows, made of a stored one."""
        left = dict(wanted)
        for chunk in stream.scan(places.start, places.stop - 1):
            for at, block in enumerate(chunk.headers):
                msg_id = id_of(block, self._prefix)
                digest = digest_in(msg_id, self._prefix) if msg_id is not None else None
                if digest is None or digest not in left:
                    continue
                for nth in range(left.pop(digest)):
                    one = f"{prefix}{digest.hex()}.{nth}".encode()
                    if one not in done:
                        missing.ids.append(one)
                        subject = subjects.get(digest, chunk.subjects[at])
                        missing.messages.subjects.append(subject)
                        missing.messages.data.append(chunk.data[at])
                        missing.messages.headers.append(own_headers(block))
        if left:
            raise ReplayRefused(
                f"{self.epochs.named}: {len(left)} rows of which another copy has to be stored "
                "were removed from the stream meanwhile: "
                f"{HOW_TO_GO_ON}"
            )


class KnownIds:
    """Ids that are stored, where the duplicate window may not know them any more.

    Of this task, which Spark may repeat long after the run began; of ids from a column also those
    of earlier runs. Spark does not tell Python whether a stage is repeated, so that every task
    that begins late reads them. An attempt after the first reads them again while it goes on:
    what the first one stored would be forgotten by the stream before a slow one comes to it.
    """

    def __init__(self, plan: SinkPlan, found: Found, task: WriteTask, attempt: int) -> None:
        self._plan = plan
        self._by_column = plan.id_source is IdSource.COLUMN
        # Ids of a column are whatever the user made of them.
        self._prefix = b"" if self._by_column else task.id_prefix.encode()
        self._ids: set[bytes] = set()
        self._next = found.entry.first
        self._read_ns = found.created_ns
        self._repeated = attempt > 0

    def due(self, *, at_start: bool = False, replay: bool = False) -> bool:
        """Whether ids have to be read before more is sent."""
        age = time.time_ns() - self._read_ns
        late = not 0 <= age <= self._plan.duplicate_window_ns // 2
        if at_start:
            return late or (self._by_column and replay)
        return late and (self._repeated or bool(self._ids))

    def read(self, jetstream: sync.JetStream) -> None:
        """Read what was stored since the last time."""
        now = time.time_ns()
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        self._ids |= ids_between(stream, self._next, last, self._prefix)
        self._next, self._read_ns = max(self._next, last + 1), now

    def __bool__(self) -> bool:
        return bool(self._ids)

    def __contains__(self, msg_id: bytes) -> bool:
        return msg_id in self._ids
