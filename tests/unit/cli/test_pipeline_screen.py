"""What a continuous run shows: a table on a terminal, lines elsewhere."""

import io

from rich.console import Console

from jetspark.cli.pipeline.screen import Screen
from jetspark.spark.pipelines.progress import (
    FlowFailed,
    FlowProgress,
    FlowStarted,
    RunStopped,
    ViewRefreshed,
)

EVENTS = (
    FlowStarted(flow="orders", target="orders", query="q"),
    FlowProgress(
        flow="orders",
        time="t",
        epoch=12,
        rows=125_000,
        rows_per_second=48_123.4,
        batch_seconds=2.6,
        lag=873_211,
    ),
    FlowProgress(
        flow="orders", time="t", epoch=13, rows=0, rows_per_second=0, batch_seconds=0, lag=7
    ),
    FlowFailed(flow="alerts", error="there is no stream [ALERTS]", restart_seconds=2),
    ViewRefreshed(view="revenue", seconds=1.25),
    RunStopped(flows=2),
)


def shown(*, terminal: bool) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=terminal, color_system=None)
    with Screen(console) as screen:
        for event in EVENTS:
            screen.take(event)
    return out.getvalue().splitlines()


def test_lines_tell_of_work_and_not_of_its_absence() -> None:
    assert shown(terminal=False) == [
        "orders: epoch 12, 125,000 rows in 2.6 s, 48,123 rows/s, lag 873,211",
        "alerts: there is no stream [ALERTS] (restart in 2 s)",
        "revenue: computed in 1.2 s",
        "Stopped; the next run continues from here.",
    ]


def test_a_terminal_has_a_table_of_at_most_80_columns_that_ends_with_the_last_state() -> None:
    lines = shown(terminal=True)

    last = [line for line in lines if line.startswith("│ orders")][-1]
    assert last == "│ orders │ stopped │    12 │ 125,000 │ 48,123 │    2.60 │   7 │"
