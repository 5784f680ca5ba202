"""The state of each flow of a continuous run in a bucket, where the dashboard shows it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.dashboard.flow_report import BEAT_S, FlowReport
from jetspark.errors import Error
from jetspark.spark.pipelines.progress import (
    Event,
    FlowFailed,
    FlowProgress,
    FlowStarted,
    RunStopped,
)

if TYPE_CHECKING:
    from jetspark import sync

# Progress comes several times a second, which is more than a page shows.
EVERY_S: Final = 2.0
# A server that is away must not hold up the flows for longer.
_TIMEOUT_S: Final = 1.0


class FlowReports:
    """Writes a report per flow, one key each: ``PROJECT.FLOW``."""

    def __init__(
        self,
        project: str,
        bucket: "sync.KeyValue",
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project = project
        self._bucket = bucket
        self._say = say
        self._clock = clock
        self._reports: dict[str, FlowReport] = {}
        self._written: dict[str, float] = {}
        self._unwritten: set[str] = set()
        """Flows whose last progress came too soon after the one before."""
        self._problem = ""

    def take(self, event: Event) -> None:
        """Note an event; a changed state is written at once."""
        match event:
            case FlowStarted():
                report = self._of(event.flow)
                report.start(event.target, event.query)
                self._write(report)
            case FlowFailed():
                report = self._of(event.flow)
                report.fail(event.error, restarts=event.restart_seconds is not None)
                self._write(report)
            case FlowProgress():
                report = self._of(event.flow)
                report.advance(event.epoch, event.lag, event.violations)
                if event.rows:
                    report.count_rows(event.rows, event.rows_per_second, event.batch_seconds)
                self._unwritten.add(event.flow)
                self.look()
            case RunStopped():
                for report in self._reports.values():
                    report.stop()
                    self._write(report)

    def look(self) -> None:
        """Write what is due by now; call it often."""
        for report in self._reports.values():
            age = self._clock() - self._written.get(report.flow, -BEAT_S)
            alive = report.state in {"running", "restarting"}
            if age >= (EVERY_S if report.flow in self._unwritten else BEAT_S) and alive:
                self._write(report)

    def _of(self, flow: str) -> FlowReport:
        empty = FlowReport(project=self._project, flow=flow, state="running")
        return self._reports.setdefault(flow, empty)

    def _write(self, report: FlowReport) -> None:
        """Write it; a server that does not answer is no reason to end the run."""
        report.date(datetime.now(UTC))
        self._written[report.flow] = self._clock()
        self._unwritten.discard(report.flow)
        key = f"{_token(self._project)}.{_token(report.flow)}"
        try:
            self._bucket.put(key, msgspec.json.encode(report), timeout=_TIMEOUT_S)
        except Error as error:
            if str(error) != self._problem:
                self._say(f"The state of {report.flow} was not reported: {error}")
            self._problem = str(error)
        else:
            self._problem = ""


def _token(name: str) -> str:
    """Return a name as one token of a key; other characters become underscores."""
    return "".join(
        one if one.isascii() and (one.isalnum() or one in "-_") else "_" for one in name
    )
