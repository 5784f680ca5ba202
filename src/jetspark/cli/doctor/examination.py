"""Check, repair and export a store that no server uses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from jetspark.cli.doctor.export import find_consumer, find_stream, write_messages
from jetspark.cli.doctor.report import as_json, clocks_as_json, show, show_clocks
from jetspark.clock import SystemClock
from jetspark.engine.replicate.adoption import adoption_problems
from jetspark.errors.storage import StorageFault, StoreLocked
from jetspark.store.files import OsFiles
from jetspark.store.inspection import StoreInspection, StreamFinding
from jetspark.store.overlay import OverlayFiles

HEALTHY: Final = 0
DAMAGED: Final = 1
UNREADABLE: Final = 2


def check_store(folder: Path, *, wants_json: bool) -> None:
    """Read every record, print damage, and exit with the matching code."""
    with _inspection(folder, repair=False) as inspection:
        findings = _examine(inspection, quiet=wants_json)
        _try_to_serve(inspection, findings)
        foreign = inspection.foreign
    _tell(folder, findings, foreign, wants_json=wants_json, repair=False)
    if any(found.error for found in findings):
        sys.exit(UNREADABLE)
    healthy = not foreign and all(found.healthy for found in findings)
    sys.exit(HEALTHY if healthy else DAMAGED)


def repair_store(folder: Path, *, wants_json: bool) -> None:
    """Quarantine damaged bytes, rebuild what can be rebuilt, and exit."""
    with _inspection(folder, repair=True) as inspection:
        findings = _examine(inspection, quiet=wants_json)
        foreign = inspection.foreign
    _tell(folder, findings, foreign, wants_json=wants_json, repair=True)
    if any(found.error for found in findings):
        sys.exit(UNREADABLE)
    left = foreign or any(found.new_damage or found.second_to for found in findings)
    sys.exit(DAMAGED if left else HEALTHY)


def check_clock(folder: Path, *, repair: bool, wants_json: bool) -> None:
    """Print the streams whose times are ahead of the clock, or correct them, and exit."""
    now = SystemClock().now_ns()
    with _inspection(folder, repair=repair) as inspection:
        inspection.open()
        findings = inspection.clocks(now)
    if wants_json:
        click.echo(clocks_as_json(folder, findings, repair=repair))
    else:
        show_clocks(Console(), folder, findings, repair=repair)
    if any(found.error for found in findings):
        sys.exit(UNREADABLE)
    sys.exit(DAMAGED if not repair and any(found.ahead for found in findings) else HEALTHY)


def export_stream(folder: Path, name: str, account: str, stream_folder: str, out: Path) -> None:
    """Write the messages of one stream as lines of JSON, and exit."""
    with _inspection(folder, repair=False) as inspection:
        inspection.open()
        log = find_stream(inspection.logs, name, account, stream_folder)
        written, unreadable = write_messages(log, out)
    Console(stderr=True).print(
        f"{written:,} messages of {name} written, {unreadable:,} could not be read",
        highlight=False,
    )
    sys.exit(DAMAGED if unreadable else HEALTHY)


def drop_from_stream(
    folder: Path, name: str, account: str, consumer: str, number: int | None
) -> None:
    """Delete a consumer that cannot be served, by name or number."""
    with _inspection(folder, repair=True) as inspection:
        inspection.open()
        log = find_stream(inspection.logs, name, account)
        found = find_consumer(log, consumer, number)
        kept = inspection.drop_consumer(log, found)
    click.echo(f"Consumer {consumer or number} of {name} was deleted; its records are in {kept}")


@contextmanager
def _inspection(folder: Path, *, repair: bool) -> Iterator[StoreInspection]:
    """An inspection of a folder; an error that prevents reading ends the command."""
    try:
        if not folder.is_dir():
            problem = "is a file; expected a folder" if folder.exists() else "does not exist"
            raise NotADirectoryError(f"{folder} {problem}")
        files = OsFiles() if repair else OverlayFiles(OsFiles(read_only=True))
        inspection = StoreInspection(
            files, folder.absolute(), repair=repair, now=SystemClock().now_ns()
        )
        try:
            yield inspection
        finally:
            inspection.close()
    except PermissionError as error:
        _refuse(f"{error.filename}: no permission; run this as the user that owns the store")
    except StoreLocked:
        _refuse(f"{folder} is in use by a jetspark server: stop it first")
    except (StorageFault, OSError) as error:
        _refuse(str(error))


def _refuse(problem: str) -> None:
    click.echo(f"Error: {problem}", err=True)
    sys.exit(UNREADABLE)


def _examine(inspection: StoreInspection, *, quiet: bool) -> list[StreamFinding]:
    console = Console(stderr=True)
    total = inspection.open()
    with Progress(
        TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=quiet or not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("reading", total=total)
        return list(inspection.examine(lambda count: progress.advance(task, count)))


def _try_to_serve(inspection: StoreInspection, findings: list[StreamFinding]) -> None:
    """Add errors that prevent serving although the records can be read."""
    by_folder = {found.folder: found for found in findings}
    now = SystemClock().now_ns()
    for log in inspection.logs:
        found = by_folder[str(log.segments.folder)]
        problems = adoption_problems(inspection.store, log, now)
        if problems and not found.error:
            text = "; ".join(problems)
            if any(problem.startswith("consumer ") for problem in problems):
                text += "; see `jetspark doctor drop-consumer --help` to delete it"
            found.failed(text)


def _tell(
    folder: Path,
    findings: list[StreamFinding],
    foreign: list[Path],
    *,
    wants_json: bool,
    repair: bool,
) -> None:
    if wants_json:
        click.echo(as_json(folder, findings, foreign, repair=repair))
    else:
        show(Console(), folder, findings, foreign, repair=repair)
