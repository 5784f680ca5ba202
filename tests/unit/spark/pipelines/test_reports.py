"""A continuous run reports the state of its flows to a bucket, where the dashboard shows it."""

from collections.abc import Iterator

import msgspec
import pytest

from jetspark import sync
from jetspark.cli.pipeline.reports import FlowReports
from jetspark.dashboard.flow_report import FlowReport
from jetspark.errors import Error
from jetspark.spark.pipelines.progress import FlowFailed, FlowProgress, FlowStarted, RunStopped


def progress(rows: int, *, lag: int, violating: int = 0) -> FlowProgress:
    return FlowProgress(
        flow="orders",
        time="2026-11-18T12:00:00Z",
        epoch=7,
        rows=rows,
        rows_per_second=2.0 * rows,
        batch_seconds=0.5,
        lag=lag,
        observed={"expectations": {"violating": violating}, "other": {"rows": 1}},
    )


@pytest.fixture
def bucket() -> Iterator[sync.KeyValue]:
    with sync.Server() as server, sync.connect(server.client_url) as client:
        yield client.jetstream().create_key_value("PROGRESS")


def test_a_changed_state_is_written_at_once_and_progress_every_two_seconds(
    bucket: sync.KeyValue,
) -> None:
    now = 0.0
    reports = FlowReports("my shop", bucket, print, lambda: now)

    def stored() -> FlowReport:
        return msgspec.json.decode(bucket.get("my_shop.orders").value, type=FlowReport)

    reports.take(FlowStarted(flow="orders", target="orders", query="q"))
    assert (stored().state, stored().target) == ("running", "orders")
    reports.take(progress(100, lag=50, violating=3))
    assert stored().rows == 0
    now = 2.0
    reports.take(progress(10, lag=5, violating=1))
    found = stored()
    assert (found.rows, found.lag, found.violations, found.epoch) == (110, 5, 4, 7)
    assert found.rows_per_second == 20.0
    reports.take(FlowFailed(flow="orders", error="why", restart_seconds=1.0))
    assert (stored().state, stored().error, stored().failures) == ("restarting", "why", 1)
    reports.take(RunStopped(flows=1))
    assert stored().state == "stopped"


def test_the_last_progress_is_written_and_an_idle_flow_is_reported_again_and_again(
    bucket: sync.KeyValue,
) -> None:
    now = 0.0
    reports = FlowReports("shop", bucket, print, lambda: now)

    def stored() -> tuple[int, int]:
        entry = bucket.get("shop.orders")
        return entry.revision, msgspec.json.decode(entry.value, type=FlowReport).rows

    reports.take(FlowStarted(flow="orders", target="orders", query="q"))
    now = 1.0
    reports.take(progress(100, lag=0))
    reports.look()
    assert stored() == (1, 0)
    now = 2.0
    reports.look()
    assert stored() == (2, 100)
    now = 11.0
    reports.look()
    assert stored() == (2, 100)
    now = 12.0
    reports.look()
    assert stored() == (3, 100)
    reports.take(RunStopped(flows=1))
    now = 60.0
    reports.look()
    assert stored() == (4, 100)


def test_a_report_that_cannot_be_written_is_said_once_and_the_run_continues() -> None:
    class Away:
        def put(self, *_: object, **__: object) -> int:
            raise Error("no server answers")

    said: list[str] = []
    now = 0.0
    reports = FlowReports("shop", Away(), said.append, lambda: now)  # type: ignore[arg-type]

    for now in (0.0, 2.0, 4.0):  # noqa: B007
        reports.take(progress(1, lag=0))

    assert said == ["The state of orders was not reported: no server answers"]
