"""A view of a streaming query for notebooks: rows, speed and lag, with a plot of the lag."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jetspark.spark.progress.reports import lag, lag_by_stream, progress_report

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

WIDTH: Final = 480
HEIGHT: Final = 80
COLORS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")


class ProgressView:
    """What a query has reported so far; a notebook shows it as a table and a plot."""

    def __init__(self, query: "StreamingQuery") -> None:
        self._query = query

    def __repr__(self) -> str:
        """Return one line per stream, for a terminal."""
        progresses = self._progresses()
        if not progresses:
            return f"{self._name}: no progress yet"
        report = progress_report(progresses[-1])
        head = (
            f"{self._name}: micro-batch {report['batch']}, {report['rows']} rows, "
            f"{_speed(report)} rows/s"
        )
        lines = [f"  {one.stream}: at {one.next}, {_shown(one.behind)}" for one in self._lags()]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        """Return the table and the plot, for a notebook."""
        progresses = self._progresses()
        if not progresses:
            return f"<p>{html.escape(self._name)}: no progress yet</p>"
        report = progress_report(progresses[-1])
        rows = "".join(
            f"<tr><td>{html.escape(one.stream)}</td><td>{one.next}</td>"
            f"<td>{html.escape(_shown(one.behind))}</td></tr>"
            for one in self._lags()
        )
        return (
            f"<p><b>{html.escape(self._name)}</b>: micro-batch {report['batch']}, "
            f"{report['rows']} rows, {_speed(report)} rows/s, {html.escape(report['time'])}</p>"
            f"<table><tr><th>stream</th><th>next sequence</th><th>lag</th></tr>{rows}</table>"
            f"{_plot(progresses)}"
        )

    @property
    def _name(self) -> str:
        return str(self._query.name or self._query.id)

    def _progresses(self) -> Sequence[Mapping[str, Any]]:
        return list(self._query.recentProgress)

    def _lags(self) -> Sequence[Any]:
        return lag(self._progresses()[-1])


def progress_view(query: "StreamingQuery") -> ProgressView:
    """Return a view of a streaming query: evaluate it in a cell to see where the query is.

    Each evaluation shows the latest figures; the plot has the lag of the progress reports that
    Spark keeps (100 by default, ``spark.sql.streaming.numRecentProgressUpdates``).
    """
    return ProgressView(query)


def _speed(report: Mapping[str, Any]) -> str:
    speed = report["rowsPerSecond"]
    return f"{speed:,.0f}" if isinstance(speed, int | float) and math.isfinite(speed) else "0"


def _shown(behind: int | None) -> str:
    return "lag unknown" if behind is None else f"{behind} unread"


def _plot(progresses: Sequence[Mapping[str, Any]]) -> str:
    """Return the lag of each stream over the reports as an inline SVG; empty with few reports."""
    history: dict[str, list[int | None]] = {}
    for at, progress in enumerate(progresses):
        for stream, behind in lag_by_stream(progress).items():
            history.setdefault(stream, [None] * at).append(behind)
        for values in history.values():
            values.extend([None] * (at + 1 - len(values)))
    known = [value for values in history.values() for value in values if value is not None]
    if len(progresses) < 2 or not known:
        return ""
    top = max(*known, 1)
    step = WIDTH / (len(progresses) - 1)
    lines: list[str] = []
    for number, (stream, values) in enumerate(sorted(history.items())):
        points = " ".join(
            f"{at * step:.1f},{HEIGHT - HEIGHT * value / top:.1f}"
            for at, value in enumerate(values)
            if value is not None
        )
        color = COLORS[number % len(COLORS)]
        lines.append(
            f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{points}">'
            f"<title>{html.escape(stream)}</title></polyline>"
        )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT + 4}" viewBox="0 -2 {WIDTH} {HEIGHT + 4}" '
        f'role="img" aria-label="lag, up to {top}">{"".join(lines)}</svg>'
        f"<p>lag of the last {len(progresses)} reports, up to {top:,}</p>"
    )
