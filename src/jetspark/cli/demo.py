"""`jetspark demo`: the whole product in one minute, on this machine, leaving nothing behind."""

import asyncio
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from jetspark.api.stream import StreamConfig
from jetspark.cli.main import version_text
from jetspark.client.client import connect
from jetspark.server.server import Server

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


@click.command()
@click.option(
    "--messages",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 10_000_000),
    help="How many messages to write, read back and count.",
)
def demo(*, messages: int) -> None:
    """Write a durable stream, read it back, and count it from Spark.

    Starts an embedded server on a free port with a private store, publishes messages whose
    acknowledgements come after a synced write, reads each of them back by direct get, and counts
    them from Spark `local[2]` through the `jetstream` format. Nothing is left behind.

    \b
    Examples:
      jetspark demo
      jetspark demo --messages 200000
    """
    console = Console()
    ledger = Ledger()
    try:
        counted = asyncio.run(_run(console, ledger, messages))
    except ImportError as error:
        raise click.ClickException(
            f"{error}; the demo needs Spark: pip install 'jetspark[spark]'"
        ) from error
    _show(console, ledger)
    if any(count != messages for count in counted):
        console.print(f"[red]Not every step saw {messages} messages: {counted}[/red]")
        sys.exit(1)
    console.print(f"[green]All {messages:,} messages are accounted for in every step.[/green]")


async def _run(console: Console, ledger: Ledger, messages: int) -> list[int]:
    async with Server() as server:
        console.print(f"[bold]{version_text()}[/bold], server at {server.client_url}")
        client = await connect(server.client_url, name="jetspark demo")
        async with client:
            stream = await client.jetstream().create_stream(
                StreamConfig(name=STREAM, subjects=("orders.>",), allow_direct=True)
            )
            with _progress(console) as progress:
                written = await _write(client.jetstream(), ledger, progress, messages)
                read = await _read(stream, ledger, progress)
        with console.status("Starting Spark local[2]"):
            # The server goes on in this loop while Spark's tasks read from it.
            counted = await asyncio.to_thread(_count, server.client_url, ledger, console)
    return [written, read, counted]


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


async def _write(js: "JetStream", ledger: Ledger, progress: Progress, messages: int) -> int:
    task = progress.add_task("Publish, acknowledged on disk", total=messages)
    begun = time.monotonic()
    acks = []
    for n in range(messages):
        subject = f"orders.{REGIONS[n % len(REGIONS)]}"
        acks.append(await js.publish_async(subject, _payload(n)))
        if n % 1000 == 0:
            progress.update(task, completed=n)
    await js.publish_async_complete()
    progress.update(task, completed=messages)
    ledger.add("published, acknowledged after a synced write", messages, begun)
    return len({ack.result().seq for ack in acks})


async def _read(stream: "Stream", ledger: Ledger, progress: Progress) -> int:
    last = (await stream.info()).state.last_seq
    task = progress.add_task("Read back by direct get", total=last)
    begun = time.monotonic()
    good = 0
    async for message in stream.get_batch(seq=1):
        good += message.data == _payload(message.seq - 1)
        if message.seq % 1000 == 0:
            progress.update(task, completed=message.seq)
    progress.update(task, completed=last)
    ledger.add("read back by direct get and compared", good, begun)
    return good


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
        ledger.add("counted by Spark local[2] through format jetstream", total, begun)
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
        table.add_row(what, f"{count:,}", f"{seconds:.2f}", f"{count / max(seconds, 1e-9):,.0f}")
    console.print(table)
