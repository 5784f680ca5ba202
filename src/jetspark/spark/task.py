"""What a task can find out about the query that it belongs to."""

import gc
from functools import cache
from typing import Final

from pyspark import TaskContext

_BATCH_ID: Final = "streaming.sql.batchId"


def in_micro_batch() -> bool:
    """Say whether this is a task of a streaming query, or of a query inside ``foreachBatch``."""
    return local_property(_BATCH_ID) is not None


def local_property(name: str) -> str | None:
    """Return a property of the job; None where it is not set, and outside of tasks."""
    context = TaskContext.get()
    if context is None:
        return None
    value: str | None = context.getLocalProperty(name)
    return value


def spare_collections() -> None:
    """Keep what a worker process has imported out of its garbage collections.

    Spark collects garbage after every task and keeps the process. Most of what is looked through
    are modules, which never become garbage: 20 ms or more, for a small task most of its time.
    """
    if TaskContext.get() is not None:
        _freeze_once()


@cache
def _freeze_once() -> None:
    # What is garbage already would stay for good.
    gc.collect()
    gc.freeze()
