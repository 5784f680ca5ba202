"""Writing rows to a bucket: upserts, deletions, compare-and-set, transactions.

Message ids make sure that a task that runs twice writes once, within the duplicate window of the
bucket. After it, writing a value again changes nothing but the history. The ids do not
depend on the partition, since equal rows are the same value of the same key: a replay with the
rows in other partitions generates the same ids. The same key in two partitions has no order:
repartition by key, and let ``orderBy`` choose the last.
"""

import math
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.client.jetstream.kv.entry import Operation
from jetspark.client.jetstream.kv.jetstream_backend import prefixes
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamInfo
from jetspark.errors import InvalidSchema, WrongLastSequence
from jetspark.headers.block import find_value
from jetspark.spark.connections import jetstream_of
from jetspark.spark.kv.options import KV_FORMAT, KvSinkOptions
from jetspark.spark.stream.sink.message_ids import IdMaker, row_digests
from jetspark.spark.stream.sink.options import Delivery, IdSource, PublishMode
from jetspark.spark.stream.sink.plan import SinkPlan, WriteRefused, through_outages
from jetspark.spark.stream.sink.rows import RowDecoder, RowRefused, SinkRows
from jetspark.spark.stream.sink.sending import ATOMIC_ROWS_MAX, Sender
from jetspark.spark.stream.sink.writer import (
    CHUNK_ROWS,
    SinkCommit,
    this_task,
)
from jetspark.spark.stream.view import lend_for_planning, no_bucket
from jetspark.spark.writers import Commits
from jetspark.subjects.tokens import key_problem
from jetspark.sync.bulk import last_columns

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
KV_SINK_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "key": ("string",),
    "value": ("binary", "string"),
    "operation": ("string",),
    "expected_revision": _WHOLE,
    "ttl": (*_WHOLE, "float", "double", "string"),
    "txn": ("string", *_WHOLE),
}
KV_OPERATION_LINES: Final = {
    Operation.PUT: b"",
    Operation.DEL: b"KV-Operation: DEL\r\n",
    Operation.PURGE: b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\n",
}


class KvPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a task needs; pickled."""

    bucket: str
    order_by: str
    subject_prefix: str
    message_bytes_max: int
    """Payload and headers of a message, as limited by the bucket and the server."""
    publishing: SinkPlan


def check_kv_sink_schema(schema: StructType, order_by: str) -> frozenset[str]:
    """Return the columns; raise ``InvalidSchema`` with all problems."""
    problems: list[str] = []
    seen: set[str] = set()
    for field in schema.fields:
        name, kind = field.name.lower(), field.dataType.simpleString()
        if name in seen:
            problems.append(f"column {field.name!r} is duplicated")
        elif name in KV_SINK_COLUMNS:
            if kind not in KV_SINK_COLUMNS[name]:
                wanted = " or ".join(KV_SINK_COLUMNS[name])
                problems.append(f"column {field.name!r} must be {wanted}, not {kind}")
        elif name != order_by.lower():
            problems.append(
                f"column {field.name!r} does not exist in a bucket (expected one of "
                f"{', '.join(KV_SINK_COLUMNS)}): drop it"
            )
        seen.add(name)
    problems += [f"column {name!r} is missing" for name in ("key", "value") if name not in seen]
    if order_by and order_by.lower() not in seen:
        problems.append(f"orderBy names a column {order_by!r}, which does not exist")
    if order_by and "txn" in seen:
        problems.append("orderBy drops rows, which would break transactions in 'txn': use one")
    if problems:
        raise InvalidSchema(f"columns written to format {KV_FORMAT!r}: {'; '.join(problems)}")
    return frozenset(seen)


def plan_kv_write(options: KvSinkOptions, columns: frozenset[str], *, overwrite: bool) -> KvPlan:
    """Look up the bucket and decide; raises ``WriteRefused`` or ``PlanningFailed``."""
    # Complete mode passes every key of the result with each epoch: an upsert of all of them.
    if overwrite and not options.publishing.streaming:
        raise WriteRefused(
            f"format {KV_FORMAT!r}: a bucket cannot be overwritten as a whole: write keys with "
            "mode append, and rows with operation DEL for keys to delete"
        )
    publishing = options.publishing
    info, message_bytes_max = through_outages(
        lambda: _bucket_info(options), publishing.retries if publishing.streaming else 0
    )
    api = publishing.connection.api_prefix
    if publishing.connection.domain:
        api = f"$JS.{publishing.connection.domain}.API"
    prefix = prefixes(to_wire(info), api or "$JS.API")[1]
    config = info.config
    for column, allowed, name in (
        ("ttl", config.allow_msg_ttl, "allow_msg_ttl"),
        ("txn", config.allow_atomic, "allow_atomic"),
    ):
        if column in columns and not allowed:
            raise WriteRefused(
                f"format {KV_FORMAT!r}: column {column!r} requires {name}, which bucket "
                f"{options.bucket!r} does not have: enable it for the bucket, or drop the "
                "column"
            )
    plan = SinkPlan(
        options=publishing,
        stream=config.name,
        stream_subjects=(f"{prefix}>",),
        mode=PublishMode.FAST if config.allow_batched else PublishMode.ASYNC,
        delivery=Delivery.AT_LEAST_ONCE,
        # A batch has no name that a replay would reuse. Its tasks are repeated, though, also while
        # an earlier run still writes: what that stores late must not replace newer values, fill
        # the history, or be a reason to refuse the rows.
        id_source=IdSource.CONTENT,
        run=secrets.token_hex(6),
        duplicate_window_ns=to_wire(config).duplicate_window,
    )
    return KvPlan(
        bucket=options.bucket,
        order_by=options.order_by,
        subject_prefix=prefix,
        message_bytes_max=message_bytes_max,
        publishing=plan,
    )


def _bucket_info(options: KvSinkOptions) -> tuple[StreamInfo, int]:
    """Return the bucket, and the largest message that it and the server accept."""
    publishing = options.publishing
    with lend_for_planning(
        publishing.connection,
        doing=f"format {KV_FORMAT!r} cannot write to bucket {options.bucket!r}",
        missing=no_bucket(KV_FORMAT, "bucket", options.bucket),
    ) as client:
        info = jetstream_of(client, publishing.connection).stream(publishing.stream).cached_info
        limit = info.config.max_msg_size
        return info, min(client.max_payload, limit) if limit > 0 else client.max_payload


class RepeatedKeys:
    """The last row of each key that occurs more than once in a task."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self.last_rows: dict[str, tuple[bytes, bytes, bytes, bytes]] = {}
        """By subject: payload, headers, the header lines from columns, and the digest."""

    def add(self, rows: SinkRows, digests: Sequence[bytes]) -> None:
        """Add the next rows."""
        seen, messages = self._seen, rows.messages
        if seen.isdisjoint(messages.subjects) and len(set(messages.subjects)) == len(rows):
            seen.update(messages.subjects)
            return
        lines = rows.lines or [b""] * len(rows)
        for subject, payload, headers, line, digest in zip(
            messages.subjects, messages.data, messages.headers, lines, digests, strict=True
        ):
            if subject in seen:
                self.last_rows[subject] = payload, headers, line, digest
            seen.add(subject)


class KvRowWriter:
    """Writes rows to a bucket. Pickled to the tasks."""

    def __init__(self, plan: KvPlan, schema: StructType) -> None:
        self._plan = plan.publishing
        self._bucket = plan
        self._at = {name.lower(): at for at, name in enumerate(schema.fieldNames())}

    @property
    def target(self) -> str:
        """The target of the write, for messages."""
        return f"bucket {self._bucket.bucket!r}"

    def write(self, batches: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Write the rows of one task. Runs in a worker."""
        plan = self._plan
        task = this_task(plan)
        # The partition is not part of the ids: a replay may have the rows elsewhere.
        prefix = f"{task.epoch_prefix}k." if plan.options.streaming else f"{plan.run}.k."
        maker = IdMaker(prefix)
        sender = Sender(plan)
        together = Sender(msgspec.structs.replace(plan, mode=PublishMode.ATOMIC))
        count, last = 0, 0
        repeated = RepeatedKeys()
        for txn, rows in self._groups(batches):
            if txn and len(rows) > ATOMIC_ROWS_MAX:
                raise RowRefused(
                    f"a transaction has {len(rows)} rows, but at most {ATOMIC_ROWS_MAX} can be "
                    "written together"
                )
            digests = row_digests(rows)
            ids = maker.ids(digests)
            last = max(last, self._send(together if txn else sender, rows, ids))
            count += len(rows)
            repeated.add(rows, digests)
        if repeated.last_rows and not {"expected_revision", "txn"} & self._at.keys():
            last = max(last, self._put_last_values(sender, prefix, repeated))
        return SinkCommit(task, count, last)

    def _put_last_values(self, sender: Sender, prefix: str, repeated: "RepeatedKeys") -> int:
        """Put the last value of a key again if an earlier one of the write is the newest.

        When a task runs again, the stream may have forgotten the id of the earlier row, which is
        then stored again, but still have that of the last, which is dropped.
        """
        subjects = list(repeated.last_rows)
        newest = sender.with_retries(lambda js: self._newest_ids(js, subjects))
        messages, lines, ids = MessageColumns.empty(), list[bytes](), list[bytes]()
        for subject, (payload, headers, line, digest) in repeated.last_rows.items():
            found = newest.get(subject, b"")
            wanted = f"{prefix}{digest.hex()}"
            # Another writer may have changed the key since; its value stays.
            if not found.startswith(prefix.encode()) or found.startswith(wanted.encode()):
                continue
            messages.append_to_publish(subject, payload, headers)
            lines.append(line)
            ids.append(f"{wanted}.{self._plan.run}".encode())
        return self._send(sender, SinkRows(messages, lines), ids) if ids else 0

    def _send(self, sender: Sender, rows: SinkRows, ids: list[bytes]) -> int:
        """Send rows; a write by an earlier run of the epoch is no reason to refuse them."""
        try:
            return sender.send(self._messages(rows, ids))
        except WrongLastSequence:
            stored = sender.with_retries(lambda js: self._last_ids(js, rows.messages.subjects))
            new = [at for at, one in enumerate(ids) if one not in stored]
            if len(new) == len(ids):
                raise
        rest = rows.picked(new)
        if not len(rest):
            return 0
        return self._send(sender, rest, [ids[at] for at in new])

    def _messages(self, rows: SinkRows, ids: list[bytes]) -> MessageColumns:
        """Return the messages to send, with their ids.

        Headers count for the limits of a message: a value that fits only without one has no id.
        """
        messages = rows.finished("", ids)
        limit = self._bucket.message_bytes_max
        sizes = [
            len(data) + len(block)
            for data, block in zip(messages.data, messages.headers, strict=True)
        ]
        if max(sizes, default=0) > limit:
            plain = rows.finished("", None).headers
            for at, size in enumerate(sizes):
                if size > limit:
                    messages.replace_headers(at, plain[at])
        return messages

    def _last_ids(self, jetstream: sync.JetStream, subjects: Sequence[str]) -> set[bytes]:
        """Return the message ids of the newest values of keys."""
        return set(self._newest_ids(jetstream, list(dict.fromkeys(subjects))).values())

    def _newest_ids(self, jetstream: sync.JetStream, subjects: list[str]) -> dict[str, bytes]:
        """Return the message id of the newest value of each key that has one."""
        stream = jetstream.stream(self._plan.stream)
        last = stream.info().state.last_seq
        chunk = last_columns(stream, subjects, up_to_seq=last, min_last_seq=last)
        found = {
            subject: find_value(block, b"Nats-Msg-Id")
            for subject, block in zip(chunk.subjects, chunk.headers, strict=True)
            if block
        }
        return {subject: one for subject, one in found.items() if one is not None}

    def commit(self, messages: Commits) -> None:
        """Every task has written: nothing else to do."""

    def _groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[bool, SinkRows]]:
        """Yield rows that are sent together; True for a transaction."""
        if self._bucket.order_by:
            yield from self._last_of_each_key(batches)
            return
        transactions: dict[Any, list[int]] = {}
        kept: list[SinkRows] = []
        for batch in batches:
            rows = self._rows(batch)
            if "txn" not in self._at:
                if len(rows):
                    yield False, rows
                continue
            names = batch.column(self._at["txn"]).to_pylist()
            base = sum(map(len, kept))
            kept.append(rows)
            for row, name in enumerate(names):
                transactions.setdefault(name, []).append(base + row)
        if not kept:
            return
        whole = SinkRows.joined(kept)
        for name, places in transactions.items():
            yield name is not None, whole.picked(places)

    def _last_of_each_key(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[bool, SinkRows]]:
        """Yield the last row of each key by ``orderBy``; of equal ones the later."""
        order_at = self._at[self._bucket.order_by.lower()]
        best: dict[str, tuple[Any, int]] = {}
        kept: list[SinkRows] = []
        base = 0
        for batch in batches:
            rows = self._rows(batch)
            kept.append(rows)
            orders = batch.column(order_at).to_pylist()
            for row, (subject, order) in enumerate(
                zip(rows.messages.subjects, orders, strict=True)
            ):
                if order is None:
                    raise RowRefused(f"column {self._bucket.order_by!r} is NULL in some row")
                # As in Spark's own order, NaN is larger than any number; Python compares it with
                # none.
                last = isinstance(order, float) and math.isnan(order)
                if subject not in best or last or best[subject][0] <= order:
                    best[subject] = (order, base + row)
            base += len(rows)
        places = sorted(place for _, place in best.values())
        whole = SinkRows.joined(kept)
        for at in range(0, len(places), CHUNK_ROWS):
            yield False, whole.picked(places[at : at + CHUNK_ROWS])

    def _rows(self, batch: pa.RecordBatch) -> SinkRows:
        """Convert rows to messages of a bucket."""
        keys = read_keys(batch.column(self._at["key"]))
        count = len(keys)
        prefix = self._bucket.subject_prefix
        values = batch.column(self._at["value"])
        operations = self._operations(batch, values)
        columns = {
            "subject": [prefix + key for key in keys],
            "data": values,
        }
        schema = StructType().add("subject", "string").add("data", "binary")
        for ours, theirs in (("expected_revision", "expected_last_subject_seq"), ("ttl", "ttl")):
            if ours in self._at:
                columns[theirs] = batch.column(self._at[ours])
                schema = schema.add(theirs, "binary")
        rows = RowDecoder(schema, "").decode(pa.RecordBatch.from_pydict(columns))
        if operations is None:
            return rows
        messages, lines = rows.messages, rows.lines or [b""] * count
        marked = [
            KV_OPERATION_LINES[done] + line for done, line in zip(operations, lines, strict=True)
        ]
        payloads = [
            data if done is Operation.PUT else b""
            for data, done in zip(messages.data, operations, strict=True)
        ]
        return SinkRows(
            MessageColumns.to_publish(messages.subjects, payloads, messages.headers), marked
        )

    def _operations(self, batch: pa.RecordBatch, values: pa.Array) -> list[Operation] | None:
        """Return what each row does; None if the rows have no such column: all put."""
        operations: list[Operation] | None = None
        if "operation" in self._at:
            names = batch.column(self._at["operation"]).to_pylist()
            try:
                operations = [Operation(name) for name in names]
            except ValueError:
                known = {operation.value for operation in Operation}
                wrong = next(name for name in names if name not in known)
                raise RowRefused(
                    f"column 'operation' contains {wrong!r}: expected PUT, DEL or PURGE"
                ) from None
        if values.null_count:
            puts = operations or [Operation.PUT] * len(values)
            for missing, done in zip(values.is_null().to_pylist(), puts, strict=True):
                if missing and done is Operation.PUT:
                    raise RowRefused(
                        "column 'value' is NULL in a row that puts: to delete a key, use DEL or "
                        "PURGE in a column 'operation'"
                    )
        return operations


def read_keys(column: pa.Array) -> list[str]:
    """Return the keys of rows; raises ``RowRefused`` for one that cannot be a key."""
    keys: list[str | None] = column.to_pylist()
    for key in set(keys):
        if key is None:
            raise RowRefused("column 'key' is NULL in some row")
        problem = key_problem(key)
        if problem is not None:
            raise RowRefused(f"column 'key' contains {key!r}, which is not a valid key: {problem}")
    return [key for key in keys if key is not None]
