"""Runs the clients of a measurement and prints what they achieved."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple

from jetspark.cli.output import Column, Output
from jetspark.cli.progress import progress_bar
from jetspark.cli.quantities import show_seconds
from jetspark.cli.session import Session
from jetspark.client.client import Client, connect
from jetspark.units import format_bytes

_SHOWN_EVERY: Final = 0.1


class Tally:
    """What one client has done."""

    def __init__(self, messages: int) -> None:
        self.wanted: Final = messages
        self.done: int = 0
        self.begun: float = 0.0
        self.ended: float = 0.0

    def start(self) -> None:
        """Start the clock."""
        self.begun = time.perf_counter()

    def add(self, count: int = 1) -> None:
        """Count messages; the first ones start the clock of a client that waits for them."""
        if not self.begun:
            self.start()
        self.done += count

    def end(self) -> None:
        """Stop the clock."""
        self.ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(self.ended - self.begun, 1e-9) if self.begun else 0.0


Work = Callable[[Client, Tally], Awaitable[None]]


class Plan(NamedTuple):
    """The options that all measurements have."""

    clients: int
    msgs: int
    size: int
    progress: bool


async def measure(
    session: Session, title: str, plan: Plan, work: Work, *, every_client: bool = False,
    waits: bool = False,
) -> None:  # fmt: skip
    """Run the work of each client on a connection of its own, at the same time.

    The messages are shared out, or with ``every_client`` each client handles all. With ``waits``
    the clock of a client starts with its first message.
    """
    share, rest = divmod(plan.msgs, plan.clients)
    shares = [
        plan.msgs if every_client else share + (1 if n < rest else 0) for n in range(plan.clients)
    ]
    tallies = [Tally(one) for one in shares]
    async with AsyncExitStack() as connections:
        arguments = session.settings.arguments()
        arguments["error_callback"] = session.errors.on_error
        clients = [
            await connections.enter_async_context(
                await connect(session.settings.server, **arguments)
            )
            for _ in tallies
        ]

        async def run(client: Client, tally: Tally) -> None:
            if not waits:
                tally.start()
            await work(client, tally)
            tally.end()

        quiet = session.output.json or not plan.progress
        with progress_bar(title, sum(shares), quiet=quiet) as bar:
            shower = asyncio.create_task(_show(bar, tallies))
            try:
                async with asyncio.TaskGroup() as group:
                    for client, tally in zip(clients, tallies, strict=True):
                        group.create_task(run(client, tally))
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                shower.cancel()
    session.errors.check()
    _report(session.output, title, plan, tallies)


async def _show(bar: Callable[[int], None], tallies: list[Tally]) -> None:
    while True:
        bar(sum(tally.done for tally in tallies))
        await asyncio.sleep(_SHOWN_EVERY)


def _report(output: Output, title: str, plan: Plan, tallies: list[Tally]) -> None:
    done = sum(tally.done for tally in tallies)
    # A client of a shared consumer may have got nothing: its clock never started.
    busy = [tally for tally in tallies if tally.done]
    begun = min((tally.begun for tally in busy), default=0.0)
    seconds = max(max((tally.ended for tally in busy), default=0.0) - begun, 1e-9)
    rates = [tally.done / tally.seconds if tally.done else 0.0 for tally in tallies]
    if output.json:
        found: dict[str, Any] = {
            "bench": title, "clients": plan.clients, "messages": done, "size": plan.size,
            "seconds": round(seconds, 6), "messages_per_second": round(done / seconds, 1),
            "bytes_per_second": round(done * plan.size / seconds, 1),
            "seconds_per_message": round(sum(t.seconds for t in tallies) / max(done, 1), 9),
            "by_client": [
                {"messages": t.done, "seconds": round(t.seconds, 6)} for t in tallies
            ],
        }  # fmt: skip
        output.value(found)
        return
    each = sum(tally.seconds for tally in tallies) / max(done, 1)
    output.line(
        f"{title} stats: {done / seconds:,.0f} msgs/sec ~ "
        f"{format_bytes(round(done * plan.size / seconds))}/sec ~ {show_seconds(each)} per "
        f"message and client"
    )
    if len(tallies) > 1:
        rows = [
            (str(n + 1), f"{tally.done:,}", show_seconds(tally.seconds), f"{rate:,.0f}")
            for n, (tally, rate) in enumerate(zip(tallies, rates, strict=True))
        ]
        columns = (
            Column("Client", number=True), Column("Messages", number=True),
            Column("Time", number=True), Column("Messages/sec", number=True),
        )  # fmt: skip
        output.table("By client", columns, rows)
        output.line(
            f"min {min(rates):,.0f} | avg {sum(rates) / len(rates):,.0f} | max {max(rates):,.0f} "
            "msgs/sec"
        )
