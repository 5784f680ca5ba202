"""A refused streaming reader: it raises the reason when Spark first uses it.

An error in ``streamReader`` itself is hidden by pyspark: its runner stops the reader that it never
got and fails with ``UnboundLocalError``, which is then the last line that a user sees. So the
error is kept, and raised by Spark's first call.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from jetspark.errors import Error


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises ``reason`` for every call of a query."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason

    # The names below are Spark's.

    def initialOffset(self) -> NoReturn:  # noqa: N802
        """Raise the reason."""
        raise self.reason

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, Any],  # noqa: ARG002
        limit: ReadLimit,  # noqa: ARG002
    ) -> NoReturn:
        """Raise the reason."""
        raise self.reason

    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802
        """Raise the reason."""
        raise self.reason

    def prepareForTriggerAvailableNow(self) -> NoReturn:  # noqa: N802
        """Raise the reason."""
        raise self.reason

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002
        """Raise the reason."""
        raise self.reason

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002
        """Raise the reason."""
        raise self.reason

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: nothing was read."""

    def stop(self) -> None:
        """Do nothing: nothing was opened."""


def reader_or_refusal(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return the result of ``make``, or a reader that raises its error."""
    try:
        return make()
    except Error as error:
        return RefusedStreamReader(error)
