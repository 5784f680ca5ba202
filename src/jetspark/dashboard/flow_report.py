"""The report of a flow: written by a continuous run of a pipeline, shown by the dashboard.

Both import it from here: the command that runs pipelines needs neither the dashboard's web server
nor this module more than its fields.
"""

from datetime import datetime
from typing import Final

import msgspec

# A flow without messages makes no progress: its report is renewed, so that a run that was killed
# can be distinguished from one that waits.
BEAT_S: Final = 10.0
# Without a report for so long, the run was killed or cannot reach the server.
SILENT_S: Final = 3 * BEAT_S


class FlowReport(msgspec.Struct, kw_only=True):
    """What is known about a flow; the dashboard recognises it by its first three fields."""

    project: str
    flow: str
    state: str
    """``running``, ``restarting``, ``failed`` or ``stopped``."""
    target: str = ""
    query: str = ""
    epoch: int | None = None
    rows: int = 0
    """Rows of this run."""
    rows_per_second: float = 0.0
    """Of the last micro-batch with rows."""
    batch_seconds: float = 0.0
    lag: int | None = None
    violations: int = 0
    """Rows of this run that violate an expectation."""
    failures: int = 0
    error: str = ""
    time: str = ""

    def start(self, target: str, query: str) -> None:
        """Note that its query was started."""
        self.target, self.query, self.state = target, query, "running"

    def fail(self, error: str, *, restarts: bool) -> None:
        """Note that its query failed."""
        self.state = "restarting" if restarts else "failed"
        self.error = error
        self.failures += 1

    def advance(self, epoch: int, lag: int | None, violations: int) -> None:
        """Note a micro-batch; an unknown lag leaves the last one."""
        self.epoch = epoch
        if lag is not None:
            self.lag = lag
        self.violations += violations

    def count_rows(self, rows: int, per_second: float, batch_seconds: float) -> None:
        """Note the rows of a micro-batch that had some."""
        self.rows += rows
        self.rows_per_second = per_second
        self.batch_seconds = batch_seconds

    def stop(self) -> None:
        """Note that the run has ended; a flow that failed stays failed."""
        self.state = "failed" if self.state == "failed" else "stopped"

    def date(self, now: datetime) -> None:
        """Set the time of the report."""
        self.time = now.isoformat()
