"""The ledger of a query's epochs: exactly once whatever the delay, however rows are partitioned.

One entry per query, or batch job: the last committed epoch, where the stream ended then, and the
runs of the epoch under way. Spark runs an epoch again after a restart, perhaps with the rows in
other partitions. Each run is registered before it writes, so that

- a later run knows that rows may be stored already: they lie after the end of the last commit,
  are read back once, and are settled by count (``replay``);
- an earlier run that is still alive somewhere finds out and stops.

Entries live in a key-value bucket, or, for atomic writes, in the stream itself (``markers``). The
bucket is also where another job learns how far a query has committed (``endingOffsets`` =
``committed:<queryId>``).
"""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from jetspark import sync
from jetspark.api.stream import StreamInfo
from jetspark.client.jetstream.publish import Expect
from jetspark.errors import Error, KeyExists, KeyNotFound, MessageNotFound, WrongLastSequence
from jetspark.spark.message_ids import WriteTask
from jetspark.spark.sink_plan import SinkPlan, WriteRefused
from jetspark.subjects.tokens import key_problem

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
            "and other values that differ from run to run). To keep what is stored and drop these rows set "
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
