"""`jetspark stream export`: writes messages of a stream to files, with bulk scans."""

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from jetspark import sync
from jetspark.api.base import Timestamp, encode
from jetspark.cli.standard_output import standard_output
from jetspark.cli.stream.files import (
    MANIFEST,
    ExportRefused,
    Manifest,
    Writer,
    part_path,
    parts_of,
    read_manifest,
    whole_file,
    write_manifest,
    writer_of,
)
from jetspark.cli.stream.rows import ExportRows
from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.client.models.base import to_wire
from jetspark.errors import Error, MessageNotFound, StreamNotFound
from jetspark.sync.retry import Retries
from jetspark.units import format_rfc3339

# A scan that loses its server continues where it was: attempts without a message in between.
RETRIES_MAX: Final = 5
_MERGED_ROWS: Final = 1_000
_NAMES_SHOWN: Final = 20

Progress = Callable[[int], None]


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the command."""

    stream: str
    target: Path
    format: str
    subjects: tuple[str, ...] = ()
    first: int | None = None
    last: int | None = None
    since_ns: int | None = None
    batch: int = 5000
    rows_per_file: int = 1_000_000
    force: bool = False
    resume: bool = False


class ExportSummary(msgspec.Struct, kw_only=True):
    """The result, as printed by `--json`."""

    stream: str
    first: int
    last: int
    messages: int = 0
    bytes: int = 0
    files: list[str] = []
    seconds: float = 0.0


def _found(jetstream: sync.JetStream, name: str) -> sync.Stream:
    """The stream, or an error that lists the existing ones."""
    try:
        return jetstream.stream(name)
    except StreamNotFound:
        there = sorted(jetstream.stream_names())
    shown = ", ".join(there[:_NAMES_SHOWN]) + (", ..." if len(there) > _NAMES_SHOWN else "")
    raise ExportRefused(
        f"stream {name} does not exist on this server; existing streams: "
        + (shown if there else "none")
    )


class Export:
    """One run of the command."""

    def __init__(self, jetstream: sync.JetStream, request: ExportRequest) -> None:
        self._request = request
        self._stream = _found(jetstream, request.stream)
        self._info = self._stream.info()
        self.first: int
        self.last: int
        self.first, self.last = self._range()
        self._summary = ExportSummary(stream=request.stream, first=self.first, last=self.last)

    def run(self, progress: Progress) -> ExportSummary:
        """Write everything; ``progress`` is called with the sequences done."""
        begun = time.monotonic()
        target = self._request.target
        if str(target) == "-":
            with standard_output() as out:
                writer = writer_of("ndjson", out, self._metadata())
                # Without a message nothing is written: a pipe gets rows, or none.
                self._write(writer, self.first, progress)
        elif is_folder(target):
            self._run_folder(target, progress)
        else:
            self._run_file(target, progress)
        self._summary.seconds = round(time.monotonic() - begun, 3)
        return self._summary

    def _run_file(self, target: Path, progress: Progress) -> None:
        if self._request.resume:
            raise ExportRefused(
                "--resume is for folders of parts; a file is written from the start"
            )
        if not target.parent.is_dir():
            raise ExportRefused(f"folder {target.parent} does not exist: create it first")
        with whole_file(target, replace=self._request.force) as file:
            writer = writer_of(self._request.format, file, self._metadata())
            self._write(writer, self.first, progress)
            writer.finish()
        self._summary.files.append(str(target))

    def _run_folder(self, folder: Path, progress: Progress) -> None:
        manifest = self._begin_folder(folder)
        at = manifest.first
        done = parts_of(folder)
        if done:
            at = done[-1][1] + 1
            progress(done[-1][1])
        source = self._chunks(at)
        pending = next(source, None)
        while pending is not None:
            end, pending = self._write_part(folder, at, pending, source, progress)
            at = end + 1
        complete = msgspec.structs.replace(manifest, last=self.last, complete=True)
        write_manifest(folder, complete)

    def _begin_folder(self, folder: Path) -> Manifest:
        request, info = self._request, self._info
        folder.mkdir(parents=True, exist_ok=True)
        manifest = Manifest(
            stream=request.stream,
            created=format_rfc3339(to_wire(info).created),
            format=request.format,
            subjects=list(request.subjects),
            first=self.first,
            last=self.last,
            complete=False,
            config=msgspec.Raw(encode(to_wire(info.config))),
        )
        found = read_manifest(folder)
        if found is None:
            if any(folder.iterdir()):
                raise ExportRefused(f"{folder} is not empty and no export: choose another folder")
        elif not request.resume:
            raise ExportRefused(
                f"{folder} contains an export of stream {found.stream}: continue it with --resume "
                "or choose another folder"
            )
        else:
            _check_same(folder, found, manifest)
            manifest = msgspec.structs.replace(manifest, first=found.first)
        write_manifest(folder, manifest)
        return manifest

    def _write_part(
        self,
        folder: Path,
        first: int,
        pending: ExportRows,
        source: Iterator[ExportRows],
        progress: Progress,
    ) -> tuple[int, ExportRows | None]:
        """Write one part; returns the last sequence it covers, and the rows after it."""
        rows: ExportRows | None = pending
        count, end = 0, first
        path = folder / f"part-{first:020d}"
        with whole_file(path, replace=True) as file:
            writer = writer_of(self._request.format, file, self._metadata())
            while rows is not None and count < self._request.rows_per_file:
                writer.write(rows)
                count += len(rows)
                end = rows.messages.sequences[-1]
                self._count(rows, progress)
                rows = next(source, None)
            writer.finish()
        if rows is None:
            end = self.last
        final = part_path(folder, first, end, self._request.format)
        path.replace(final)
        self._summary.files.append(str(final))
        return end, rows

    def _write(self, writer: Writer, first: int, progress: Progress) -> None:
        for rows in self._chunks(first):
            writer.write(rows)
            self._count(rows, progress)
        progress(self.last)

    def _count(self, rows: ExportRows, progress: Progress) -> None:
        self._summary.messages += len(rows)
        self._summary.bytes += sum(map(len, rows.messages.data))
        progress(rows.messages.sequences[-1])

    def _chunks(self, first: int) -> Iterator[ExportRows]:
        name = self._request.stream
        request = self._request
        for chunk in scan_in_order(
            self._stream, first, self.last, request.subjects, request.batch
        ):
            yield ExportRows([name] * len(chunk), chunk)

    def _range(self) -> tuple[int, int]:
        """Return the first and the last sequence to read; the first is higher if none."""
        request, state = self._request, self._info.state
        last = state.last_seq
        if request.last is not None:
            if request.last > last:
                raise ExportRefused(
                    f"--last {request.last}: stream {request.stream} ends at {last}; "
                    "leave out --last to export everything up to now"
                )
            last = request.last
        first = max(request.first or 1, state.first_seq, 1)
        if request.since_ns is not None:
            # nats-server does not compare times in the far future correctly.
            if request.since_ns > to_wire(state).last_ts:
                return last + 1, last
            try:
                since = Timestamp(request.since_ns)
                found = self._stream.get_msg(start_time=since, min_last_seq=last)
            except MessageNotFound:
                return last + 1, last
            first = max(first, found.seq)
        return first, last

    def _metadata(self) -> dict[str, str]:
        return {
            "jetspark.stream": self._request.stream,
            "jetspark.config": encode(to_wire(self._info.config)).decode(),
        }


def is_folder(target: Path) -> bool:
    """Whether a target is a folder of parts: an existing one, or a name without extension."""
    return target.is_dir() or (not target.exists() and not target.suffix)


def scan_in_order(
    stream: sync.Stream, first: int, last: int, subjects: Sequence[str], batch: int
) -> Iterator[MessageColumns]:
    """Yield the messages of a range by sequence, for any number of filters."""
    if len(subjects) <= 1:
        yield from _scan(stream, first, last, tuple(subjects), batch)
        return
    each = [_single(_scan(stream, first, last, (subject,), batch)) for subject in subjects]
    chunk = MessageColumns.empty()
    for row in heapq.merge(*each):
        chunk.append(*row)
        if len(chunk) == _MERGED_ROWS:
            yield chunk
            chunk = MessageColumns.empty()
    if len(chunk):
        yield chunk


def _single(chunks: Iterator[MessageColumns]) -> Iterator[tuple[int, int, str, bytes, bytes]]:
    for chunk in chunks:
        yield from zip(
            chunk.sequences,
            chunk.times,
            chunk.subjects,
            chunk.data,
            chunk.headers,
            strict=True,
        )


def _scan(
    stream: sync.Stream, first: int, last: int, filters: tuple[str, ...], batch: int
) -> Iterator[MessageColumns]:
    retries = Retries(RETRIES_MAX)
    while first <= last:
        try:
            for chunk in stream.scan(first, last, filters=filters, batch=batch):
                first = chunk.sequences[-1] + 1
                retries.restart()
                yield chunk
        except Error as error:
            retries.pause(error)
        else:
            return


def _check_same(folder: Path, found: Manifest, asked: Manifest) -> None:
    for name in ("stream", "created", "format", "subjects"):
        was, now = getattr(found, name), getattr(asked, name)
        if was != now:
            raise ExportRefused(
                f"--resume: {folder / MANIFEST} has {name} {_shown(was)}, but this export has "
                f"{_shown(now)}: choose another folder"
            )


def _shown(value: Any) -> str:
    return ", ".join(value) or "all" if isinstance(value, list) else str(value)
