"""Properties of a task's job, and the garbage collection of its worker process."""

import gc
from functools import cache
from typing import Final

from pyspark import TaskContext

_BATCH_ID: Final = "streaming.sql.batchId"


def in_micro_batch() -> bool:
    """Whether this is a task of a streaming query, or of a query inside ``foreachBatch``."""
    return local_property(_BATCH_ID) is not None


def local_property(name: str) -> str | None:
    """Return a property of the job; None if it is not set, and outside tasks."""
    context = TaskContext.get()
    if context is None:
        return None
    value: str | None = context.getLocalProperty(name)
    return value


def spare_collections() -> None:
    """Exclude what a worker process has imported from its garbage collections.

    Spark collects garbage after every task and keeps the process. Most objects are modules, which
    never become garbage: 20 ms or more, most of the time of a small task.
    """
    if TaskContext.get() is not None:
        _freeze_once()


@cache
def _freeze_once() -> None:
    # Existing garbage would stay forever.
    gc.collect()
    gc.freeze()
