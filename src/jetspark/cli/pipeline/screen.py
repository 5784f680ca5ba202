"""The display of a continuous run: a live table, or lines if there is no terminal."""

from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jetspark.spark.pipelines.progress import (
    Event,
    FlowFailed,
    FlowProgress,
    FlowStarted,
    RunStopped,
    ViewFailed,
    ViewRefreshed,
)


@dataclass
class _Row:
    """A flow on the screen."""

    target: str = ""
    state: str = "starting"
    total: int = 0
    last: FlowProgress | None = None
    lag: int | None = None


class Screen:
    """Displays events."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: dict[str, _Row] = {}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self._table(), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """Print a line above the table."""
        self._console.print(text, markup=False, soft_wrap=True)

    def take(self, event: Event) -> None:
        """Show an event."""
        match event:
            case FlowStarted():
                row = self._rows.setdefault(event.flow, _Row())
                row.target, row.state = event.target, "running"
            case FlowFailed():
                self._failed(event)
            case FlowProgress():
                self._progress(event)
            case ViewFailed():
                self.say(f"{event.view}: {event.error}")
            case ViewRefreshed() if self._live is None:
                self.say(f"{event.view}: computed in {event.seconds:.1f} s")
            case RunStopped():
                for row in self._rows.values():
                    row.state = "stopped"
                self.say("Stopped; the next run continues from here.")
        if self._live is not None:
            self._live.update(self._table())

    def _failed(self, event: FlowFailed) -> None:
        row = self._rows.setdefault(event.flow, _Row())
        then = "not restarted"
        if event.restart_seconds is not None:
            then = f"restart in {event.restart_seconds:g} s"
        row.state = then
        line = Text.assemble((event.flow, "red"), f": {event.error} ({then})")
        self._console.print(line, soft_wrap=True)

    def _progress(self, event: FlowProgress) -> None:
        row = self._rows.setdefault(event.flow, _Row())
        if event.lag is not None:
            row.lag = event.lag
        if event.rows:
            row.total += event.rows
            row.last = event
            if self._live is None:
                lag = "" if event.lag is None else f", lag {event.lag:,}"
                self.say(
                    f"{event.flow}: epoch {event.epoch}, {event.rows:,} rows in "
                    f"{event.batch_seconds:.1f} s, {event.rows_per_second:,.0f} rows/s{lag}"
                )

    def _table(self) -> Table:
        table = Table(expand=False)
        table.add_column("flow")
        table.add_column("state")
        for name in ("epoch", "rows", "rows/s", "batch s", "lag"):
            table.add_column(name, justify="right")
        for name, row in self._rows.items():
            last = row.last
            table.add_row(
                name,
                Text(row.state, style="green" if row.state == "running" else "yellow"),
                str(last.epoch) if last else "",
                f"{row.total:,}",
                f"{last.rows_per_second:,.0f}" if last else "",
                f"{last.batch_seconds:.2f}" if last else "",
                "" if row.lag is None else f"{row.lag:,}",
            )
        return table
