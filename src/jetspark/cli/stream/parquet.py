"""Export files in Parquet: a row per message."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from jetspark.cli.stream.rows import (
    ExportRows,
    UnreadableRow,
    headers_of,
    named_headers,
    subject_of,
    subject_text,
)
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.errors.extras import extra

# A row group is kept in memory until it is full: few large ones compress and read best.
_GROUP_ROWS: Final = 100_000
_GROUP_BYTES: Final = 64 * 1024 * 1024
_READ_ROWS: Final = 5_000


def pyarrow() -> Any:
    """Import the package, or raise an error that names what to install."""
    with extra("spark", "Parquet needs (and --format ndjson does not)"):
        import pyarrow as pa
        import pyarrow.parquet

    return pa


class ParquetWriter:
    """Writes messages in row groups."""

    def __init__(self, file: BinaryIO, metadata: dict[str, str]) -> None:
        pa = self._pa = pyarrow()
        headers = pa.map_(pa.string(), pa.list_(pa.string()))
        self._schema = pa.schema(
            [
                pa.field("stream", pa.string(), nullable=False),
                pa.field("seq", pa.int64(), nullable=False),
                pa.field("time", pa.timestamp("ns", tz="UTC"), nullable=False),
                pa.field("subject", pa.string(), nullable=False),
                pa.field("headers", headers),
                pa.field("data", pa.binary(), nullable=False),
                pa.field("subject_bytes", pa.binary()),
                pa.field("headers_block", pa.binary()),
            ],
            metadata=metadata,
        )
        self._writer = pa.parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._held = ExportRows.empty()
        self._size = 0

    def __del__(self) -> None:
        # An export that was given up: pyarrow would write a footer to the closed file, and report
        # that it cannot.
        if hasattr(self, "_writer"):
            self._writer.is_open = False

    def write(self, rows: ExportRows) -> None:
        """Append messages."""
        self._held.extend(rows)
        self._size += sum(map(len, rows.messages.data)) + sum(map(len, rows.messages.headers))
        if len(self._held) >= _GROUP_ROWS or self._size >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write the last group and the footer."""
        if len(self._held):
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        rows, self._held, self._size = self._held, ExportRows.empty(), 0
        named = [named_headers(block) for block in rows.messages.headers]
        subjects = [subject_text(subject) for subject in rows.messages.subjects]
        blocks = [
            block if names is None else None
            for block, names in zip(rows.messages.headers, named, strict=True)
        ]
        columns = (
            rows.streams,
            rows.messages.sequences,
            rows.messages.times,
            [text for text, _ in subjects],
            [None if names is None else list(names.items()) for names in named],
            rows.messages.data,
            [exact for _, exact in subjects],
            blocks,
        )
        pa = self._pa
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(table, row_group_size=len(rows))


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of the file."""
    pa = pyarrow()
    try:
        found = pa.parquet.read_schema(path).metadata or {}
    except pa.ArrowInvalid as error:
        raise UnreadableRow(f"{path} is not a Parquet file: {error}") from None
    return {key.decode(): value.decode("utf-8", "replace") for key, value in found.items()}


def read_parquet(path: Path) -> Iterator[tuple[ExportRows, float]]:
    """Yield the messages of a file and the fraction that was read.

    It is a file of an export, or any with the columns ``subject`` and ``data``.
    """
    pa = pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            names = set(file.schema_arrow.names)
            missing = [name for name in ("subject", "data") if name not in names]
            if missing:
                raise UnreadableRow(f"{path} has no column {' and no column '.join(missing)}")
            total, read = file.metadata.num_rows, 0
            for batch in file.iter_batches(batch_size=_READ_ROWS):
                read += batch.num_rows
                yield _rows(pa, batch), read / total
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise UnreadableRow(f"{path}: {error}") from None
    except UnreadableRow as error:
        text = str(error)
        raise UnreadableRow(text if str(path) in text else f"{path}: {text}") from None


def _rows(pa: Any, batch: Any) -> ExportRows:
    count = batch.num_rows

    def column(name: str, kind: Any, default: Any) -> list[Any]:
        if name not in batch.schema.names:
            return [default] * count
        found = batch.column(name)
        values: list[Any] = (found if kind is None else found.cast(kind)).to_pylist()
        return values

    binary = pa.binary()
    # Spark writes a message's time as `timestamp`, in microseconds.
    time = "time" if "time" in batch.schema.names else "timestamp"
    times: list[int] = [0] * count
    if time in batch.schema.names:
        stamps = batch.column(time).cast(pa.timestamp("ns", tz="UTC")).cast(pa.int64())
        times = [stamp or 0 for stamp in stamps.to_pylist()]
    exact = column("subject_bytes", binary, None)
    blocks = column("headers_block", binary, None)
    named, raw = _headers(pa, batch, count)
    messages = MessageColumns(
        [seq or 0 for seq in column("seq", pa.int64(), 0)],
        times,
        [
            subject_of(text, own)
            for text, own in zip(column("subject", pa.string(), ""), exact, strict=True)
        ],
        [data or b"" for data in column("data", binary, b"")],
        [
            headers_of(names, own if own is not None else block or None)
            for names, own, block in zip(named, blocks, raw, strict=True)
        ],
    )
    return ExportRows([name or "" for name in column("stream", pa.string(), "")], messages)


def _headers(pa: Any, batch: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Return headers by name, or raw blocks if the column is binary."""
    nothing: list[Any] = [None] * count
    if "headers" not in batch.schema.names:
        return nothing, nothing
    found = batch.column("headers")
    if pa.types.is_binary(found.type):
        return nothing, found.to_pylist()
    if not pa.types.is_map(found.type):
        raise UnreadableRow(f"column headers is {found.type}: expected a map or binary")
    pairs = found.to_pylist()
    return [None if each is None else dict(each) for each in pairs], nothing
