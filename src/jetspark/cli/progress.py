"""Progress bars: on standard error, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int], None]


@contextmanager
def progress_bar(
    text: str, total: int | None, *, quiet: bool = False, sizes: bool = False
) -> Iterator[Progress]:
    """Show a bar while the block runs; it gets a function to call with what is done so far.

    ``sizes``: the numbers are bytes. ``total`` None: unknown.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _done: None
        return
    # Loaded only here: rich takes longer to import than most commands take.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    done = DownloadColumn() if sizes else MofNCompleteColumn()
    with Bars(
        TextColumn(text), BarColumn(), TaskProgressColumn(), done, TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    ) as bars:  # fmt: skip
        task = bars.add_task(text, total=total)
        yield lambda at: bars.update(task, completed=at)
