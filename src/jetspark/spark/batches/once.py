"""``exactly_once``: a function for ``foreachBatch`` that writes each micro-batch once."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from jetspark.spark.connection_settings import CONNECTION_OPTIONS, Connection, parse_connection
from jetspark.spark.needs import needs_spark
from jetspark.spark.option_reader import OptionReader, Use
from jetspark.subjects.tokens import bucket_name_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from jetspark.spark.batches.ledger import BatchLedger, Query, RegisteredRun

_log = logging.getLogger(__name__)

_OPTIONS: Final[Mapping[Use, tuple[str, ...]]] = {Use.CALL: (*CONNECTION_OPTIONS, "ledgerBucket")}


class Batch:
    """A micro-batch that is being written."""

    def __init__(
        self, name: str, begun: "RegisteredRun", ledger: "BatchLedger", query: "Query"
    ) -> None:
        self.name: Final = name
        """The name of the writer."""
        self.id: Final = begun.entry.begun
        """Spark's number of the micro-batch."""
        self.run: Final = begun.entry.token
        """Names this run of it: no other has the same."""
        self.query: Final = query.id
        """Spark's id of the query; empty where Spark does not say it (Spark Connect)."""
        self.repeated: Final = begun.entry.runs > 1
        """Whether an earlier run has started to write it, and may have written any part of it."""
        self._begun = begun
        self._ledger = ledger

    def check(self) -> None:
        """Raise ``Superseded`` if a later run has taken over; call it before a final step."""
        self._ledger.check(self._begun)


Write = Callable[["DataFrame", Batch], None]
Undo = Callable[[Batch], None]


class ExactlyOnce:
    """Writes the micro-batches of one query to one sink, each once. Called by ``foreachBatch``."""

    def __init__(self, name: str, write: Write, undo: Undo | None, ledger: "BatchLedger") -> None:
        self._name = name
        self._write = write
        self._undo = undo
        self._ledger = ledger
        self._committed: int | None = None

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        """Write a micro-batch, unless the ledger has it as committed."""
        from jetspark.spark.batches.ledger import query_of

        query = query_of(rows.sparkSession)
        begun = self._ledger.begin(batch_id, query, committed_here=self._committed == batch_id)
        if begun is None:
            _log.info("micro-batch %d of %r is already committed", batch_id, self._name)
            return
        batch = Batch(self._name, begun, self._ledger, query)
        if batch.repeated and self._undo is not None:
            self._undo(batch)
        self._write(rows, batch)
        self._ledger.commit(begun, query)
        self._committed = batch_id

    def committed(self) -> int | None:
        """Return the last committed micro-batch, from the ledger; None: none is."""
        return self._ledger.committed()


def exactly_once(
    name: str, write: Write, *, undo: Undo | None = None, **options: str
) -> ExactlyOnce:
    """Return a function for ``DataStreamWriter.foreachBatch`` that writes to any sink once.

    ``name`` identifies the sink of this query in the ledger: keep it as long as the checkpoint,
    and give every sink its own. ``write(rows, batch)`` is called for each micro-batch that is not
    committed. If an earlier run was killed before the commit, it is called again for the same
    micro-batch: it must then replace what that run has written (``file_table``, an upsert, a
    transaction that knows ``batch.id``), or ``undo(batch)``, which is called first, must remove
    it.
    ``options`` are the connection options, and ``ledgerBucket``.
    """
    with needs_spark():
        from jetspark.spark.batches.ledger import BatchLedger

    given: object = name
    if not isinstance(given, str) or not given or not given.isprintable():
        raise ValueError(
            f"exactly_once: name is {name!r}: expected a text of printable characters"
        )
    for what, function in (("write", write), ("undo", undo)):
        if not callable(function) and (what == "write" or function is not None):
            raise TypeError(
                f"exactly_once: {what} is {function!r}: expected a function, such as "
                'file_table("/data/orders")'
            )
    connection, bucket = _parse(options)
    return ExactlyOnce(name, write, undo, BatchLedger(connection, bucket, name))


def _parse(options: Mapping[str, str]) -> tuple[Connection, str]:
    reader = OptionReader("exactly_once", options, Use.CALL, _OPTIONS)
    connection = parse_connection(reader)
    bucket = reader.take("ledgerBucket", _bucket, "")
    reader.finish()
    return connection, bucket


def _bucket(text: str) -> str:
    problem = bucket_name_problem(text)
    if problem is not None:
        raise ValueError(f"{text!r} is not a bucket name: {problem}")
    return text
