"""`jetspark doctor`: check, repair and export a store that no server uses."""

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


class DoctorGroup(click.Group):
    """A group whose first argument may be a folder: then it is checked."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``check`` if the first argument is no command."""
        words = [word for word in args if not word.startswith("-")]
        asks_help = {"-h", "--help"} & set(args[:1])
        if args and not asks_help and (not words or words[0] not in self.commands):
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DoctorGroup, context_settings={"help_option_names": ["-h", "--help"]})
def doctor() -> None:
    """Check, repair and export a store that no server uses.

    DIR is the store directory of `jetspark serve -js -sd DIR`. Stop the server first: a store that
    is in use is refused. `check` reads every record of every stream and changes nothing; `repair`
    quarantines damaged bytes and rebuilds what can be rebuilt; `export` writes the messages
    of one stream as lines of JSON, and lists what could not be read; `drop-consumer` deletes a
    consumer that cannot be served; `clock` lists streams with times ahead of the
    clock of this machine, and corrects them.

    \b
    Examples:
      jetspark doctor ./jetspark-data
      jetspark doctor check ./jetspark-data --json
      jetspark doctor repair ./jetspark-data
      jetspark doctor export ./jetspark-data --stream ORDERS --out orders.ndjson

    \b
    Exit codes:
      0  nothing new: healthy, or only damage that was quarantined before, which is shown with
         the lost messages
      1  needs attention: damage, a second folder of a stream, files that do not belong to a
         store, or times that are far ahead of the clock
      2  something cannot be read at all: the folder, the lock, a stream
    """


# Whether it is readable is determined by reading it, and reported with what to do.
_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, readable=False))
_account = click.option(
    "--account", default="", help="Account of the stream, if several have one of this name."
)
_json = click.option("--json", "wants_json", is_flag=True, help="Print JSON.")


@doctor.command()
@_folder
@_json
def check(folder: Path, *, wants_json: bool) -> None:
    """Read every record and report damage; nothing is changed.

    \b
    Example:
      jetspark doctor check ./jetspark-data
    """
    with _inspection(folder, mend=False) as inspection:
        findings = _examine(inspection, quiet=wants_json)
        _try_to_serve(inspection, findings)
        foreign = inspection.foreign
    _tell(folder, findings, foreign, wants_json=wants_json, mend=False)
    if any(found.error for found in findings):
        sys.exit(UNREADABLE)
    healthy = not foreign and all(found.healthy for found in findings)
    sys.exit(HEALTHY if healthy else DAMAGED)


@doctor.command()
@_folder
@_json
def repair(folder: Path, *, wants_json: bool) -> None:
    """Quarantine damaged bytes and rebuild what can be rebuilt.

    Manifests and index files are written again. Damaged bytes are kept in the folder
    `quarantine` of their stream, with a line of JSON that says where they were. No valid
    record is ever dropped. A second `check` finds nothing new, and shows what was lost.

    \b
    Example:
      jetspark doctor repair ./jetspark-data
    """
    with _inspection(folder, mend=True) as inspection:
        findings = _examine(inspection, quiet=wants_json)
        foreign = inspection.foreign
    _tell(folder, findings, foreign, wants_json=wants_json, mend=True)
    if any(found.error for found in findings):
        sys.exit(UNREADABLE)
    left = foreign or any(found.new_damage or found.second_to for found in findings)
    sys.exit(DAMAGED if left else HEALTHY)


@doctor.command()
@_folder
@click.option("--mend", is_flag=True, help="Correct the times that are ahead.")
@_json
def clock(folder: Path, *, mend: bool, wants_json: bool) -> None:
    """List streams with times ahead of the clock of this machine, and correct them.

    The times of a stream never decrease: a stream that was written while the clock was wrong,
    or restored from such a backup, stays ahead. Ages and TTLs still measure elapsed time; only
    the dates that clients see are wrong. Set the clock of the machine first. With --mend the
    newest message gets the current time, and others that were ahead keep their distance to it.

    \b
    Examples:
      jetspark doctor clock ./jetspark-data
      jetspark doctor clock ./jetspark-data --mend
    """
    now = SystemClock().now_ns()
    with _inspection(folder, mend=mend) as inspection:
        inspection.open()
        findings = inspection.clocks(now)
    if wants_json:
        click.echo(clocks_as_json(folder, findings, mend=mend))
    else:
        show_clocks(Console(), folder, findings, mend=mend)
    if any(found.error for found in findings):
        sys.exit(UNREADABLE)
    sys.exit(DAMAGED if not mend and any(found.ahead for found in findings) else HEALTHY)


@doctor.command(short_help="Write the messages of one stream as lines of JSON.")
@_folder
@click.option("--stream", "name", required=True, help="Stream to export.")
@_account
@click.option(
    "--folder",
    "stream_folder",
    default="",
    metavar="NAME",
    help="Folder of the stream, if several have it, such as stream-0123456789abcdef.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File to write, which must not exist; - is standard output.",
)  # fmt: skip
def export(folder: Path, *, name: str, account: str, stream_folder: str, out: Path) -> None:
    """Write the messages of one stream as lines of JSON; nothing in the store is changed.

    A line has seq, time, subject, headers and data (base64). What could not be read is listed
    after the messages, in lines with the key "unreadable".

    \b
    Examples:
      jetspark doctor export ./jetspark-data --stream ORDERS --out orders.ndjson
      jetspark doctor export ./jetspark-data --stream KV_cfg --out - | jq .subject
    """
    with _inspection(folder, mend=False) as inspection:
        inspection.open()
        log = find_stream(inspection.logs, name, account, stream_folder)
        written, unreadable = write_messages(log, out)
    Console(stderr=True).print(
        f"{written:,} messages of {name} written, {unreadable:,} could not be read",
        highlight=False,
    )
    sys.exit(DAMAGED if unreadable else HEALTHY)


@doctor.command("drop-consumer", short_help="Delete a consumer that cannot be served.")
@_folder
@click.option("--stream", "name", required=True, help="Stream of the consumer.")
@_account
@click.option("--consumer", default="", help="Name of the consumer to delete.")
@click.option("--number", type=int, help="Its number, if the name cannot be read.")
def drop_consumer(
    folder: Path, *, name: str, account: str, consumer: str, number: int | None
) -> None:
    """Delete a consumer that a server cannot serve; its records are quarantined.

    `check` and the log of the server name these consumers. The stream forgets the
    consumer as if a client had deleted it, and /healthz is ok again. Its state is first
    written to the folder `quarantine` of the stream, as JSON. A stream that keeps messages
    as long as consumers need them may remove messages that this one had not received: create
    its replacement before, under another name.

    \b
    Examples:
      jetspark doctor drop-consumer ./jetspark-data --stream ORDERS --consumer billing
      jetspark doctor drop-consumer ./jetspark-data --stream ORDERS --number 3
    """
    if bool(consumer) == (number is not None):
        raise click.UsageError("give either --consumer NAME or --number N")
    with _inspection(folder, mend=True) as inspection:
        inspection.open()
        log = find_stream(inspection.logs, name, account)
        found = find_consumer(log, consumer, number)
        kept = inspection.drop_consumer(log, found)
    click.echo(f"Consumer {consumer or number} of {name} was deleted; its records are in {kept}")


@contextmanager
def _inspection(folder: Path, *, mend: bool) -> Iterator[StoreInspection]:
    """An inspection of a folder; an error that prevents reading ends the command."""
    try:
        if not folder.is_dir():
            problem = "is a file; expected a folder" if folder.exists() else "does not exist"
            raise NotADirectoryError(f"{folder} {problem}")
        files = OsFiles() if mend else OverlayFiles(OsFiles(read_only=True))
        inspection = StoreInspection(
            files, folder.absolute(), mend=mend, now=SystemClock().now_ns()
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
            found.error = "; ".join(problems)
            if any(problem.startswith("consumer ") for problem in problems):
                found.error += "; see `jetspark doctor drop-consumer --help` to delete it"


def _tell(
    folder: Path,
    findings: list[StreamFinding],
    foreign: list[Path],
    *,
    wants_json: bool,
    mend: bool,
) -> None:
    if wants_json:
        click.echo(as_json(folder, findings, foreign, mend=mend))
    else:
        show(Console(), folder, findings, foreign, mend=mend)
