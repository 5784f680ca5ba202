"""A listener of streaming queries that passes their reports to a function.

A separate module because importing its base class imports pyspark.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from jetspark.spark.progress.reports import Report, progress_report

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger("jetspark.spark.progress")


class ProgressListener(StreamingQueryListener):
    """Calls a function at the start, with each progress, and at the end of each query."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report

    # The names below are Spark's.

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802
        """Report the start of a query."""
        self._call(
            lambda: {
                "event": "started",
                "query": event.name,
                "id": str(event.id),
                "runId": str(event.runId),
            }
        )

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        """Report a micro-batch, or that there was nothing to read for a while."""
        self._call(lambda: progress_report(event.progress))

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Do nothing: an idle query has no new figures."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        """Report the end of a query, with the error that ended it."""
        self._call(
            lambda: {
                "event": "terminated",
                "id": str(event.id),
                "runId": str(event.runId),
                "error": event.exception,
            }
        )

    def _call(self, made: Callable[[], Report]) -> None:
        try:
            self._report(made())
        except Exception:  # noqa: BLE001 - the user's function may raise anything
            # Spark would drop it silently, or log it in the JVM.
            _log.exception("the report function for streaming queries failed")
