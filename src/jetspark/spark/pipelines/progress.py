"""The progress of a streaming query, reduced to the important numbers.

The lag is computed from the offsets of jetspark's sources: messages between the end of a
micro-batch and the end of the stream (``reportLatestOffset``). Other sources have no known lag.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from jetspark.spark.progress.reports import lag, lag_by_stream


class FlowProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress", tag_field="event"):
    """One micro-batch of one flow, or an idle trigger."""

    flow: str
    time: str
    epoch: int
    rows: int
    rows_per_second: float
    batch_seconds: float
    lag: int | None = None
    """Messages waiting in the streams that this flow reads; None if unknown."""
    next: dict[str, int] = {}
    """For each stream: the first sequence that this micro-batch did not read."""
    observed: dict[str, dict[str, Any]] = {}
    """The metrics of each observation (``observe``, ``observed``, ``expect``), by its name."""

    @property
    def violations(self) -> int:
        """Rows that violate an expectation of ``expect``; other observations have other names."""
        found = [counts.get("violating") for counts in self.observed.values()]
        return sum(count for count in found if isinstance(count, int))


class FlowStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="event"):
    """A flow started, from its checkpoint or from the beginning."""

    flow: str
    target: str
    query: str
    """Spark's id of the query, stored in the checkpoint permanently."""


class FlowFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed", tag_field="event"):
    """A flow ended with an error."""

    flow: str
    error: str
    restart_seconds: float | None = None
    """When it is restarted from its checkpoint; None: it is not."""


class ViewRefreshed(msgspec.Struct, frozen=True, kw_only=True, tag="refreshed", tag_field="event"):
    """A materialized view was computed."""

    view: str
    seconds: float


class ViewFailed(msgspec.Struct, frozen=True, kw_only=True, tag="view_failed", tag_field="event"):
    """A materialized view could not be computed; it is retried when it is due."""

    view: str
    error: str


class RunStopped(msgspec.Struct, frozen=True, kw_only=True, tag="stopped", tag_field="event"):
    """Every flow has stopped; the next run continues from here."""

    flows: int


Event = FlowProgress | FlowStarted | FlowFailed | ViewRefreshed | ViewFailed | RunStopped


def progress_of(flow: str, report: Mapping[str, Any]) -> FlowProgress:
    """Convert one progress report of Spark, decoded from JSON."""
    duration = report.get("durationMs") or {}
    seconds = duration.get("triggerExecution", 0) / 1000
    rows = int(report.get("numInputRows") or 0)
    sources = {"sources": report.get("sources") or ()}
    known = [behind for behind in lag_by_stream(sources).values() if behind is not None]
    return FlowProgress(
        flow=flow,
        time=str(report.get("timestamp", "")),
        epoch=int(report.get("batchId", -1)),
        rows=rows,
        rows_per_second=rows / seconds if seconds else 0.0,
        batch_seconds=seconds,
        lag=sum(known) if known else None,
        next={each.stream: each.next for each in lag(sources)},
        observed=report.get("observedMetrics") or {},
    )
