"""Starting several streaming queries in one session."""

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SOURCE_START_S: Final = 30.0
STEP_S: Final = 0.02


def wait_for_source(query: "StreamingQuery", *, timeout: float = SOURCE_START_S) -> bool:
    """Wait until the sources of a query are running; call it before you start the next query.

    Spark 4.3 puts settings for Python into a map that all sources of a format share, without a
    lock. Two sources that start at the same time can corrupt it: then no task can be read any more
    (``java.io.OptionalDataException``) until Spark is restarted. False if they were not running
    within ``timeout`` seconds; returns at once for a query that has ended or failed.
    """
    deadline = time.monotonic() + timeout
    while query.isActive:
        if not query.status["message"].startswith(("Initializing", "Getting offsets")):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(STEP_S)
    return True
