"""The tasks of ``kv_merge``: look at the keys, decide, write with compare-and-set, look again.

A row carries a message id that consists of the merge and its key. A task that Spark runs again
finds its own earlier writes by it, and the bucket drops what it already has.
"""

import tempfile
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.client.jetstream.kv.config import stream_name
from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.kv.jetstream_backend import prefixes
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.models.base import to_wire
from jetspark.client.options import PUBLISH_ASYNC_MAX
from jetspark.errors import InvalidSchema, StreamNotFound
from jetspark.headers.block import append_lines, find_value
from jetspark.spark.connection_settings import Connection
from jetspark.spark.connections import jetstream_of
from jetspark.spark.kv.writer import KV_OPERATION_LINES, read_keys
from jetspark.spark.spool import Spool
from jetspark.spark.stream.range_reader import with_retries
from jetspark.spark.stream.sink.options import ACK_TIMEOUT_MS
from jetspark.spark.stream.sink.plan import WriteRefused
from jetspark.spark.stream.sink.rows import RowRefused
from jetspark.sync.bulk import last_columns, publish_where_expected

# Rows that are looked at and written together.
ROWS_AT_ONCE: Final = 5_000
# How often a decision is made again before the row counts as a conflict.
TRIES: Final = 50

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "key": ("string",),
    "value": ("binary", "string"),
    "operation": ("string",),
    "expected_revision": ("tinyint", "smallint", "int", "bigint"),
}
OUTCOMES: Final = (
    "outcome string, count bigint, key string, expected_revision bigint, revision bigint"
)
_SCHEMA: Final = pa.schema(
    [
        ("outcome", pa.string()),
        ("count", pa.int64()),
        ("key", pa.string()),
        ("expected_revision", pa.int64()),
        ("revision", pa.int64()),
    ]
)
_COUNTED: Final = ("written", "deleted", "ignored")
_CONFLICT: Final = "conflict"


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a task needs; pickled."""

    connection: Connection
    bucket: str
    when_matched: str
    when_not_matched: str
    run: str
    """Names this merge, for all its tasks and their repetitions."""


class MergeRow(NamedTuple):
    """A row to merge."""

    key: str
    value: bytes | None
    operation: Operation | None
    """None: decided by the plan."""
    expected: int | None


class Newest(NamedTuple):
    """The newest message of a key."""

    revision: int
    exists: bool
    """False: it is the marker of a deletion."""
    msg_id: bytes | None


class Decision(NamedTuple):
    """What to do with a row."""

    outcome: str
    operation: Operation | None = None
    """None: nothing is written."""


_NONE: Final = Newest(0, exists=False, msg_id=None)


def check_merge_columns(schema: StructType) -> None:
    """Raise ``InvalidSchema`` with all problems."""
    problems: list[str] = []
    seen: set[str] = set()
    for field in schema.fields:
        name, kind = field.name, field.dataType.simpleString()
        if name not in COLUMNS:
            problems.append(f"column {name!r} is unknown (expected {', '.join(COLUMNS)}): drop it")
        elif kind not in COLUMNS[name]:
            problems.append(f"column {name!r} must be {' or '.join(COLUMNS[name])}, not {kind}")
        seen.add(name)
    problems += [f"column {name!r} is missing" for name in ("key", "value") if name not in seen]
    if problems:
        raise InvalidSchema(f"columns of kv_merge: {'; '.join(problems)}")


class TaskMerge:
    """Merges the rows of one task."""

    def __init__(self, plan: MergePlan) -> None:
        self._plan = plan
        self._counts = dict.fromkeys(_COUNTED, 0)

    def merge(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge the rows; yields the conflicts, then the counts."""
        with tempfile.TemporaryFile() as file:
            # Nothing is written before all keys are known to occur once.
            spool, seen = Spool(file), set[str]()
            for batch in batches:
                for key in read_keys(batch.column("key")):
                    if key in seen:
                        raise RowRefused(
                            f"column 'key' contains {key!r} twice: a merge takes one row for each "
                            "key, so keep the one that counts (dropDuplicates, max_by)"
                        )
                    seen.add(key)
                spool.add(batch)
            for batch in spool.batches():
                rows = self._rows(batch)
                for start in range(0, len(rows), ROWS_AT_ONCE):
                    yield self._merged(rows[start : start + ROWS_AT_ONCE])
        yield pa.RecordBatch.from_pylist(
            [{"outcome": name, "count": count} for name, count in self._counts.items()], _SCHEMA
        )

    def _rows(self, batch: pa.RecordBatch) -> list[MergeRow]:
        nothing: list[None] = [None] * batch.num_rows
        names = set(batch.schema.names)
        values = batch.column("value")
        if not pa.types.is_binary(values.type):
            values = values.cast(pa.binary())
        words = batch.column("operation").to_pylist() if "operation" in names else nothing
        operations = [_operation(word) for word in words]
        expected = (
            batch.column("expected_revision").to_pylist()
            if "expected_revision" in names
            else nothing
        )
        rows = [
            MergeRow(*fields)
            for fields in zip(
                batch.column("key").to_pylist(),
                values.to_pylist(),
                operations,
                expected,
                strict=True,
            )
        ]
        for row in rows:
            if row.expected is not None and row.expected < 0:
                raise RowRefused(f"expected_revision of key {row.key!r} is negative")
        return rows

    def _merged(self, rows: Sequence[MergeRow]) -> pa.RecordBatch:
        """Merge rows with different keys; return the conflicts."""
        conflicts: list[dict[str, object]] = []
        left = list(rows)
        for attempt in range(TRIES):
            if not left:
                break
            last = attempt == TRIES - 1

            def once(client: sync.Client, some: Sequence[MergeRow] = left) -> list[_Result]:
                return self._attempt(client, some)

            again: list[MergeRow] = []
            for result in with_retries(self._plan.connection, once):
                if result.outcome == _CONFLICT and (result.final or last):
                    conflicts.append(
                        {
                            "outcome": _CONFLICT,
                            "count": 1,
                            "key": result.row.key,
                            "expected_revision": result.row.expected,
                            "revision": result.revision,
                        }
                    )
                elif result.outcome == _CONFLICT:
                    again.append(result.row)
                else:
                    self._counts[result.outcome] += 1
            left = again
        return pa.RecordBatch.from_pylist(conflicts, _SCHEMA)

    def _attempt(self, client: sync.Client, rows: Sequence[MergeRow]) -> "list[_Result]":
        """Look at the keys, decide and write once."""
        plan = self._plan
        jetstream = jetstream_of(client, plan.connection)
        try:
            stream = jetstream.stream(stream_name(plan.bucket))
        except StreamNotFound:
            raise WriteRefused(
                f"kv_merge: bucket {plan.bucket!r} does not exist on "
                f"{plan.connection.display_servers}: create it, or correct the name"
            ) from None
        info = stream.cached_info
        connection = plan.connection
        api = f"$JS.{connection.domain}.API" if connection.domain else connection.api_prefix
        read_prefix, write_prefix = prefixes(to_wire(info), api or "$JS.API")
        newest = _newest(stream, read_prefix, [row.key for row in rows], info.state.last_seq)
        results: list[_Result] = []
        pending: list[tuple[MergeRow, Decision, Newest]] = []
        messages = MessageColumns.empty()
        for row in rows:
            found = newest.get(row.key, _NONE)
            msg_id = f"{plan.run}.{row.key}".encode()
            decision = self._decide(row, found, written=found.msg_id == msg_id)
            if decision.operation is None or found.msg_id == msg_id:
                shown = found.revision if found.exists else None
                results.append(_Result(row, decision.outcome, shown, final=True))
                continue
            lines = b"%sNats-Msg-Id: %s\r\nNats-Expected-Last-Subject-Sequence: %d\r\n" % (
                KV_OPERATION_LINES[decision.operation],
                msg_id,
                found.revision,
            )
            put = decision.operation is Operation.PUT
            messages.append_to_publish(
                write_prefix + row.key,
                row.value or b"" if put else b"",
                append_lines(b"", lines),
            )
            pending.append((row, decision, found))
        sequences = publish_where_expected(
            jetstream, messages, max_in_flight=PUBLISH_ASYNC_MAX, timeout=ACK_TIMEOUT_MS / 1000
        )
        for (row, decision, _), sequence in zip(pending, sequences, strict=True):
            # A refused row is looked at again: the next attempt knows the revision.
            outcome = decision.outcome if sequence else _CONFLICT
            results.append(_Result(row, outcome, None, final=False))
        return results

    def _decide(self, row: MergeRow, found: Newest, *, written: bool) -> Decision:
        """Return what to do with a row; ``written``: this merge has written it before."""
        exists = found.exists
        if written:
            return Decision("written", Operation.PUT) if exists else Decision("deleted")
        if row.expected is not None and row.expected != (found.revision if exists else 0):
            return Decision(_CONFLICT)
        wanted = self._plan.when_matched if exists else self._plan.when_not_matched
        if row.operation is Operation.PUT:
            wanted = "update"
        elif row.operation is not None or wanted == "delete":
            if not exists:
                return Decision("ignored")
            return Decision("deleted", row.operation or Operation.DEL)
        if wanted == "ignore":
            return Decision("ignored")
        if row.value is None:
            raise RowRefused(
                f"column 'value' is NULL for key {row.key!r}, which is to be written: to delete a "
                "key, use DEL or PURGE in a column 'operation'"
            )
        return Decision("written", Operation.PUT)


class _Result(NamedTuple):
    """The outcome of one attempt."""

    row: MergeRow
    outcome: str
    revision: int | None
    """Of the key, as far as it matters for a conflict."""
    final: bool
    """Whether a conflict would be the same in another attempt."""


def _newest(
    stream: sync.Stream, prefix: str, keys: Sequence[str], last_seq: int
) -> dict[str, Newest]:
    """Return the newest message of each key that has one, not older than ``last_seq``."""
    chunk = last_columns(
        stream, [prefix + key for key in keys], up_to_seq=0, min_last_seq=last_seq
    )
    found: dict[str, Newest] = {}
    for subject, revision, block in zip(
        chunk.subjects, chunk.sequences, chunk.headers, strict=True
    ):
        exists = not block or read_operation(block)[0] is Operation.PUT
        msg_id = find_value(block, b"Nats-Msg-Id") if block else None
        found[subject[len(prefix) :]] = Newest(revision, exists, msg_id)
    return found


def _operation(name: str | None) -> Operation | None:
    if name is None:
        return None
    try:
        return Operation(name)
    except ValueError:
        raise RowRefused(
            f"column 'operation' contains {name!r}: expected PUT, DEL, PURGE or NULL"
        ) from None


def counted(table: pa.Table) -> dict[str, int]:
    """Return the number of rows by outcome."""
    counts = dict.fromkeys(_COUNTED, 0)
    pairs = zip(table["outcome"].to_pylist(), table["count"].to_pylist(), strict=True)
    for outcome, count in pairs:
        if outcome in counts:
            counts[outcome] += count
    return counts


def conflict_table(table: pa.Table) -> pa.Table:
    """Return the conflicts of all tasks."""
    chosen = [outcome == _CONFLICT for outcome in table["outcome"].to_pylist()]
    conflicts = table.filter(pa.array(chosen, pa.bool_()))
    return conflicts.select(["key", "expected_revision", "revision"])
