"""`jetspark stream`: streams of any server, from the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from jetspark.cli.connection import ConnectionSettings, connection_options
from jetspark.cli.stream.exporting import Export, ExportRequest, ExportSummary, is_folder
from jetspark.cli.stream.files import FORMATS, ExportRefused
from jetspark.cli.stream.importing import Import, ImportRequest
from jetspark.cli.stream.parquet import pyarrow
from jetspark.cli.stream.rows import UnreadableRow
from jetspark.clock import SystemClock
from jetspark.units import format_bytes, parse_duration, parse_rfc3339

_ENDINGS = {".parquet": "parquet", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson"}
_json = click.option("--json", "wants_json", is_flag=True, help="Print a summary as JSON.")
_sequence = click.IntRange(min=1, max=2**63 - 1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def stream() -> None:
    """Export and import streams of any server, jetspark or nats-server.

    \b
    Examples:
      jetspark stream export ORDERS orders.parquet
      jetspark stream import ORDERS orders.parquet --server nats://elsewhere:4222
    """


@stream.command(name="export")
@click.argument("name", metavar="STREAM")
@click.argument("target", metavar="FILE|DIR|-", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    help="Default: by the extension of FILE; DIR is parquet, - is ndjson.",
)
@click.option("--subject", "subjects", multiple=True, help="Subject filter; may be repeated.")
@click.option("--first", type=_sequence, help="First sequence.")
@click.option("--last", type=_sequence, help="Last sequence. Default: the current one.")
@click.option("--since", help="Time (2026-11-15T12:00:00Z) or age (2h30m) of the first message.")
@click.option(
    "--batch",
    default=5000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Messages per request.",
)
@click.option(
    "--rows-per-file",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="DIR: messages per part, rounded up to a batch.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@click.option("--resume", is_flag=True, help="Continue the export in DIR.")
@_json
@connection_options
def export_command(
    *, name: str, target: Path, kind: str | None, subjects: tuple[str, ...], first: int | None,
    last: int | None, since: str | None, batch: int, rows_per_file: int, force: bool, resume: bool,
    wants_json: bool, connection: ConnectionSettings,
) -> None:  # fmt: skip
    """Write the messages of a stream to a file, a folder of parts, or standard output.

    Nothing is created on the server and nothing is acknowledged. A file gets its name when it is
    complete: an interrupted export leaves none. A folder holds parts; --resume continues after the
    last one, even later with messages stored since. Columns: stream, seq, time, subject, headers,
    data (in ndjson as base64).

    \b
    Examples:
      jetspark stream export ORDERS orders.parquet
      jetspark stream export ORDERS backup/ --resume
      jetspark stream export ORDERS - --subject 'orders.eu.*' --since 2h | jq .subject
    """
    request = ExportRequest(
        stream=name, target=target, format=_format(target, kind), subjects=subjects, first=first,
        last=last, since_ns=_since(since), batch=batch, rows_per_file=rows_per_file, force=force,
        resume=resume,
    )  # fmt: skip
    with _plain_errors(target), connection.jetstream() as jetstream:
        export = Export(jetstream, request)
        total = max(export.last - export.first + 1, 0)
        with _bar(f"exporting {name}", total, quiet=wants_json) as (progress, task):
            begin = export.first - 1
            summary = export.run(lambda at: progress.update(task, completed=at - begin))
    if wants_json:
        click.echo(msgspec.json.encode(summary), err=str(target) == "-")
    else:
        _tell(summary)


@stream.command(name="import")
@click.argument("name", metavar="STREAM")
@click.argument(
    "sources", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--create", is_flag=True, help="Create the stream with the exported configuration.")
@click.option("--incomplete", is_flag=True, help="Accept a folder whose export was interrupted.")
@_json
@connection_options
def import_command(
    *, name: str, sources: tuple[Path, ...], create: bool, incomplete: bool, wants_json: bool,
    connection: ConnectionSettings,
) -> None:  # fmt: skip
    """Store the messages of export files in a stream.

    Accepts files of `jetspark stream export` and `jetspark doctor export`, and Parquet files with
    the columns subject and data. Sequences and times are new; subjects, headers and payloads are
    unchanged. Each message has an id, so that repeating an import stores nothing twice: if one
    was interrupted, just run it again.

    \b
    Examples:
      jetspark stream import ORDERS orders.parquet
      jetspark stream import COPY backup/ --create --server nats://elsewhere:4222
    """
    request = ImportRequest(
        stream=name, sources=sources, create=create, incomplete=incomplete,
        timeout=connection.timeout,
    )  # fmt: skip
    with _plain_errors(sources[0]), connection.jetstream() as jetstream:
        job = Import(jetstream, request)
        total = sum(path.stat().st_size for path in job.files)
        with _bar(f"importing {name}", total, quiet=wants_json, sizes=True) as (progress, task):
            summary = job.run(lambda at: progress.update(task, completed=at))
    if wants_json:
        click.echo(msgspec.json.encode(summary))
        return
    Console(stderr=True).print(
        f"{summary.messages:,} messages stored in {name} ({format_bytes(summary.bytes)}), "
        f"{summary.already_there:,} already existed",
        highlight=False,
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


@contextmanager
def _bar(
    text: str, total: int, *, quiet: bool, sizes: bool = False
) -> Iterator[tuple[Progress, TaskID]]:
    console = Console(stderr=True)
    done = DownloadColumn() if sizes else MofNCompleteColumn()
    with Progress(
        TextColumn(text), BarColumn(), TaskProgressColumn(), done,
        TimeRemainingColumn(), console=console, transient=True,
        disable=quiet or not console.is_terminal,
    ) as progress:  # fmt: skip
        yield progress, progress.add_task(text, total=total)


def _tell(summary: ExportSummary) -> None:
    where = f" in {len(summary.files)} files" if len(summary.files) > 1 else ""
    Console(stderr=True).print(
        f"{summary.messages:,} messages of {summary.stream} written{where} "
        f"({format_bytes(summary.bytes)}, up to sequence {summary.last:,})",
        highlight=False,
    )
