"""Export files with one line of JSON per message, like those of `jetspark doctor export`."""

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from jetspark.cli.stream.rows import (
    ExportRows,
    UnreadableRow,
    headers_of,
    named_headers,
    subject_of,
    subject_text,
)
from jetspark.units import format_rfc3339, parse_rfc3339

CONFIG: Final = "stream_config"
_ROWS_MAX: Final = 5_000
_BYTES_MAX: Final = 8 * 1024 * 1024
_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder(dict[str, Any]).decode


class NdjsonWriter:
    """Writes messages as lines; the first one also has the configuration of the stream.

    So that readers of rows find no row that is no message, unless the stream is empty.
    """

    def __init__(self, file: BinaryIO, config: str = "") -> None:
        self._file = file
        self._config = config

    def write(self, rows: ExportRows) -> None:
        """Append messages."""
        lines = []
        for row in range(len(rows)):
            text, exact = subject_text(rows.messages.subjects[row])
            line: dict[str, Any] = {
                "stream": rows.streams[row],
                "seq": rows.messages.sequences[row],
                "time": format_rfc3339(rows.messages.times[row]),
                "subject": text,
            }
            if exact is not None:
                line["subject_bytes"] = base64.b64encode(exact).decode()
            block = rows.messages.headers[row]
            if block:
                named = named_headers(block)
                if named is None:
                    line["headers_block"] = base64.b64encode(block).decode()
                else:
                    line["headers"] = named
            line["data"] = base64.b64encode(rows.messages.data[row]).decode()
            line |= self._first_fields()
            lines.append(_ENCODE(line))
        if lines:
            lines.append(b"")
            self._file.write(b"\n".join(lines))

    def finish(self) -> None:
        """Write the configuration if no message was written; nothing is buffered."""
        first = self._first_fields()
        if first:
            self._file.write(_ENCODE(first) + b"\n")

    def _first_fields(self) -> dict[str, Any]:
        """What only the first line has."""
        if not self._config:
            return {}
        config, self._config = self._config, ""
        return {CONFIG: msgspec.Raw(config.encode())}


def read_config_line(path: Path) -> bytes | None:
    """The configuration of the stream in the first line of a file, if it has one."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        found = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return None
    config = found.get(CONFIG)
    return None if config is None else bytes(config)


def read_ndjson(path: Path) -> Iterator[tuple[ExportRows, float]]:
    """Yield the messages of a file and the fraction that was read.

    ``UnreadableRow`` names a line that is no message.

    Lines with which `jetspark doctor export` lists unreadable records are skipped.
    """
    rows, size, total, read = ExportRows.empty(), 0, path.stat().st_size, 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            read += len(line)
            if not line.strip():
                continue
            try:
                size += _add(rows, line)
            except (msgspec.MsgspecError, ValueError, binascii.Error, RecursionError) as error:
                raise UnreadableRow(f"{path}, line {number}: {error}") from None
            if len(rows) >= _ROWS_MAX or size >= _BYTES_MAX:
                yield rows, read / total
                rows, size = ExportRows.empty(), 0
    if len(rows):
        yield rows, 1.0


def _add(rows: ExportRows, line: bytes) -> int:
    """Parse a line and append it; returns the size of its message."""
    found = _DECODE(line)
    if "unreadable" in found or (CONFIG in found and "subject" not in found):
        return 0
    subject = subject_of(found.get("subject"), _bytes(found, "subject_bytes"))
    block = headers_of(found.get("headers"), _bytes(found, "headers_block"))
    payload = _bytes(found, "data")
    seq = found.get("seq", 0)
    if not isinstance(seq, int) or isinstance(seq, bool) or seq < 0:
        raise UnreadableRow(f"seq is {seq!r}: expected an integer")
    time = found.get("time", "")
    if not isinstance(time, str):
        raise UnreadableRow(f"time is {time!r}: expected RFC 3339 text")
    time_ns = parse_rfc3339(time) if time else 0
    rows.append(str(found.get("stream", "")), seq, time_ns, subject, payload or b"", block)
    return len(payload or b"") + len(block)


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    text = found.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise UnreadableRow(f"{name} is not base64 text")
    return base64.b64decode(text, validate=True)
