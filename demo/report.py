"""The output of the demo: steps with their times, and the table at the end."""

import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


@dataclass
class Steps:
    """The steps: rows of a table."""

    rows: list[tuple[str, int, float]] = field(default_factory=list)

    def add(self, what: str, count: int, begun: float) -> None:
        """Record one step."""
        self.rows.append((what, count, time.monotonic() - begun))

    def note(self, what: str, count: int) -> None:
        """Record a number without a time."""
        self.rows.append((what, count, 0.0))

    def show(self, console: Console, title: str) -> None:
        """Print the table."""
        table = Table(title=title)
        table.add_column("step")
        table.add_column("messages", justify="right")
        table.add_column("seconds", justify="right")
        table.add_column("per second", justify="right")
        for what, count, seconds in self.rows:
            rate = f"{count / seconds:,.0f}" if seconds else ""
            table.add_row(what, f"{count:,}", f"{seconds:.2f}" if seconds else "", rate)
        console.print(table)


def bars(console: Console) -> Progress:
    """Return the bars of the demo; without a terminal they are shown once, at the end."""
    return Progress(
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
