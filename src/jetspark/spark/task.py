"""What a task can find out about the query that it belongs to."""

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
