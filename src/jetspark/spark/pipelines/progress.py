"""What Spark reports of a streaming query, as the few numbers people look at.

The lag comes from the offsets of jetspark's sources: messages between what a micro-batch took and
the end of the stream (``reportLatestOffset``). Other sources have none that can be
told.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec


class FlowProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress", tag_field="event"):
    """One micro-batch of one flow, or that there was nothing to do."""

    flow: str
    time: str
    epoch: int
    rows: int
    rows_per_second: float
    batch_seconds: float
    lag: int | None = None
    """Messages that wait in the streams this flow reads; None where that is unknown."""
    next: dict[str, int] = {}
    """Of each stream it reads: the first sequence that this micro-batch did not take."""


class FlowStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="event"):
    """A flow runs, from its checkpoint or from the beginning."""

    flow: str
    target: str
    query: str
    """Spark's id of the query, which a checkpoint keeps for ever."""


class FlowFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed", tag_field="event"):
    """A flow ended with an error."""

    flow: str
    error: str
    restart_seconds: float | None = None
    """When it is started again from its checkpoint; None: it is given up."""


class ViewRefreshed(msgspec.Struct, frozen=True, kw_only=True, tag="refreshed", tag_field="event"):
    """A materialized view was computed again."""

    view: str
    seconds: float


class ViewFailed(msgspec.Struct, frozen=True, kw_only=True, tag="view_failed", tag_field="event"):
    """A materialized view could not be computed; it is tried again when it is due."""

    view: str
    error: str


class RunStopped(msgspec.Struct, frozen=True, kw_only=True, tag="stopped", tag_field="event"):
    """Every flow has stopped; a next run goes on from here."""

    flows: int


Event = FlowProgress | FlowStarted | FlowFailed | ViewRefreshed | ViewFailed | RunStopped


def progress_of(flow: str, report: Mapping[str, Any]) -> FlowProgress:
    """Read one progress report of Spark, as JSON gives it."""
    duration = report.get("durationMs") or {}
    seconds = duration.get("triggerExecution", 0) / 1000
    rows = int(report.get("numInputRows") or 0)
    lags = [lag_of(source) for source in report.get("sources") or ()]
    known = [lag for lag in lags if lag is not None]
    taken: dict[str, int] = {}
    for source in report.get("sources") or ():
        taken |= offsets_of(source.get("endOffset"))
    return FlowProgress(
        flow=flow,
        time=str(report.get("timestamp", "")),
        epoch=int(report.get("batchId", -1)),
        rows=rows,
        rows_per_second=rows / seconds if seconds else 0.0,
        batch_seconds=seconds,
        lag=sum(known) if known else None,
        next=taken,
    )


def lag_of(source: Mapping[str, Any]) -> int | None:
    """Return how many messages of a source are beyond what was taken; None when it cannot say."""
    latest, taken = offsets_of(source.get("latestOffset")), offsets_of(source.get("endOffset"))
    if not latest or not taken:
        return None
    return sum(max(0, end - taken.get(stream, end)) for stream, end in latest.items())


def offsets_of(offset: object) -> dict[str, int]:
    """Return stream -> next sequence of an offset of jetspark's sources; else nothing."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    if not isinstance(offset, dict) or not isinstance(offset.get("streams"), dict):
        return {}
    places = {name: place.get("next") for name, place in offset["streams"].items()}
    return {name: place for name, place in places.items() if isinstance(place, int)}
