"""`make demo`: the whole product in two minutes, on this machine."""

import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click
from rich.console import Console
from rich.table import Table

from demo.report import Steps, bars
from jetspark import sync
from jetspark.cli.main import version_text
from jetspark.errors import Error
from jetspark.errors.extras import check_extra

if TYPE_CHECKING:
    from demo.check import Account
    from demo.pipeline import Story

MARKER: Final = ".jetspark-demo"
CRASH_MESSAGES: Final = 20_000


@click.command()
@click.option(
    "--events",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(2_000, 100_000_000),
    help="Number of events in the pipeline.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="demo-output",
    show_default=True,
    help="Folder for the tables, the plot and the report.",
)
def demo(*, events: int, output: Path) -> None:
    """Kill a server and a Spark driver while they work, and lose nothing.

    First a server is killed with SIGKILL while it stores messages: everything it acknowledged
    exists when it starts again. Then a million orders and clicks, some of them invalid or
    duplicated, are published while a Spark pipeline cleans them into Parquet, keeps totals in a
    key-value bucket and publishes alerts to another stream. Its driver is killed meanwhile and
    restarted from its checkpoints. At the end every event is accounted for by its sequence, and
    the bucket is read as it was at the time of the kill.

    \b
    Examples:
      make demo
      python -m demo --events 100000 --output /tmp/demo
    """
    console = Console()
    signal.signal(signal.SIGTERM, _terminated)
    begun = time.monotonic()
    try:
        _check_packages()
        _make_output(output)
        with tempfile.TemporaryDirectory(prefix="jetspark-demo-") as folder:
            problems = _run(console, Path(folder), output, events)
    except KeyboardInterrupt:
        click.echo("stopped; all started processes have ended", err=True)
        sys.exit(130)
    except Error as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if error.filename is None or error.strerror is None:
            raise
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    if problems:
        console.print(f"[red]{'; '.join(problems)}[/red]")
        sys.exit(1)
    console.print(
        f"[green]Every event accounted for, no duplicates[/green] "
        f"({time.monotonic() - begun:.0f} s; see {output}/plot.png)"
    )


def _run(console: Console, folder: Path, output: Path, events: int) -> list[str]:
    """Run the parts; return the problems."""
    from demo.check import account_for
    from demo.crash import crash_server
    from demo.pipeline import run_pipeline
    from demo.plot import save_plot
    from jetspark.spark import session

    console.print(f"[bold]{version_text()}[/bold], results in {output}")
    console.rule("1. A server is killed while it stores messages", align="left")
    steps = Steps()
    with bars(console) as progress:
        problems = asyncio.run(
            crash_server(folder / "crash", steps, progress, min(CRASH_MESSAGES, events))
        )
    steps.show(console, "Acknowledged messages are on disk")
    console.rule("2. A Spark driver is killed while it cleans events", align="left")
    with sync.Server(store_dir=folder / "store") as server:
        with bars(console) as progress:
            story = run_pipeline(server.client_url, output, events, progress)
        console.rule("3. Is every event accounted for?", align="left")
        with console.status("Comparing every row with its origin (Spark)"):
            spark = session(
                "jetspark demo",
                master="local[2]",
                config={"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"},
                log_level="OFF",
            )
            try:
                warehouse = output / "pipeline" / "warehouse"
                account = account_for(
                    spark, server.client_url, warehouse, story.revision, story.totals_then
                )
            finally:
                spark.stop()
    save_plot(story, output / "plot.png")
    _write_report(output / "report.json", story, account)
    _show(console, story, account)
    _show_past(console, story, account)
    return problems + account.problems


def _show(console: Console, story: "Story", account: "Account") -> None:
    table = Table(title="Events in = events accounted for", show_header=False)
    table.add_column("what")
    table.add_column("number", justify="right")
    table.add_row("events in the stream", f"{account.events:,}")
    table.add_row("  in the table, no duplicates", f"{account.kept:,}")
    table.add_row("  invalid, kept separately", f"{account.refused:,}")
    table.add_row("  duplicates, dropped", f"{account.copies:,}")
    rest = account.events - account.kept - account.refused - account.copies
    table.add_row("  not accounted for, or duplicated", f"{rest + len(account.problems):,}")
    table.add_row("alerts published, no duplicates", f"{account.alerts:,}")
    table.add_row("totals in the bucket", f"{account.areas:,}", end_section=True)
    rate = account.events / story.publish_seconds
    table.add_row("published per second (paced)", f"{rate:,.0f}")
    busy = sum(story.batch_seconds)
    table.add_row(
        "cleaned per second of micro-batches",
        f"{story.rows.get('events', 0) / busy:,.0f}" if busy else "",
    )
    table.add_row("largest lag, in events", f"{story.max_lag:,}")
    dead = story.back_at - story.killed_at
    table.add_row("seconds without a driver", f"{dead:.1f}")
    table.add_row("seconds until everything was done", f"{story.caught_up_at:.1f}")
    console.print(table)


def _show_past(console: Console, story: "Story", account: "Account") -> None:
    table = Table(title=f"The bucket now, and as of revision {story.revision} (the kill)")
    table.add_column("key")
    for name in ("events then", "now", "money then", "now"):
        table.add_column(name, justify="right")
    for key, now in account.totals_now.items():
        then = account.totals_then.get(key, {"events": 0, "cents": 0})
        if key.endswith(".order"):
            table.add_row(
                key,
                f"{then['events']:,}",
                f"{now['events']:,}",
                f"{then['cents'] / 100:,.2f}",
                f"{now['cents'] / 100:,.2f}",
            )
    console.print(table)


def _write_report(path: Path, story: "Story", account: "Account") -> None:
    report = {
        "events": account.events,
        "kept": account.kept,
        "refused": account.refused,
        "copies": account.copies,
        "alerts": account.alerts,
        "problems": account.problems,
        "published_per_second": account.events / story.publish_seconds,
        "largest_lag": story.max_lag,
        "killed_at_s": story.killed_at,
        "back_at_s": story.back_at,
        "caught_up_at_s": story.caught_up_at,
        "totals": account.totals_now,
        "totals_at_kill": {"revision": story.revision, "totals": account.totals_then},
    }
    path.write_text(json.dumps(report, indent=2) + "\n")


def _check_packages() -> None:
    """Report missing packages in one line, before anything is started."""
    needed = ("pyspark", "pyarrow", "pandas", "grpc", "yaml", "matplotlib")
    check_extra("demo", "the demo needs", *needed)


def _make_output(output: Path) -> None:
    """Create an empty folder; refuse one that this command did not create."""
    if output.exists() and any(output.iterdir()):
        if not (output / MARKER).exists():
            raise click.ClickException(
                f"{output} exists and is no demo's: choose another --output"
            )
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).write_text("written by make demo, which removes it when it runs again\n")


def _terminated(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise KeyboardInterrupt
