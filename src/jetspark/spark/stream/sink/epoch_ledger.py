"""The ledger of a query's epochs: exactly once after any delay, with any partitioning.

An entry has the last committed epoch, the end of the stream at that time, and the runs of the
epoch in progress. Spark runs an epoch again after a restart, perhaps with the rows in other
partitions. Each run is registered before it writes, so that

- a later run knows that rows may already be stored: they are after the end of the last commit,
  are read back once, and are settled by count (``replay``);
- an earlier run that is still alive somewhere notices and stops.
"""

import contextlib
import logging
import time
from typing import Final, NamedTuple, Protocol

import msgspec

from jetspark import sync
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamInfo
from jetspark.errors import Error
from jetspark.spark.stream.sink.ledger import Entries, EntryChanged, Found, LedgerEntry, Run
from jetspark.spark.stream.sink.message_ids import WriteTask
from jetspark.spark.stream.sink.other_ledgers import check_begun_here
from jetspark.spark.stream.sink.plan import SinkPlan, WriteRefused
from jetspark.spark.stream.sink.row_counts import RowCounts

_log = logging.getLogger(__name__)

# For a query that fails repeatedly in one epoch, the latest runs are enough to recognise any that
# may still be alive.
RUNS_MAX: Final = 1_000
# The name of an earlier run that is not in the ledger: it wrote before runs were registered
# (jetspark 0.1.0), or the ledger was restored from an older state.
UNREGISTERED: Final = "0.1.0"
# A task checks at most this often whether a later run has taken over.
CHECK_INTERVAL_S: Final = 0.5

HOW_TO_CONTINUE: Final = (
    'run this epoch once with option("delivery", "at-least-once"), without the options of '
    "exactly-once (ledgerBucket, ledgerSubject, txnAppId, txnVersion), to store all its rows "
    "again (some may then be stored twice), and with exactly-once afterwards; rows with their "
    "own column 'msg_id' (with_msg_id) do not depend on the ledger"
)


class Superseded(Error):
    """A later run of the same epoch has taken over: this one must not write any more."""


class ReplayRefused(Error):
    """A replay for which it is unknown what earlier runs have stored."""


class Totals(NamedTuple):
    """The rows of an epoch in one run."""

    rows: int
    checksum: int


class History(Protocol):
    """What the stream itself shows about epochs that are not in the ledger."""

    def first_entry(self, jetstream: sync.JetStream, info: StreamInfo, /) -> LedgerEntry:
        """Return what the entry would be, had it been kept from the beginning."""

    def is_outdated(
        self, jetstream: sync.JetStream, entry: LedgerEntry, info: StreamInfo, /
    ) -> bool:
        """Whether the stream has rows of an epoch whose start is not in the entry."""


class EpochLedger:
    """The entry of one query, as seen by one run of one epoch."""

    def __init__(
        self, plan: SinkPlan, run: str, task: WriteTask, entries: Entries, history: History
    ) -> None:
        self._plan = plan
        self._run = run
        self._task = task
        self.entries = entries
        self._history = history
        self._checked_at = time.monotonic()

    @property
    def named(self) -> str:
        """The write, for messages."""
        what = "epoch" if self._plan.options.streaming else "txnVersion"
        return f"{what} {self._task.epoch} of {self._task.prefix!r}"

    def is_committed(self, found: Found) -> bool:
        """Whether the epoch is already committed, so that its rows must not be written again."""
        return found.entry.epoch == self._task.epoch

    def is_replay(self, found: Found) -> bool:
        """Whether earlier runs may have stored rows of the epoch."""
        return found.entry.runs[0].token != self._run

    def begin(self, jetstream: sync.JetStream) -> Found:
        """Register this run, unless it already is; raises ``WriteRefused`` or ``Superseded``."""
        while True:
            found = self.entries.read(jetstream)
            if found is not None:
                self._check_entry(found.entry)
                if self.is_committed(found) or self._is_in_charge(found.entry):
                    return found
            info = jetstream.stream(self._plan.stream).info()
            entry = found.entry if found else self._history.first_entry(jetstream, info)
            self._check_entry(entry)
            if found is None or self._misses_epochs(entry):
                check_begun_here(jetstream, self._plan, self._task, place=self.entries.place)
            outdated = (
                found is not None
                and entry.begun is not None
                and entry.begun < self._task.epoch
                and self._refers_to(entry, info)
                and self._history.is_outdated(jetstream, entry, info)
            )
            entry = self._with_this_run(entry, info, outdated=outdated)
            try:
                self.entries.write(jetstream, entry, found.revision if found else 0)
            except EntryChanged:
                continue  # most likely another task of the same run was faster

    def check(self, jetstream: sync.JetStream) -> None:
        """Raise ``Superseded`` if a later run has taken over."""
        now = time.monotonic()
        if now < self._checked_at + CHECK_INTERVAL_S:
            return
        self.check_now(jetstream)
        self._checked_at = now

    @property
    def settling_s(self) -> float:
        """How long a superseded run may still send: until its next check or its timeout."""
        return CHECK_INTERVAL_S + self._plan.options.ack_timeout_s

    @property
    def may_be_late(self) -> bool:
        """Whether rows sent since the last check may have arrived after a later run started.

        A later run waits for ``settling_s``. A task that is stopped for longer between its check
        and its last message (SIGSTOP, a suspended machine) is not waited for, and the stream
        stores its rows: a publish cannot be conditional on a bucket.
        """
        return time.monotonic() > self._checked_at + self.settling_s

    def check_late(self, jetstream: sync.JetStream, rows: int, last_seq: int) -> None:
        """Raise ``Superseded``, with what was stored too late, if a later run has taken over."""
        try:
            self.check_now(jetstream)
        except Superseded as error:
            stopped = time.monotonic() - self._checked_at
            raise Superseded(
                f"{error}. It was stopped for {stopped:.1f} s while it was sending {rows} rows "
                f"(the last one at sequence {last_seq or 'unknown'} of stream "
                f"{self._plan.stream!r}), and the later run waits for {self.settling_s:.1f} s: "
                "these rows may be stored twice. A larger ackTimeoutMs makes later runs wait "
                "longer, and publishMode atomic with a ledgerSubject prevents this"
            ) from None
        self._checked_at = time.monotonic()

    def check_now(self, jetstream: sync.JetStream) -> None:
        """Raise ``Superseded`` if a later run has taken over, according to the ledger now."""
        found = self.entries.read(jetstream)
        # An entry that was deleted meanwhile is created again by the commit.
        if found is not None and not self._is_in_charge(found.entry):
            raise self._superseded(found.entry)

    def decide_cut(self, jetstream: sync.JetStream, found: Found, cut: int) -> Found:
        """Record up to where earlier runs stored rows; the first task to do so decides."""
        *earlier, this = found.entry.runs
        runs = (*earlier, msgspec.structs.replace(this, cut=cut))
        entry = msgspec.structs.replace(found.entry, runs=runs)
        with contextlib.suppress(EntryChanged):
            self.entries.write(jetstream, entry, found.revision)
        return self.begin(jetstream)

    def commit(self, jetstream: sync.JetStream, found: Found, totals: Totals) -> None:
        """Record that the epoch is committed; idempotent."""
        entry = self.committed_entry(jetstream, found, totals)
        try:
            self.entries.write(jetstream, entry, found.revision)
        except EntryChanged:
            again = self.entries.read(jetstream)
            if again is not None and again.entry == entry:
                return  # this same update, sent twice
            raise self._superseded(again.entry if again else None) from None

    def committed_entry(
        self, jetstream: sync.JetStream, found: Found, totals: Totals
    ) -> LedgerEntry:
        """Return the entry after the commit of the epoch."""
        info = jetstream.stream(self._plan.stream).info()
        return msgspec.structs.replace(
            found.entry,
            epoch=self._task.epoch,
            last_seq=info.state.last_seq,
            begun=self._task.epoch,
            since=0,
            runs=(),
            created=int(to_wire(info).created),
            rows=totals.rows,
            checksum=f"{totals.checksum:032x}",
        )

    def check_same_rows(self, found: Found, totals: Totals) -> None:
        """Refuse a replay of a committed epoch with other rows than were stored."""
        entry = found.entry
        if entry.rows is None or self._plan.options.keep_committed_epoch == self._task.epoch:
            return
        if totals == (entry.rows, int(entry.checksum, 16)):
            return
        raise WriteRefused(
            f"{self.named} was committed with {entry.rows} rows, but this run of it has "
            f"{totals.rows} different ones, which were not stored: a replay must compute the "
            "same rows (leave out rand(), current_timestamp() and other values that differ "
            "between runs). To keep the stored rows and drop these, which is right if the source "
            "has lost some meanwhile, set "
            f'option("keepCommittedEpoch", "{self._task.epoch}"); to store them too '
            + (
                HOW_TO_CONTINUE
                if self._plan.options.streaming
                else "use another txnAppId, or a new txnVersion"
            )
        )

    def check_gaps(self, first: int, last: int, gone: int) -> None:
        """Refuse a replay if messages among its rows were removed."""
        if gone <= 0 or self._plan.options.fail_on_replay_gaps is False:
            return
        raise ReplayRefused(
            f"{self.named} was started before, and {gone} messages of stream "
            f"{self._plan.stream!r} between sequence {first} and {last}, which include its "
            "rows, have been removed since (expired, consumed, deleted, over a "
            "limit of the stream): it is unknown which rows were stored. If they "
            "were not rows of this query, or were never stored because the server's disk was full "
            "(error 10023; it does not reuse their sequences), set "
            f'option("failOnReplayGaps", "false") for this run; else {HOW_TO_CONTINUE}'
        )

    def report_surplus(self, stored: RowCounts, reported: RowCounts, rows: int) -> int:
        """Warn about rows that earlier runs stored and this run lacks; return their number."""
        surplus = stored.without(reported)
        if surplus:
            _log.warning(
                "%s: earlier runs stored %d rows that this run of %d rows does not have. Either "
                "the source has lost rows meanwhile; or rows differ between runs (rand(), "
                "current_timestamp()), then the stream has both versions of them",
                self.named,
                surplus,
                rows,
            )
        return surplus

    def check_stored(self, stored: int, rows: int, *, hint: str = "") -> None:
        """Raise if fewer rows are stored than a run should leave; the next run repairs that."""
        if stored < rows:
            again = "the query" if self._plan.options.streaming else "the job"
            raise ReplayRefused(
                f"{self.named} has {rows} rows, but only {stored} are stored: it is not "
                f"committed. Start {again} again, which stores the rest{hint}"
            )
        if stored > rows:
            _log.error(
                "%s has %d rows, but %d are stored: an earlier run continued to write after this "
                "one had started",
                self.named,
                rows,
                stored,
            )

    def _misses_epochs(self, entry: LedgerEntry) -> bool:
        """Return whether the query has since had epochs that were not written with this ledger."""
        streaming = self._plan.options.streaming
        return streaming and entry.begun != self._task.epoch and entry.epoch < self._task.epoch - 1

    def _refers_to(self, entry: LedgerEntry, info: StreamInfo) -> bool:
        """Return whether the sequence in the entry refers to this stream.

        A stream that was created again, or restored from a backup, has other sequences.
        """
        created_again = bool(entry.created) and entry.created != int(to_wire(info).created)
        return not created_again and entry.last_seq <= info.state.last_seq

    def _with_this_run(
        self, entry: LedgerEntry, info: StreamInfo, *, outdated: bool
    ) -> LedgerEntry:
        this = Run(self._run)
        refers = self._refers_to(entry, info)
        last = entry.last_seq if refers else 0
        if entry.begun == self._task.epoch:
            runs, since = (entry.runs[0], *entry.runs[1:][-RUNS_MAX:], this), entry.since
        elif entry.begun is None or outdated:
            runs, since = (Run(UNREGISTERED), this), 0
        else:
            # Nothing of the epoch is stored yet. The last commit may be long ago: an epoch in
            # between was perhaps stored without the ledger, because of removed messages.
            runs, since = (this,), info.state.last_seq
        if since > info.state.last_seq or (not refers and len(runs) > 1):
            since = 0
        return msgspec.structs.replace(
            entry,
            begun=self._task.epoch,
            runs=runs,
            stream=self._plan.stream,
            last_seq=last,
            since=since,
            created=int(to_wire(info).created),
        )

    def _is_in_charge(self, entry: LedgerEntry) -> bool:
        """Whether this run is the last one registered for its epoch."""
        if entry.begun != self._task.epoch or not entry.runs:
            return False
        if entry.runs[-1].token == self._run:
            return True
        if any(run.token == self._run for run in entry.runs):
            raise self._superseded(entry)
        return False

    def _check_entry(self, entry: LedgerEntry) -> None:
        task, place = self._task, self.entries.place
        if entry.query != task.query and (entry.query or self._plan.options.id_prefix):
            # The epochs of a new checkpoint start at 0 again.
            raise WriteRefused(
                f"{place} has epochs up to {entry.epoch} of {task.prefix!r} from another "
                f"checkpoint (query {entry.query or 'unknown'}), so the epochs of this one would "
                "count as committed: continue with that checkpoint, choose another idPrefix, or "
                f"{self.entries.removal} after the duplicate window of the stream (until "
                "then rows that equal stored ones of the same epoch count as duplicates)"
            )
        if entry.stream not in {"", self._plan.stream}:
            raise WriteRefused(
                f"{place} has the epochs of {task.prefix!r} in stream {entry.stream!r}, so "
                f"those of stream {self._plan.stream!r} would count as committed: leave out "
                "ledgerBucket, name another bucket for this stream, or choose another "
                + ("idPrefix" if self._plan.options.streaming else "txnAppId")
            )
        newest = max(entry.epoch, entry.begun if entry.begun is not None else entry.epoch)
        if newest <= task.epoch:
            return
        if self._plan.options.streaming:
            raise WriteRefused(
                f"epoch {task.epoch} of {task.prefix!r} comes after epoch {newest} in {place}: "
                "this checkpoint is older than the rows in the stream (restored "
                "from a backup?), and its next epochs would be stored a second time. Continue "
                f"with the newer one; or, if rows may be stored twice, {self.entries.removal}"
            )
        raise WriteRefused(
            f"txnVersion {task.epoch} of txnAppId {task.prefix!r} comes after txnVersion "
            f"{newest} in {place}: versions must not decrease, because it is "
            "unknown whether the rows of an older one are stored. Use another txnAppId for "
            "a job that fills in older data"
        )

    def _superseded(self, entry: LedgerEntry | None) -> Superseded:
        state = "was deleted" if entry is None else "names a later run"
        return Superseded(
            f"{self.named}: {self.entries.place} {state}: "
            "another run of the same query has taken over, so this one stops. A query must "
            "not run twice at once; if its driver was replaced, no action is needed"
        )
