"""Lag and reports worked out of a progress, without Spark (docs/spark.md, "Monitoring")."""

import json
import logging
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import Row

from jetspark.spark import SourceLag, lag, progress_report
from jetspark.spark.progress.listener import ProgressListener


def offset(version: int, following: int, created: str = "t1", **more: Any) -> dict[str, Any]:
    return {"v": version, "streams": {"ORDERS": {"next": following, "created": created, **more}}}


def progress(end: Any, latest: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "i", "runId": "r", "name": "bills", "timestamp": "2026-11-15T12:00:00Z",
        "batchId": 3, "numInputRows": 7, "processedRowsPerSecond": 1.5,
        "durationMs": {"addBatch": 12}, "observedMetrics": {},
        "sources": [{"endOffset": end, "latestOffset": latest}], **more,
    }  # fmt: skip


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        (offset(1, 11), offset(1, 11), 0),
        (offset(1, 11), offset(1, 16), 5),
        (offset(2, 11, "t1", cuts=[5], **{"from": 1}), offset(2, 16), 5),
        # A query of 0.1.0 that continues with version 2.
        (offset(1, 11), offset(2, 16), 5),
        # Deleted and created again with four messages.
        (offset(2, 11), offset(2, 5, "t2"), 4),
        (offset(2, 11), offset(2, 10**12 + 4, "t2", **{"from": 10**12}), 4),
        (offset(2, 11), offset(2, 7, "t2", **{"from": 7}), 0),
        (offset(2, 11), offset(2, 16, "t1", **{"from": 3}), 5),
        (offset(2, 11), None, None),
    ],
)
def test_the_lag_is_the_distance_of_two_offsets(
    end: Any, latest: Any, behind: int | None, *, as_text: bool
) -> None:
    if as_text:
        end, latest = (json.dumps(each) if each else each for each in (end, latest))

    assert lag(progress(end, latest)) == [SourceLag("ORDERS", behind, 11)]


@pytest.mark.parametrize("foreign", [None, "17", "not JSON", {"topic": {"0": 5}}, 17, [1]])
def test_sources_of_other_formats_are_left_out(foreign: Any) -> None:
    assert lag(progress(foreign, foreign)) == []


def test_a_query_without_a_progress_has_no_lag() -> None:
    class Query:
        lastProgress = None  # noqa: N815 - Spark's name

    assert lag(Query()) == []  # type: ignore[arg-type]


def test_a_report_is_json_with_rows_bytes_and_lag() -> None:
    seen = Row(rows=7, bytes=70, newest=None)

    report = progress_report(progress(offset(2, 11), offset(2, 16), observedMetrics={"in": seen}))

    assert json.loads(json.dumps(report)) == {
        "event": "progress", "query": "bills", "id": "i", "runId": "r", "batch": 3,
        "time": "2026-11-15T12:00:00Z", "rows": 7, "rowsPerSecond": 1.5, "bytes": 70,
        "lag": {"ORDERS": 5}, "durationsMs": {"addBatch": 12},
        "observed": {"in": {"rows": 7, "bytes": 70, "newest": None}},
    }  # fmt: skip


def test_a_stream_that_is_read_twice_is_as_late_as_its_slower_read() -> None:
    """As in a self join, whose sources have positions of their own."""
    sources = [
        {"endOffset": offset(2, at), "latestOffset": latest}
        for at, latest in ((4, offset(2, 16)), (11, offset(2, 16)), (2, None))
    ]

    report = progress_report(progress(None, None, sources=sources))

    assert report["lag"] == {"ORDERS": 12}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_json_does_not_have_is_text(value: float) -> None:
    seen = Row(mean=value)

    report = progress_report(progress(None, None, observedMetrics={"in": seen}))

    assert json.loads(json.dumps(report, allow_nan=False))["observed"] == {
        "in": {"mean": str(value)}
    }


def test_an_error_in_the_function_is_logged_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_report: dict[str, Any]) -> None:
        raise RuntimeError("no room")

    class Event:
        progress = progress(offset(2, 1), offset(2, 1))

    with caplog.at_level(logging.ERROR):
        ProgressListener(broken).onQueryProgress(Event())  # type: ignore[arg-type]

    assert "no room" in caplog.text
