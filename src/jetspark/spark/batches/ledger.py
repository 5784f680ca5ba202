"""Which micro-batches of a query a sink has: one entry per query and sink, in a bucket.

The entry names the run that writes a micro-batch before it writes, and the micro-batch as
committed after it. Both are compare-and-set, so of two drivers of one query only the later one
commits.
"""

import secrets
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from jetspark import sync
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.spark.connection_settings import Connection
from jetspark.spark.connections import jetstream_of
from jetspark.spark.stream.range_reader import with_retries
from jetspark.spark.stream.sink.epoch_ledger import Superseded
from jetspark.spark.stream.sink.ledger import (
    EntryChanged,
    key_place,
    last_put,
    ledger_key,
    replace_value,
)
from jetspark.spark.stream.sink.ledger_bucket import LedgerUnusable, ensure_ledger
from jetspark.spark.stream.sink.options import LEDGER_BUCKET
from jetspark.spark.stream.sink.plan import WriteRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before the name in a key. The ledger of a stream ends with the name of the stream, which has no
# slash, so that the two are never the same.
_KIND: Final = "batches/"


class BatchEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ledger's entry of a sink. Its fields are not those of a ``LedgerEntry``."""

    committed: int
    """The last committed micro-batch; -1: none."""
    begun: int
    """The micro-batch that a run has started to write; the committed one if none has."""
    token: str
    """The run that wrote the entry."""
    runs: int = 0
    """How many runs have started to write ``begun``."""
    query: str = ""
    """The checkpoint that counts the micro-batches; empty: unknown."""
    spark_run: str = ""
    """The start of the query that committed; empty: unknown."""


class Query(NamedTuple):
    """Spark's names of a query; empty where Spark does not say them."""

    id: str
    """The same as long as the checkpoint."""
    run: str
    """Another for each start."""


def query_of(spark: "SparkSession") -> Query:
    """Return Spark's names of the query in whose ``foreachBatch`` this runs."""
    context = getattr(cast("Any", spark), "_sc", None)
    if context is None:
        return Query("", "")  # Spark Connect
    return Query(
        context.getLocalProperty("sql.streaming.queryId") or "",
        context.getLocalProperty("spark.jobGroup.id") or "",
    )


class RegisteredRun(NamedTuple):
    """A micro-batch that is about to be written."""

    entry: BatchEntry
    revision: int


class BatchLedger:
    """The entry of one sink; ``bucket`` empty: the default one, created if missing."""

    def __init__(self, connection: Connection, bucket: str, name: str) -> None:
        self._connection = connection
        self._bucket = bucket or LEDGER_BUCKET
        self._named = bool(bucket)
        self._name = name
        self._key = _KIND + ledger_key(name)
        self._checked = False

    @property
    def place(self) -> str:
        """Its location, for messages."""
        return key_place(self._bucket, self._key)

    def committed(self) -> int | None:
        """Return the last committed micro-batch; None: none is."""
        self._check_bucket()
        found = with_retries(self._connection, self._read)
        return None if found is None or found.entry.committed < 0 else found.entry.committed

    def begin(self, batch: int, query: Query, *, committed_here: bool) -> RegisteredRun | None:
        """Register a run of a micro-batch; None: it is committed and must not be written again.

        ``committed_here``: the same writer has committed it.
        """
        self._check_bucket()
        token = secrets.token_hex(8)
        while True:
            found = with_retries(self._connection, self._read)
            if found is None:
                # Without an entry an earlier run may have written any micro-batch but the first.
                before = BatchEntry(batch - 1, batch, "", 1 if batch else 0)
            else:
                before = found.entry
            if before.token == token:
                return found
            self._check_entry(before, batch, query)
            if before.committed == batch:
                self._check_shared(before, query, committed_here=committed_here)
                return None
            entry = BatchEntry(
                committed=before.committed,
                begun=batch,
                token=token,
                runs=before.runs + 1 if before.begun == batch else 1,
                query=query.id or before.query,
            )
            try:
                self._write(entry, found.revision if found is not None else 0)
            except EntryChanged:
                continue  # another run, or this same update, sent twice

    def check(self, begun: RegisteredRun) -> None:
        """Raise ``Superseded`` if a later run has taken over."""
        found = with_retries(self._connection, self._read)
        if found is None or found.entry.token != begun.entry.token:
            raise self._superseded(begun)

    def commit(self, begun: RegisteredRun, query: Query) -> None:
        """Record that a micro-batch is written; raises ``Superseded`` if another run has it."""
        entry = msgspec.structs.replace(
            begun.entry, committed=begun.entry.begun, runs=0, spark_run=query.run
        )
        try:
            self._write(entry, begun.revision)
        except EntryChanged:
            found = with_retries(self._connection, self._read)
            if found is None or found.entry != entry:
                raise self._superseded(begun) from None

    def _check_bucket(self) -> None:
        """Check the bucket once: the default one is created."""
        if self._checked:
            return

        def ensure(client: sync.Client) -> None:
            ensure_ledger(jetstream_of(client, self._connection), self._bucket, named=self._named)

        try:
            with_retries(self._connection, ensure)
        except LedgerUnusable as error:
            raise WriteRefused(
                f"exactly_once({self._name!r}): {error}: create the bucket {self._bucket!r} "
                "(history 1, no ttl), or name another with ledgerBucket"
            ) from None
        self._checked = True

    def _read(self, client: sync.Client) -> RegisteredRun | None:
        message = last_put(jetstream_of(client, self._connection), self._bucket, self._key)
        return RegisteredRun(self._decoded(message), message.seq) if message is not None else None

    def _decoded(self, message: StreamMessage) -> BatchEntry:
        try:
            return msgspec.json.decode(message.data, type=BatchEntry)
        except msgspec.DecodeError as error:
            raise WriteRefused(
                f"{self.place} is not an entry of exactly_once ({error}): delete it, or choose "
                "another name"
            ) from None

    def _write(self, entry: BatchEntry, revision: int) -> None:
        def replace(client: sync.Client) -> None:
            jetstream = jetstream_of(client, self._connection)
            value = msgspec.json.encode(entry)
            replace_value(jetstream, self._bucket, self._key, value, revision)

        with_retries(self._connection, replace)

    def _check_entry(self, entry: BatchEntry, batch: int, query: Query) -> None:
        if entry.query and query.id and entry.query != query.id:
            raise WriteRefused(
                f"{self.place} has micro-batches up to {max(entry.committed, entry.begun)} of "
                f"another checkpoint (query {entry.query}), so those of this one, which count "
                "from 0 again, would not be written: continue with that checkpoint, or choose "
                "another name for the writer and another target"
            )
        newest = max(entry.committed, entry.begun)
        if batch < newest:
            raise WriteRefused(
                f"micro-batch {batch} of {self._name!r} comes after micro-batch {newest} in "
                f"{self.place}: this checkpoint is older than the rows in the sink (restored from "
                "a backup?), or two queries write under one name. Continue with the newer "
                "checkpoint, or choose another name for the writer and another target"
            )

        if entry.committed < entry.begun < batch:
            raise WriteRefused(
                f"micro-batch {entry.begun} of {self._name!r} was started and never committed, "
                f"but Spark has passed on to micro-batch {batch}: an error of the writer was "
                "caught in the function given to foreachBatch, and the rows are missing from the "
                "sink, or incomplete. Let errors end the query; to continue without these rows, "
                f"delete {self.place}"
            )

    def _check_shared(self, entry: BatchEntry, query: Query, *, committed_here: bool) -> None:
        if query.run and entry.spark_run == query.run and not committed_here:
            raise WriteRefused(
                f"micro-batch {entry.committed} of {self._name!r} was committed by another writer "
                "of this query under the same name, so this one would never write anything: give "
                "each sink a name of its own"
            )

    def _superseded(self, begun: RegisteredRun) -> Superseded:
        return Superseded(
            f"micro-batch {begun.entry.begun} of {self._name!r}: {self.place} names a later run, "
            "or was deleted: another run of the same query has taken over, so this one stops. A "
            "query must not run twice at once; if its driver was replaced, no action is needed"
        )
