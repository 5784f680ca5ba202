"""What a continuous run of a pipeline writes about each flow, and the dashboard shows.

Both import it from here: the command that runs pipelines needs neither the dashboard's web server
nor this module more than its fields.
"""

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
