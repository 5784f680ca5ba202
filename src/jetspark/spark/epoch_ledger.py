"""The ledger of a query's epochs: exactly once whatever the delay, however rows are partitioned.

An entry has the last committed epoch, where the stream ended then, and the runs of the epoch under
way. Spark runs an epoch again after a restart, perhaps with the rows in other partitions. Each run
is registered before it writes, so that

- a later run knows that rows may be stored already: they lie after the end of the last commit,
  are read back once, and are settled by count (``replay``);
- an earlier run that is still alive somewhere finds out and stops.
"""

import contextlib
import logging
import time
from typing import Final, NamedTuple

import msgspec

from jetspark import sync
from jetspark.api.stream import StreamInfo
from jetspark.errors import Error
from jetspark.spark.ledger import Entries, EntryChanged, Found, LedgerEntry, Run
from jetspark.spark.message_ids import WriteTask
from jetspark.spark.sink_plan import SinkPlan, WriteRefused

_log = logging.getLogger(__name__)

# Of a query that fails again and again in one epoch the latest runs are enough to recognise any
# that may still be alive.
RUNS_MAX: Final = 1_000
# The name of an earlier run that wrote before runs were registered (jetspark 0.1.0).
UNREGISTERED: Final = "0.1.0"
# A task asks the ledger at most this often whether a later run has taken over.
CHECK_INTERVAL_S: Final = 0.5

HOW_TO_GO_ON: Final = (
    'run it once with option("delivery", "at-least-once") to store all rows of this epoch again '
    "(some may then be stored twice), and with exactly-once from then on; rows with a column "
    "'msg_id' of their own (with_msg_id) do not depend on the ledger"
)


class Superseded(Error):
    """A later run of the same epoch has taken over: this one must not write any more."""


class Totals(NamedTuple):
    """The rows of an epoch as one run has them."""

    rows: int
    checksum: int


class EpochLedger:
    """The entry of one query, as one run of one epoch sees it."""

    def __init__(self, plan: SinkPlan, run: str, task: WriteTask, entries: Entries) -> None:
        self._plan = plan
        self._run = run
        self._task = task
        self.entries = entries
        self._checked_at = time.monotonic()

    def is_committed(self, found: Found) -> bool:
        """Whether the epoch is committed already, so that its rows must not be written again."""
        return found.entry.epoch == self._task.epoch

    def is_replay(self, found: Found) -> bool:
        """Whether earlier runs may have stored rows of the epoch."""
        return found.entry.runs[0].token != self._run

    def begin(self, jetstream: sync.JetStream) -> Found:
        """Register this run, unless it is; raises ``WriteRefused`` or ``Superseded``."""
        while True:
            found = self.entries.read(jetstream)
            if found is not None:
                self._check_entry(found.entry)
                if self.is_committed(found) or self._is_in_charge(found.entry):
                    return found
            info = jetstream.stream(self._plan.stream).info()
            entry = found.entry if found else self.entries.first_entry(jetstream, info)
            self._check_entry(entry)
            entry = self._with_this_run(entry, info)
            try:
                self.entries.write(jetstream, entry, found.revision if found else 0)
            except EntryChanged:
                continue  # another task of the same run was faster, most likely

    def check(self, jetstream: sync.JetStream) -> None:
        """Raise ``Superseded`` when a later run has taken over."""
        now = time.monotonic()
        if now < self._checked_at + CHECK_INTERVAL_S:
            return
        self.check_now(jetstream)
        self._checked_at = now

    def check_now(self, jetstream: sync.JetStream) -> None:
        """Raise ``Superseded`` when a later run has taken over, as the ledger knows it now."""
        found = self.entries.read(jetstream)
        # An entry that was deleted meanwhile is made again by the commit.
        if found is not None and not self._is_in_charge(found.entry):
            raise self._superseded(found.entry)

    def decide_cut(self, jetstream: sync.JetStream, found: Found, cut: int) -> Found:
        """Record up to where rows were stored by earlier runs; what another task said wins."""
        *earlier, this = found.entry.runs
        runs = (*earlier, msgspec.structs.replace(this, cut=cut))
        entry = msgspec.structs.replace(found.entry, runs=runs)
        with contextlib.suppress(EntryChanged):
            self.entries.write(jetstream, entry, found.revision)
        return self.begin(jetstream)

    def commit(self, jetstream: sync.JetStream, found: Found, totals: Totals) -> None:
        """Record that the epoch is committed; doing it again is no error."""
        entry = self.committed_entry(jetstream, found, totals)
        try:
            self.entries.write(jetstream, entry, found.revision)
        except EntryChanged:
            again = self.entries.read(jetstream)
            if again is not None and again.entry == entry:
                return  # this very update, sent twice
            raise self._superseded(again.entry if again else None) from None

    def committed_entry(
        self, jetstream: sync.JetStream, found: Found, totals: Totals
    ) -> LedgerEntry:
        """Return what the entry says when the epoch is committed."""
        info = jetstream.stream(self._plan.stream).info()
        return msgspec.structs.replace(
            found.entry,
            epoch=self._task.epoch,
            last_seq=info.state.last_seq,
            begun=self._task.epoch,
            runs=(),
            created=int(info.created),
            rows=totals.rows,
            checksum=f"{totals.checksum:032x}",
        )

    def check_same_rows(self, found: Found, totals: Totals) -> None:
        """Refuse a replay of a committed epoch that has other rows than were stored."""
        entry = found.entry
        if entry.rows is None or self._plan.options.keep_committed_epoch == self._task.epoch:
            return
        if totals == (entry.rows, int(entry.checksum, 16)):
            return
        # A batch is named by its user, who may have given two batches the same name.
        if totals.rows < entry.rows and self._plan.options.streaming:
            _log.warning(
                "epoch %d of %r was committed with %d rows, this run of it has %d: its source has "
                "lost rows meanwhile. What is stored stays",
                self._task.epoch,
                self._task.prefix,
                entry.rows,
                totals.rows,
            )
            return
        what = "txnVersion" if not self._plan.options.streaming else "epoch"
        raise WriteRefused(
            f"{what} {self._task.epoch} of {self._task.prefix!r} is committed with {entry.rows} "
            f"rows, and this run of it has {totals.rows}, not the same ones, which were not "
            "stored: a replay must compute the same rows (leave out rand(), current_timestamp() "
            "and other values that differ from run to run). To keep what is stored and drop these "
            "rows set "
            f'option("keepCommittedEpoch", "{self._task.epoch}"); to store them too '
            + (
                HOW_TO_GO_ON
                if self._plan.options.streaming
                else "give them a txnAppId of their own, or a new txnVersion"
            )
        )

    def _with_this_run(self, entry: LedgerEntry, info: StreamInfo) -> LedgerEntry:
        this = Run(self._run)
        if entry.begun == self._task.epoch:
            runs = (entry.runs[0], *entry.runs[1:][-RUNS_MAX:], this)
        elif entry.begun is None:
            runs = (Run(UNREGISTERED), this)
        else:
            runs = (this,)
        moved = bool(entry.created) and entry.created != int(info.created)
        # A stream that was created again, or restored from a backup, has other sequences.
        last = 0 if moved or entry.last_seq > info.state.last_seq else entry.last_seq
        return msgspec.structs.replace(
            entry,
            begun=self._task.epoch,
            runs=runs,
            stream=self._plan.stream,
            last_seq=last,
            created=int(info.created),
        )

    def _is_in_charge(self, entry: LedgerEntry) -> bool:
        """Whether this run is the last one that was registered for its epoch."""
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
            # The epochs of a new checkpoint begin at 0 again.
            raise WriteRefused(
                f"{place} has epochs up to {entry.epoch} of {task.prefix!r} from another "
                f"checkpoint (query {entry.query or 'unknown'}), and would take the epochs of "
                "this one for committed: go on with that checkpoint, choose another idPrefix, or "
                f"delete {place}"
            )
        if entry.stream not in {"", self._plan.stream}:
            raise WriteRefused(
                f"{place} has the epochs of {task.prefix!r} in stream {entry.stream!r}, and would "
                f"take those of stream {self._plan.stream!r} for committed: leave out "
                "ledgerBucket, name another bucket for this stream, or choose another "
                + ("idPrefix" if self._plan.options.streaming else "txnAppId")
            )
        newest = max(entry.epoch, entry.begun if entry.begun is not None else entry.epoch)
        if newest <= task.epoch:
            return
        if self._plan.options.streaming:
            raise WriteRefused(
                f"epoch {task.epoch} of {task.prefix!r} comes after epoch {newest}, which "
                f"{place} has: this checkpoint is older than the rows in the stream (restored "
                "from a backup?), and its next epochs would be stored a second time. Go on with "
                "the newer checkpoint; or, if rows may be stored twice, set another "
                'option("idPrefix", ...)'
            )
        raise WriteRefused(
            f"txnVersion {task.epoch} of txnAppId {task.prefix!r} comes after txnVersion "
            f"{newest}, which {place} has: versions must not go back, because it is not "
            "known any more whether the rows of an older one are stored. Give a job that fills "
            "in older data a txnAppId of its own"
        )

    def _superseded(self, entry: LedgerEntry | None) -> Superseded:
        state = "was deleted" if entry is None else "names a later run"
        return Superseded(
            f"epoch {self._task.epoch} of {self._task.prefix!r}: {self.entries.place} {state}: "
            "another run of the same query has taken over, so that this one stops. A query must "
            "not run twice at once; nothing is to be done if its driver was replaced"
        )
