"""Rows that earlier runs of an epoch stored by message ids, and what a replay still has to store.

The rows may be in other partitions than before, so ids alone do not show what is missing. The
digests in the ids of stored rows do, by count: a row without a stored copy is written by its task
at once. For all others the tasks only report how often they have them; the driver compares the
sums with what is stored and writes the missing copies (only equal rows can be missing).
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
from jetspark.spark.stream.sink.epoch_ledger import HOW_TO_CONTINUE, EpochLedger, ReplayRefused
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

# Added to the end of a wait, so that it is not repeated because of rounding.
_MARGIN_S = 0.05
# How many messages after the last commit are checked when an epoch starts.
_LOOK_ROWS = 1_000
# If the ledger has no entry of a query that had epochs before, this many messages are searched.
_SEARCHED_ROWS = 1_000_000
_SEARCH_PAGE = 20_000


class StoredRows(NamedTuple):
    """Rows of one epoch within a range of the stream."""

    digests: bytearray
    newest_ns: int
    """When the last of them was stored; 0 if there are none."""
    messages: int
    """The number of messages of any kind in the range."""


class MissingRows(NamedTuple):
    """Rows that the driver has to store, with their ids."""

    messages: MessageColumns
    ids: list[bytes]
    surplus: int
    """The number of stored rows of earlier runs that this run does not have."""
    before: int
    """The number of rows that earlier runs have stored."""

    def add(self, msg_id: bytes, subject: str, data: bytes, headers: bytes) -> None:
        """Add a row."""
        self.ids.append(msg_id)
        self.messages.append_to_publish(subject, data, headers)


class ReplayLedger:
    """The ledger of a write by message ids, and its rows."""

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
            # A task of an earlier run may have checked the ledger just before this run was
            # registered, and have a chunk in flight: nothing is read before that has arrived.
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
        """Compare the reports of a replay's tasks with what is stored.

        ``subjects`` maps digests to the subjects that rows are sent to, if stored under others.
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
        # Stored by an earlier attempt at this commit, whose answer was lost.
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
        """Raise if a replay left fewer than its ``rows`` in the stream."""
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        # Rows up to the cut were counted; messages may have been removed there.
        first = max(found.entry.first, (found.entry.runs[-1].cut or 0) + 1)
        read = self._read(stream, first, last)
        stored = missing.before - missing.surplus + len(read.digests) // DIGEST_SIZE
        if stored >= rows or read.messages == last + 1 - first:
            self.epochs.check_stored(stored, rows, hint=self._window_hint())

    def check_taken(self, jetstream: sync.JetStream, found: Found, rows: int) -> None:
        """Raise if the stream dropped rows of a first run as duplicates of deleted ones.

        That happens if the ledger has forgotten the epoch, but the duplicate window has not.
        """
        stream = jetstream.stream(self._plan.stream)
        state = stream.info().state
        if state.last_seq + 1 - found.entry.first >= rows:
            return
        # Rare: the entry may also have been deleted, and created again, while the tasks wrote.
        read = self._read(stream, max(1, state.first_seq), state.last_seq)
        stored = len(read.digests) // DIGEST_SIZE
        if stored < rows:
            self.epochs.check_stored(stored, rows, hint=self._window_hint())

    def _window_hint(self) -> str:
        window = format_duration(self._plan.duplicate_window_ns)
        return (
            ". Rows that were removed from the stream (a purge, a deletion) count as "
            f"duplicates until its duplicate_window of {window} is over: wait that long before"
        )

    def check_still_stored(self, jetstream: sync.JetStream, found: Found) -> None:
        """Refuse a committed epoch whose stream was deleted or replaced, with its rows.

        The entry outlives the stream: relying on it would silently drop the rows.
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
            f"{self.epochs.named} is committed, but stream {plan.stream!r} has since been "
            "deleted and created again, or restored from an older state, and does not "
            f"have its rows: nothing was stored. To store them, delete {place}, and run it again; "
            f'to continue without them set option("keepCommittedEpoch", "{task.epoch}")'
        )

    def first_entry(self, jetstream: sync.JetStream, info: StreamInfo) -> LedgerEntry:
        """Look for rows of this epoch whose start is not in this ledger.

        From 0.1.0, which had none; or the query had a bucket of another name, or its entry was
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
        """Return where rows of this epoch may start, at ``since`` or before.

        They come after those of earlier epochs, so the search ends at one of these, or after a
        million messages. Rows of a later epoch belong to another checkpoint with the same
        idPrefix, as does everything before them.
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
        """Look for rows of this epoch whose start is not in the ledger.

        There are some if the bucket was restored from an older state. They come directly after the
        last commit, unless others write much to the stream: one request is enough. All messages
        since then are read only if epochs of a query are missing in the ledger.
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
                    continue  # of another write, whose name starts like this epoch's ids
                if digest is None:
                    raise ReplayRefused(
                        f"{self.epochs.named} was started with ids such as {msg_id.decode()!r}, "
                        "which do not identify their row (idSource position): "
                        f"{HOW_TO_CONTINUE}"
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
        """Add the missing copies of rows, made from a stored one."""
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
                        missing.add(
                            one,
                            subjects.get(digest, chunk.subjects[at]),
                            chunk.data[at],
                            own_headers(block),
                        )
        if left:
            raise ReplayRefused(
                f"{self.epochs.named}: {len(left)} rows that must be stored once more "
                "were removed from the stream meanwhile: "
                f"{HOW_TO_CONTINUE}"
            )


class KnownIds:
    """Ids that are stored, although the duplicate window may have forgotten them.

    Of this task, which Spark may repeat long after the run started; for ids from a column also
    those of earlier runs. Python cannot know whether Spark repeats a stage, so every task
    that starts late reads them. An attempt after the first reads them again while it runs: the
    stream would forget what the first one stored before a slow one gets to it.
    """

    def __init__(self, plan: SinkPlan, found: Found, task: WriteTask, attempt: int) -> None:
        self._plan = plan
        self._by_column = plan.id_source is IdSource.COLUMN
        # Ids from a column are arbitrary.
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
        """Read the ids stored since the last time."""
        now = time.time_ns()
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        self._ids |= ids_between(stream, self._next, last, self._prefix)
        self._next, self._read_ns = max(self._next, last + 1), now

    def __bool__(self) -> bool:
        return bool(self._ids)

    def __contains__(self, msg_id: bytes) -> bool:
        return msg_id in self._ids
