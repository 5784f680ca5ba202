"""Exports and imports of the command line, with a progress bar and one line of result."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from jetspark.cli.connection import ConnectionSettings
from jetspark.cli.progress import progress_bar
from jetspark.cli.stream.exporting import Export, ExportRequest, ExportSummary, is_folder
from jetspark.cli.stream.files import ExportRefused
from jetspark.cli.stream.importing import Import, ImportRequest
from jetspark.cli.stream.parquet import pyarrow
from jetspark.cli.stream.rows import UnreadableRow
from jetspark.clock import SystemClock
from jetspark.units import format_bytes, parse_duration, parse_rfc3339

_ENDINGS = {".parquet": "parquet", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson"}


def export_stream(
    connection: ConnectionSettings, name: str, target: Path, kind: str | None, *,
    subjects: tuple[str, ...], first: int | None, last: int | None, since: str | None, batch: int,
    rows_per_file: int, force: bool, resume: bool, wants_json: bool,
) -> None:  # fmt: skip
    """Write the messages of a stream according to the options, and print the result."""
    request = ExportRequest(
        stream=name, target=target, format=_format(target, kind), subjects=subjects, first=first,
        last=last, since_ns=_since(since), batch=batch, rows_per_file=rows_per_file, force=force,
        resume=resume,
    )  # fmt: skip
    with _plain_errors(target), connection.jetstream() as jetstream:
        export = Export(jetstream, request)
        total = max(export.last - export.first + 1, 0)
        with progress_bar(f"exporting {name}", total, quiet=wants_json) as progress:
            begin = export.first - 1
            summary = export.run(lambda at: progress(at - begin))
    if wants_json:
        click.echo(msgspec.json.encode(summary), err=str(target) == "-")
    else:
        _tell(summary)


def import_files(
    connection: ConnectionSettings, name: str, sources: tuple[Path, ...], *, create: bool,
    incomplete: bool, wants_json: bool,
) -> None:  # fmt: skip
    """Store the messages of export files in a stream, and print the result."""
    request = ImportRequest(
        stream=name, sources=sources, create=create, incomplete=incomplete,
        timeout=connection.timeout,
    )  # fmt: skip
    with _plain_errors(sources[0]), connection.jetstream() as jetstream:
        job = Import(jetstream, request)
        total = sum(path.stat().st_size for path in job.files)
        text = f"importing {name}"
        with progress_bar(text, total, quiet=wants_json, sizes=True) as progress:
            summary = job.run(progress)
    if wants_json:
        click.echo(msgspec.json.encode(summary))
        return
    click.echo(
        f"{summary.messages:,} messages stored in {name} ({format_bytes(summary.bytes)}), "
        f"{summary.already_there:,} already existed",
        err=True,
    )


def _format(target: Path, kind: str | None) -> str:
    if str(target) == "-":
        if kind == "parquet":
            raise click.UsageError(
                "--format parquet cannot be written to standard output: name a file"
            )
        return "ndjson"
    if kind is None and not is_folder(target):
        kind = _ENDINGS.get(target.suffix)
        if kind is None:
            raise click.UsageError(
                f"{target}: unknown extension: expected one of {', '.join(_ENDINGS)}, or --format"
            )
    found = kind or "parquet"
    if found == "parquet":
        pyarrow()  # fails early if it is missing
    return found


def _since(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        pass
    try:
        return SystemClock().now_ns() - abs(parse_duration(text))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a time such as 2026-11-15T12:00:00Z nor an age such as 2h30m",
            param_hint="--since",
        ) from None


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turn errors that users can cause into one line."""
    try:
        yield
    except (ExportRefused, UnreadableRow) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        where = error.filename or path
        raise click.ClickException(
            f"{where}: {error.strerror or error}; files under their final name are complete, and "
            "nothing else was kept"
        ) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _tell(summary: ExportSummary) -> None:
    where = f" in {len(summary.files)} files" if len(summary.files) > 1 else ""
    click.echo(
        f"{summary.messages:,} messages of {summary.stream} written{where} "
        f"({format_bytes(summary.bytes)}, up to sequence {summary.last:,})",
        err=True,
    )
