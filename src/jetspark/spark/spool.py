"""Rows that a task keeps in a file, so that its memory does not grow with them."""

from collections.abc import Iterator
from typing import IO

import pyarrow as pa


class Spool:
    """Rows in a temporary file: written once, then read once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._writer: pa.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield everything that was appended, in order."""
        if self._writer is None:
            return
        self._writer.close()
        self._file.seek(0)
        with pa.ipc.open_stream(self._file) as reader:
            yield from reader
