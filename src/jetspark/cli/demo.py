"""`jetspark demo`: the whole product in one minute, on this machine, leaving nothing behind."""

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from jetspark.api.stream import StreamConfig
from jetspark.cli.demo_server import ServerProcess
from jetspark.cli.main import version_text
from jetspark.client.client import connect
from jetspark.errors import Error

if TYPE_CHECKING:
    from jetspark.client.jetstream.context import JetStream
    from jetspark.client.jetstream.streams import Stream

STREAM: Final = "ORDERS"
REGIONS: Final = ("north", "east", "south", "west")


@dataclass
class Ledger:
    """What each step did: a row of the table at the end."""

    rows: list[tuple[str, int, float]] = field(default_factory=list)

    def add(self, what: str, count: int, begun: float) -> None:
        """Note one step."""
        self.rows.append((what, count, time.monotonic() - begun))

    def note(self, what: str, count: int) -> None:
        """Note a number that took no time of its own."""
        self.rows.append((what, count, 0.0))


@click.command()
@click.option(
    "--messages",
    default=20_000,
    show_default=True,
    type=click.IntRange(10, 10_000_000),
    help="How many messages to write, read back and count.",
)
def demo(*, messages: int) -> None:
    """Write a durable stream, kill the server, lose nothing, and count it from Spark.

    Starts a server on a free port with a private store and publishes messages. In the middle of
    that the server is killed with SIGKILL and started again: every message that was acknowledged
    is read back and compared. The rest is published again, each message with its own id, so that
    none is stored twice. Spark `local[2]` counts the stream through the `jetstream` format.
    Nothing is left behind.

    \b
    Examples:
      jetspark demo
      jetspark demo --messages 200000
    """
    console = Console()
    ledger = Ledger()
    try:
        with tempfile.TemporaryDirectory(prefix="jetspark-demo-") as folder:
            problems = asyncio.run(_run(console, ledger, Path(folder), messages))
    except ImportError as error:
        raise click.ClickException(
            f"{error}; the demo needs Spark: pip install 'jetspark[spark]'"
        ) from error
    _show(console, ledger)
    if problems:
        console.print(f"[red]{'; '.join(problems)}[/red]")
        sys.exit(1)
    console.print(
        f"[green]Nothing that was acknowledged is lost, and all {messages:,} messages are "
        "there once.[/green]"
    )


async def _run(console: Console, ledger: Ledger, folder: Path, messages: int) -> list[str]:
    """Go through the steps; what was not as it should be."""
    console.print(f"[bold]{version_text()}[/bold], store in {folder}")
    acknowledged: dict[int, int] = {}
    problems: list[str] = []
    with _progress(console) as progress:
        async with ServerProcess(folder) as server:
            await _write_until_killed(server, acknowledged, ledger, progress, messages)
        begun = time.monotonic()
        async with ServerProcess(folder) as server:
            ledger.add("started again, streams recovered", len(acknowledged), begun)
            async with await connect(server.url, name="jetspark demo") as client:
                stream = await client.jetstream().stream(STREAM)
                kept = await _read(stream, ledger, progress, "Read back after the crash")
                lost = [n for n, seq in acknowledged.items() if kept.get(seq) != _payload(n)]
                ledger.note("acknowledged and lost", len(lost))
                if lost:
                    problems.append(f"{len(lost)} acknowledged messages are lost")
                await _write_rest(client.jetstream(), acknowledged, ledger, progress, messages)
                whole = await _read(stream, ledger, progress, "Read back everything")
                if sorted(whole.values()) != sorted(_payload(n) for n in range(messages)):
                    problems.append(f"{len(whole)} of {messages} messages are in the stream")
            with console.status("Starting Spark local[2]"):
                counted = await asyncio.to_thread(_count, server.url, ledger, console)
            if counted != messages:
                problems.append(f"Spark counted {counted} of {messages} messages")
    return problems


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


async def _write_until_killed(
    server: ServerProcess,
    acknowledged: dict[int, int],
    ledger: Ledger,
    progress: Progress,
    messages: int,
) -> None:
    """Publish, and kill the server in the middle; note what it acknowledged until then."""
    task = progress.add_task("Publish; killed in the middle", total=messages)
    begun = time.monotonic()
    client = await connect(server.url, name="jetspark demo", allow_reconnect=False)
    js = client.jetstream(publish_async_max=500)
    await js.create_stream(StreamConfig(name=STREAM, subjects=("orders.>",), allow_direct=True))

    acks = []
    try:
        for n in range(messages):
            acks.append(await js.publish_async(_subject(n), _payload(n), msg_id=str(n), timeout=2))
            if n - js.publish_async_pending >= messages // 2:
                await server.kill()
    except Error:
        pass  # the connection broke, as it should
    await client.close()
    for n, ack in enumerate(acks):
        if ack.done() and ack.exception() is None:
            acknowledged[n] = ack.result().seq
    progress.update(task, completed=len(acknowledged))
    progress.stop_task(task)
    ledger.add("acknowledged on disk, then SIGKILL", len(acknowledged), begun)


async def _write_rest(
    js: "JetStream",
    acknowledged: dict[int, int],
    ledger: Ledger,
    progress: Progress,
    messages: int,
) -> None:
    """Publish what nobody acknowledged; what was stored all the same is found by its id."""
    rest = [n for n in range(messages) if n not in acknowledged]
    task = progress.add_task("Publish the rest", total=len(rest))
    begun = time.monotonic()
    acks = [await js.publish_async(_subject(n), _payload(n), msg_id=str(n)) for n in rest]
    await js.publish_async_complete()
    progress.update(task, completed=len(rest))
    ledger.add("published again, acknowledged on disk", len(acks), begun)
    again = sum(ack.result().duplicate for ack in acks)
    ledger.note("stored before the crash, not twice", again)


async def _read(
    stream: "Stream", ledger: Ledger, progress: Progress, what: str
) -> dict[int, bytes]:
    """Everything in the stream, by its sequence."""
    last = (await stream.info()).state.last_seq
    task = progress.add_task(what, total=last)
    begun = time.monotonic()
    found: dict[int, bytes] = {}
    async for message in stream.get_batch(seq=1):
        found[message.seq] = message.data
        if message.seq % 1000 == 0:
            progress.update(task, completed=message.seq)
    progress.update(task, completed=last)
    ledger.add(what.lower(), len(found), begun)
    return found


def _subject(n: int) -> str:
    return f"orders.{REGIONS[n % len(REGIONS)]}"


def _payload(n: int) -> bytes:
    return b'{"order":%d,"amount":%d}' % (n, n * 7 % 1000)


def _count(url: str, ledger: Ledger, console: Console) -> int:
    from jetspark.spark import session

    begun = time.monotonic()
    spark = session("jetspark demo", master="local[2]", log_level="ERROR")
    console.print(f"Spark {spark.version} started in {time.monotonic() - begun:.1f} s")
    try:
        orders = (
            spark.read.format("jetstream").option("servers", url).option("stream", STREAM).load()
        )
        begun = time.monotonic()
        total = sum(int(row["count"]) for row in orders.groupBy("subject").count().collect())
        ledger.add("counted by Spark local[2]", total, begun)
    finally:
        spark.stop()
    return total


def _show(console: Console, ledger: Ledger) -> None:
    table = Table(title="What happened")
    table.add_column("step")
    table.add_column("messages", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("per second", justify="right")
    for what, count, seconds in ledger.rows:
        rate = f"{count / seconds:,.0f}" if seconds else ""
        table.add_row(what, f"{count:,}", f"{seconds:.2f}" if seconds else "", rate)
    console.print(table)
