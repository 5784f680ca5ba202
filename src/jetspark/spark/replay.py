"""What earlier runs of an epoch stored by message ids, and what a replay still has to store.

The rows may be in other partitions than before, so that ids alone do not tell what is missing. The
digests in the ids of stored rows do, by count: a row of which no copy is stored is written by its
task at once. Of all others the tasks only report how often they have them; the driver compares the
sums with what is stored and writes the copies that are missing (only equal rows can be).
"""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jetspark import sync
from jetspark.api.stream import StreamInfo
from jetspark.errors import Error, MessageNotFound
from jetspark.headers.block import find_value
from jetspark.spark.epoch_ledger import HOW_TO_GO_ON, EpochLedger
from jetspark.spark.ledger import BucketEntries, Found, LedgerEntry, entry_name
from jetspark.spark.message_ids import WriteTask, digest_in
from jetspark.spark.row_counts import DIGEST_SIZE, RowCounts
from jetspark.spark.sending import ids_between
from jetspark.spark.sink_options import IdSource
from jetspark.spark.sink_plan import SinkPlan
from jetspark.spark.sink_rows import Rows, own_headers

_log = logging.getLogger(__name__)

# Added to the time at which a wait should be over, so that it is not repeated for a rounding.
_MARGIN_S = 0.05


class ReplayRefused(Error):
    """A replay of which it cannot be told what earlier runs have stored."""


class StoredRows(NamedTuple):
    """Rows of one epoch within a range of the stream."""

    digests: bytearray
    newest_ns: int
    """When the last of them was stored; 0 if there are none."""
    messages: int
    """How many messages of any kind the range still has."""


class MissingRows(NamedTuple):
    """Rows that the driver has to store, with their ids."""

    rows: Rows
    ids: list[str]
    surplus: int
    """How many stored rows of earlier runs this run does not have."""


class ReplayLedger:
    """The ledger of a write by message ids, and the rows that it leads to."""

    def __init__(self, plan: SinkPlan, run: str, task: WriteTask) -> None:
        self._plan = plan
        self._run = run
        self._task = task
        self._prefix = task.epoch_prefix.encode()
        entries = BucketEntries(plan.ledger_bucket, entry_name(plan, task), self._first_entry)
        self.epochs = EpochLedger(plan, run, task, entries)

    def known_ids(self, jetstream: sync.JetStream, found: Found) -> set[bytes]:
        """Return ids that are stored, where the duplicate window may not know them any more.

        Of this task, which Spark may repeat long after the run began; of ids from a column also
        those of earlier runs.
        """
        by_column = self._plan.id_source is IdSource.COLUMN
        age = time.time_ns() - found.created_ns
        # Spark tells Python neither whether a stage is repeated nor whether a task has a twin.
        late = not 0 <= age <= self._plan.duplicate_window_ns // 2
        if not late and not (by_column and self.epochs.is_replay(found)):
            return set()
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        # Ids of a column are whatever the user made of them.
        prefix = "" if by_column else self._task.id_prefix
        return ids_between(stream, found.entry.last_seq + 1, last, prefix.encode())

    def earlier_rows(self, jetstream: sync.JetStream, found: Found) -> RowCounts:
        """Return what earlier runs stored, the same for every task of this run."""
        stream = jetstream.stream(self._plan.stream)
        first = found.entry.last_seq + 1
        while not found.entry.runs[-1].cut:
            # A task of an earlier run may have asked the ledger just before this run was
            # registered, and have a chunk on its way: nothing is read before that has arrived.
            info = stream.info()
            stored = self._read(stream, first, info.state.last_seq)
            ready = max(found.created_ns, stored.newest_ns)
            ready += int(self._plan.options.ack_timeout_s * 1e9)
            wait = ready - (int(info.ts) or time.time_ns())
            if wait > 0:
                time.sleep(wait / 1e9 + _MARGIN_S)
                found = self.epochs.begin(jetstream)
                continue
            found = self.epochs.decide_cut(jetstream, found, max(1, info.state.last_seq))
        return self._counted(stream, first, found.entry.runs[-1].cut)

    def missing(
        self, jetstream: sync.JetStream, found: Found, reports: Sequence[RowCounts], rows: int
    ) -> MissingRows:
        """Compare what the tasks of a replay report with what is stored."""
        stream = jetstream.stream(self._plan.stream)
        entry = found.entry
        cut = entry.runs[-1].cut
        reported = RowCounts.merged(reports)
        stored = self._counted(stream, entry.last_seq + 1, cut)
        wanted = {
            digest: count - stored[digest]
            for digest, count in reported.items()
            if count > stored[digest]
        }
        surplus = stored.total - sum(min(n, reported[digest]) for digest, n in stored.items())
        if surplus:
            _log.warning(
                "epoch %d of %r: earlier runs stored %d rows that this run of %d rows does not "
                "have. Either the source has lost rows meanwhile; or rows differ from run to run "
                "(rand(), current_timestamp()), then the stream has both versions of them",
                self._task.epoch,
                self._task.prefix,
                surplus,
                rows,
            )
        last = stream.info().state.last_seq
        prefix = f"{self._task.epoch_prefix}c{self._run}."
        # Stored by this commit before, when its answer was lost.
        done = ids_between(stream, cut + 1, last, prefix.encode()) if wanted else set()
        missing = MissingRows(Rows([], [], [], None, None), [], surplus)
        if wanted:
            self._copy(stream, range(entry.last_seq + 1, cut + 1), wanted, prefix, done, missing)
        return missing

    def check_complete(self, jetstream: sync.JetStream, found: Found, rows: int) -> None:
        """Raise when less is stored than ``rows``, which the next run would mend."""
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        first = found.entry.last_seq + 1
        read = self._read(stream, first, last)
        stored = len(read.digests) // DIGEST_SIZE
        if stored < rows and read.messages == last + 1 - first:
            raise ReplayRefused(
                f"epoch {self._task.epoch} of {self._task.prefix!r} has {rows} rows, of which "
                f"{stored} are stored after a replay: it is not committed. Start the query again, "
                "which stores the rest"
            )
        if stored > rows:
            _log.error(
                "epoch %d of %r has %d rows, and %d are stored: an earlier run went on writing "
                "after this one had begun",
                self._task.epoch,
                self._task.prefix,
                rows,
                stored,
            )

    def _first_entry(self, jetstream: sync.JetStream, info: StreamInfo) -> LedgerEntry:
        """Look for rows of this epoch that were written without a ledger (by 0.1.0)."""
        last, task = info.state.last_seq, self._task
        entry = LedgerEntry(task.epoch - 1, last, task.query, begun=task.epoch - 1)
        if self._plan.id_source is IdSource.COLUMN or not last:
            return entry
        stream = jetstream.stream(self._plan.stream)
        since = (int(info.ts) or time.time_ns()) - self._plan.duplicate_window_ns
        try:
            first = stream.get_msg(start_time=since, min_last_seq=last).seq
        except MessageNotFound:
            return entry
        if first > last or not self._read(stream, first, last).newest_ns:
            return entry
        return LedgerEntry(task.epoch - 1, first - 1, task.query)

    def _counted(self, stream: sync.Stream, first: int, cut: int) -> RowCounts:
        stored = self._read(stream, first, cut)
        gone = cut + 1 - first - stored.messages
        if gone > 0 and self._plan.options.fail_on_replay_gaps:
            raise ReplayRefused(
                f"epoch {self._task.epoch} of {self._task.prefix!r} was begun before, and {gone} "
                f"messages of stream {stream.name!r} between sequence {first} and {cut}, among "
                "which are its rows, have been removed since (expired, consumed, deleted, over a "
                "limit of the stream): it cannot be told any more which rows were stored. If they "
                'were not rows of this query set option("failOnReplayGaps", "false"); else '
                f"{HOW_TO_GO_ON}"
            )
        return RowCounts.of(stored.digests)

    def _read(self, stream: sync.Stream, first: int, last: int) -> StoredRows:
        digests, newest, messages = bytearray(), 0, 0
        for found_ids, times in self._scan(stream, first, last):
            messages += len(found_ids)
            for msg_id, time_ns in zip(found_ids, times, strict=True):
                if msg_id is None:
                    continue
                digest = digest_in(msg_id, self._prefix)
                if digest is None:
                    raise ReplayRefused(
                        f"epoch {self._task.epoch} of {self._task.prefix!r} was begun with ids "
                        f"such as {msg_id.decode()!r}, which do not say which row they are of "
                        f"(idSource position): {HOW_TO_GO_ON}"
                    )
                digests += digest
                newest = time_ns
        return StoredRows(digests, newest, messages)

    def _scan(
        self, stream: sync.Stream, first: int, last: int
    ) -> Iterator[tuple[list[bytes | None], list[int]]]:
        """Yield the ids of this epoch (None for any other message) with their times."""
        if first > last:
            return
        prefix = self._prefix
        for chunk in stream.scan(first, last, columns=("headers", "times")):
            yield [id_of(block, prefix) for block in chunk.headers], chunk.times

    def _copy(
        self,
        stream: sync.Stream,
        places: range,
        wanted: dict[bytes, int],
        prefix: str,
        done: set[bytes],
        missing: MissingRows,
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
                    one = f"{prefix}{digest.hex()}.{nth}"
                    if one.encode() not in done:
                        missing.ids.append(one)
                        missing.rows.subjects.append(chunk.subjects[at])
                        missing.rows.payloads.append(chunk.payloads[at])
                        missing.rows.headers.append(own_headers(block))
        if left:
            raise ReplayRefused(
                f"epoch {self._task.epoch} of {self._task.prefix!r}: {len(left)} rows of which "
                "another copy has to be stored were removed from the stream meanwhile: "
                f"{HOW_TO_GO_ON}"
            )


def id_of(block: bytes, prefix: bytes) -> bytes | None:
    """Return the message id in a header block if it begins so."""
    if not block or prefix not in block:
        return None
    msg_id = find_value(block, b"Nats-Msg-Id")
    return msg_id if msg_id is not None and msg_id.startswith(prefix) else None
