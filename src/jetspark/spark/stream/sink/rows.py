"""The columns of a write, and conversion of Arrow batches to messages."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StructType

from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.errors import Error, InvalidSchema
from jetspark.headers.block import (
    append_lines,
    encode_headers,
    has_nats_headers,
    remove_header,
    remove_headers_starting,
)
from jetspark.spark.option_reader import shortened
from jetspark.spark.stream.options import FORMAT_NAME
from jetspark.subjects.tokens import is_valid_literal
from jetspark.units import format_rfc3339, parse_duration

_SECOND: Final = 1_000_000_000
# Servers keep a time to live in nanoseconds.
_TTL_MAX_S: Final = (2**63 - 1) // _SECOND
# A cron expression starts with seconds.
_CRON_FIELDS: Final = 6
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
# The columns, and the allowed types of each.
SINK_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "subject": ("string",),
    "data": ("binary", "string"),
    "headers": ("map<string,string>", "map<string,array<string>>", "binary"),
    "msg_id": ("string",),
    "expected_last_subject_seq": _WHOLE,
    "ttl": (*_WHOLE, "float", "double", "string"),
    "schedule": ("string", "timestamp"),
    "schedule_target": ("string",),
    "schedule_ttl": (*_WHOLE, "float", "double", "string"),
}
# With option ``streams`` only.
STREAM_COLUMN: Final = "stream"
_ALIASES: Final = {"value": "data"}
# Columns of Spark's Kafka source and sink, and what a message has instead.
_OF_KAFKA: Final = {
    "key": "use 'subject'",
    "topic": "use option stream, or streams with a column 'stream'",
    "partition": "a stream has no partitions, so drop it",
    "offset": "the stream assigns sequences, so drop it",
    "timestamp": "the stream sets it, so drop it",
    "timestamptype": "the stream sets the time, so drop it",
}

# Not allowed in an id: a line break, which would add a header (``Nats-Rollup`` empties a stream),
# and leading spaces, which the server skips, so that " a" would be dropped as a duplicate of "a".
_NO_MSG_ID: Final = r"[\r\n]|^[ \t]"

# Headers that belong to an earlier publish: a row copied from another stream must not be refused,
# or dropped, because of them. The columns determine those of this publish.
_OF_ANOTHER_PUBLISH: Final = (b"Nats-Expected-", b"Nats-Batch-", b"Nats-Fast-Batch-", b"Nats-Flow")

_Value = TypeVar("_Value")


class RowRefused(Error, ValueError):
    """A row that cannot be a message; the text says which and why."""


class SinkRows(msgspec.Struct, frozen=True, eq=False):
    """Messages of one chunk, and header lines from their columns."""

    messages: MessageColumns
    """With the user's headers."""
    lines: list[bytes] | None = None
    """Header lines from columns (expected sequence, time to live)."""
    msg_ids: list[str] | None = None

    def __len__(self) -> int:
        return len(self.messages)

    @classmethod
    def joined(cls, parts: "Sequence[SinkRows]") -> "SinkRows":
        """Return the rows of all parts, which have the same columns."""
        parts = [part for part in parts if len(part)]
        return cls(
            MessageColumns.joined([part.messages for part in parts]),
            _joined([part.lines for part in parts]),
            _joined([part.msg_ids for part in parts]),
        )

    def picked(self, places: Sequence[int]) -> "SinkRows":
        """Return some of the rows."""
        return SinkRows(
            self.messages.picked(places),
            [self.lines[place] for place in places] if self.lines is not None else None,
            [self.msg_ids[place] for place in places] if self.msg_ids is not None else None,
        )

    def finished(self, stream: str, ids: Sequence[bytes] | None) -> MessageColumns:
        """Return the messages to send: the user's headers, then those of this publish.

        ``stream`` empty: any stream that stores the message.
        """
        messages = self.messages
        expected = b"Nats-Expected-Stream: %s\r\n" % stream.encode() if stream else b""
        if ids is not None and self.lines is None and not any(messages.headers):
            start = append_lines(b"", expected + b"Nats-Msg-Id: ")[: -len(b"\r\n")]
            headers = [b"%s%s\r\n\r\n" % (start, one) for one in ids]
            return MessageColumns.to_publish(messages.subjects, messages.data, headers)
        if ids is None:
            lines = [expected] * len(messages)
        else:
            lines = [b"%sNats-Msg-Id: %s\r\n" % (expected, one) for one in ids]
        if self.lines is not None:
            lines = [line + asked for line, asked in zip(lines, self.lines, strict=True)]
        headers = [
            append_lines(block, line) if line else block
            for block, line in zip(messages.headers, lines, strict=True)
        ]
        return MessageColumns.to_publish(messages.subjects, messages.data, headers)


def _joined(columns: Sequence[list[_Value] | None]) -> list[_Value] | None:
    """Return a column of all parts; None if they do not have it."""
    if len(columns) == 1:
        return columns[0]
    whole: list[_Value] = []
    for column in columns:
        if column is None:
            return None
        whole += column
    return whole if columns else None


def column_name(name: str) -> str:
    """Return the internal name of a column."""
    return _ALIASES.get(name.lower(), name.lower())


def check_sink_schema(
    schema: StructType, subject: str, *, several: bool = False
) -> frozenset[str]:
    """Return the columns; raise ``InvalidSchema`` with all problems.

    ``several``: a column names the stream of each row.
    """
    problems: list[str] = []
    seen: set[str] = set()
    for field in schema.fields:
        name = column_name(field.name)
        if name in seen:
            same = {"data", "value"} & {other.lower() for other in schema.fieldNames()}
            both = name == "data" and len(same) > 1
            problems.append(
                "columns 'data' and 'value' are two names of the payload: drop one"
                if both
                else f"column {field.name!r} is duplicated"
            )
        elif name == STREAM_COLUMN:
            if not several:
                problems.append(
                    f"column {field.name!r} is for option streams, which lists the streams that "
                    "rows may go to: set it, or drop the column"
                )
            elif _type_name(field.dataType) != "string":
                problems.append(
                    f"column {field.name!r} must be string, not {field.dataType.simpleString()}"
                )
        elif name not in SINK_COLUMNS:
            problems.append(_unknown_column(field.name))
        elif _type_name(field.dataType) not in SINK_COLUMNS[name]:
            wanted = " or ".join(SINK_COLUMNS[name])
            problems.append(
                f"column {field.name!r} must be {wanted}, not {field.dataType.simpleString()}"
            )
        seen.add(name)
    if "data" not in seen:
        problems.append("column 'data' (or 'value') is missing")
    if "subject" not in seen and not subject:
        problems.append("column 'subject' is missing, and there is no option subject for all rows")
    if several and STREAM_COLUMN not in seen:
        problems.append("column 'stream', which option streams requires, is missing")
    if "schedule_target" not in seen and "schedule" in seen:
        problems.append(
            "column 'schedule_target' is missing: the subject of what a schedule publishes"
        )
    problems.extend(
        f"column {name!r} requires a column 'schedule'"
        for name in ("schedule_target", "schedule_ttl")
        if name in seen and "schedule" not in seen
    )
    if problems:
        raise InvalidSchema(f"columns written to format {FORMAT_NAME!r}: {'; '.join(problems)}")
    return frozenset(seen)


def _type_name(kind: DataType) -> str:
    name = kind.simpleString()
    return "string" if name.startswith(("char(", "varchar(")) else name


def _unknown_column(name: str) -> str:
    instead = _OF_KAFKA.get(name.lower())
    if instead is not None:
        return f"column {name!r} does not exist in a message: {instead}"
    known = list(SINK_COLUMNS)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}; drop it"
    return f"column {name!r} does not exist in a message: {hint}"


class RowDecoder:
    """Converts Arrow batches of one write to messages."""

    def __init__(self, schema: StructType, subject: str) -> None:
        self._at = {column_name(name): at for at, name in enumerate(schema.fieldNames())}
        self._subject = subject

    def decode(self, batch: pa.RecordBatch) -> SinkRows:
        """Return the messages of ``batch``; raises ``RowRefused`` for an invalid row."""
        count = batch.num_rows
        subjects = [self._subject] * count if self._subject else self._texts(batch, "subject")
        data = batch.column(self._at["data"])
        if pa.types.is_string(data.type) or pa.types.is_large_string(data.type):
            data = data.cast(pa.binary())
        payloads: list[bytes] = data.to_pylist()
        if data.null_count:
            payloads = [payload or b"" for payload in payloads]
        return SinkRows(
            MessageColumns.to_publish(subjects, payloads, self._headers(batch)),
            self._lines(batch),
            self._msg_ids(batch) if "msg_id" in self._at else None,
        )

    def _texts(self, batch: pa.RecordBatch, name: str) -> list[str]:
        column = batch.column(self._at[name])
        texts: list[str] = column.to_pylist()
        if column.null_count:
            raise RowRefused(
                f"column {name!r} is NULL in a row: every message requires one, so filter such "
                "rows out"
            )
        if "" in texts:
            raise RowRefused(
                f"column {name!r} is empty in a row: every message requires one, so filter such "
                "rows out"
            )
        return texts

    def _msg_ids(self, batch: pa.RecordBatch) -> list[str]:
        ids = self._texts(batch, "msg_id")
        wrong = pc.index(
            pc.match_substring_regex(batch.column(self._at["msg_id"]), _NO_MSG_ID), True
        )
        if wrong.as_py() >= 0:
            raise RowRefused(
                f"column 'msg_id' contains {shortened(ids[wrong.as_py()])}: an id must be one "
                "line and not start with a space, which the server would skip"
            )
        return ids

    def _headers(self, batch: pa.RecordBatch) -> list[bytes]:
        if "headers" not in self._at:
            return [b""] * batch.num_rows
        column = batch.column(self._at["headers"])
        raw = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        encode = _checked_block if raw else _block_of_map
        return [own_headers(encode(value)) if value else b"" for value in column.to_pylist()]

    def _lines(self, batch: pa.RecordBatch) -> list[bytes] | None:
        expected = self._values(batch, "expected_last_subject_seq")
        ttl = self._values(batch, "ttl")
        if expected is None and ttl is None and "schedule" not in self._at:
            return None
        lines = [b""] * batch.num_rows
        for row, value in enumerate(expected or ()):
            if value is not None:
                if value < 0:
                    raise RowRefused(f"expected_last_subject_seq is {value}: expected 0 or more")
                lines[row] = b"Nats-Expected-Last-Subject-Sequence: %d\r\n" % value
        for row, value in enumerate(ttl or ()):
            if value is not None:
                lines[row] += b"Nats-TTL: %s\r\n" % _ttl_text(value, "ttl").encode()
        if "schedule" in self._at:
            for row, line in enumerate(self._schedules(batch)):
                lines[row] += line
        return lines

    def _schedules(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the header lines of scheduled rows; empty for the others."""
        column = batch.column(self._at["schedule"])
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
            patterns = [
                None if one is None else f"@at {format_rfc3339(one * 1000)}" for one in micros
            ]
        else:
            patterns = column.to_pylist()
        targets = self._values(batch, "schedule_target") or []
        lifetimes = self._values(batch, "schedule_ttl") or [None] * batch.num_rows
        return [
            b"" if pattern is None else _schedule_line(pattern, target, lifetime)
            for pattern, target, lifetime in zip(patterns, targets, lifetimes, strict=True)
        ]

    def _values(self, batch: pa.RecordBatch, name: str) -> list[Any] | None:
        if name not in self._at:
            return None
        values: list[Any] = batch.column(self._at[name]).to_pylist()
        return values


def _ttl_text(value: float | str, name: str) -> str:
    if isinstance(value, str):
        if value == "never":
            return value
        try:
            duration = parse_duration(value)
        except ValueError:
            raise RowRefused(
                f"{name} is {value!r}: expected a duration like 30s, or never"
            ) from None
        if duration < 1_000_000_000:
            raise RowRefused(f"{name} is {value!r}: expected at least 1 second")
        return value
    # Not true of NaN either.
    if not 1 <= value <= _TTL_MAX_S:
        raise RowRefused(
            f"{name} is {value}: expected at least 1 second, and at most {_TTL_MAX_S}"
        )
    return f"{value}s"


def _may_be_schedule(pattern: str) -> bool:
    """Whether a text has the form of a schedule: the error of a server does not show it."""
    word, _, rest = pattern.partition(" ")
    if not pattern.isprintable() or not word:
        return False
    if word != "@every":
        return word.startswith("@") or len(pattern.split()) == _CRON_FIELDS
    try:
        return parse_duration(rest) >= _SECOND
    except ValueError:
        return False


def _schedule_line(pattern: str, target: str | None, lifetime: float | str | None) -> bytes:
    """Return the header lines of a scheduled row; the server checks times and cron fields."""
    if not _may_be_schedule(pattern):
        raise RowRefused(
            f"schedule is {shortened(pattern)}: expected a time, '@at 2026-12-24T18:00:00Z', "
            "'@every 5m' (1 s or more), '@daily' or a cron expression of 6 fields"
        )
    if target is None or not is_valid_literal(target.encode()):
        raise RowRefused(
            f"schedule_target is {shortened(target) if target else 'NULL or empty'} in a row with "
            "a schedule: expected the subject of what it publishes, without wildcards"
        )
    line = b"Nats-Schedule: %s\r\nNats-Schedule-Target: %s\r\n" % (
        pattern.encode(),
        target.encode(),
    )
    if lifetime is None:
        return line
    return b"%sNats-Schedule-TTL: %s\r\n" % (line, _ttl_text(lifetime, "schedule_ttl").encode())


def _checked_block(block: bytes) -> bytes:
    if not block.startswith(b"NATS/1.0\r\n") or not block.endswith(b"\r\n\r\n"):
        raise RowRefused(
            f"column 'headers' contains {block[:40]!r}: raw headers are a block from NATS/1.0 to "
            "an empty line; jetspark.spark.encode_headers creates one from a map"
        )
    return block


def _block_of_map(pairs: Iterable[tuple[str, Any]]) -> bytes:
    flat: list[tuple[str, str]] = []
    for name, value in pairs:
        several: list[str | None] = value if isinstance(value, list) else [value]
        flat.extend((name, one) for one in several if one is not None)
    try:
        return encode_headers(flat)
    except ValueError as error:
        raise RowRefused(f"column 'headers': {error}") from None


def own_headers(block: bytes) -> bytes:
    """Return the headers without those of an earlier publish."""
    if not block or not has_nats_headers(block):
        return block
    block = remove_header(block, b"Nats-Msg-Id")
    for prefix in _OF_ANOTHER_PUBLISH:
        block = remove_headers_starting(block, prefix)
    return block
