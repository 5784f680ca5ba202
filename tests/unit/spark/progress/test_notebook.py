"""The view of a query for notebooks, from reports as Spark makes them."""

from typing import Any
from xml.etree import ElementTree as ET

from jetspark.spark import progress_view


def _progress(batch: int, places: dict[str, tuple[int, int]]) -> dict[str, Any]:
    def offset(at: int) -> dict[str, Any]:
        streams = {name: {"next": one[at], "created": "t"} for name, one in places.items()}
        return {"v": 2, "streams": streams}

    return {
        "name": "copy <1>",
        "id": "i",
        "runId": "r",
        "batchId": batch,
        "timestamp": "2026-11-18T00:00:00Z",
        "numInputRows": 5,
        "processedRowsPerSecond": 1234.5,
        "observedMetrics": {},
        "durationMs": {},
        "sources": [{"endOffset": offset(0), "latestOffset": offset(1)}],
    }


class _Query:
    name = "copy <1>"
    id = "i"

    def __init__(self, *reports: dict[str, Any]) -> None:
        self.recentProgress = reports


def _view(*reports: dict[str, Any]) -> Any:
    return progress_view(_Query(*reports))  # type: ignore[arg-type]


def test_a_query_without_reports_says_so() -> None:
    view = _view()

    assert repr(view) == "copy <1>: no progress yet"
    assert view._repr_html_() == "<p>copy &lt;1&gt;: no progress yet</p>"


def test_the_view_has_the_position_and_lag_of_each_stream_and_a_plot() -> None:
    first = _progress(0, {"A": (5, 105)})
    second = _progress(1, {"A": (55, 105), "B": (1, 11)})

    view = _view(first, second)
    page = ET.fromstring(f"<div>{view._repr_html_()}</div>")

    assert repr(view).splitlines() == [
        "copy <1>: micro-batch 1, 5 rows, 1,234 rows/s",
        "  A: at 55, 50 unread",
        "  B: at 1, 10 unread",
    ]
    assert [[cell.text for cell in row] for row in page.iter("tr")] == [
        ["stream", "next sequence", "lag"],
        ["A", "55", "50 unread"],
        ["B", "1", "10 unread"],
    ]
    assert [line.get("points") for line in page.iter("polyline")] == [
        "0.0,0.0 480.0,40.0",
        "480.0,72.0",
    ]


def test_a_stream_that_is_read_twice_has_one_line_in_the_plot() -> None:
    twice = _progress(0, {"A": (5, 105)})
    twice["sources"] = [*twice["sources"], *_progress(0, {"A": (55, 105)})["sources"]]

    page = ET.fromstring(f"<div>{_view(twice, twice)._repr_html_()}</div>")

    assert [line.get("points") for line in page.iter("polyline")] == ["0.0,0.0 480.0,0.0"]
