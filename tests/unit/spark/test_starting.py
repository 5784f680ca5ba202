"""Queries of one session are started one after the other (docs/spark.md, "Failures")."""

from typing import TYPE_CHECKING, Any, cast

from jetspark.spark import wait_for_source

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Query:
    """A query that says one thing after the other, then the last one for ever."""

    def __init__(self, *messages: str, is_active: bool = True) -> None:
        self._messages = list(messages)
        self.isActive = is_active

    @property
    def status(self) -> dict[str, Any]:
        last = len(self._messages) == 1
        return {"message": self._messages[0] if last else self._messages.pop(0)}

    @property
    def query(self) -> "StreamingQuery":
        return cast("StreamingQuery", self)


def test_a_source_is_waited_for_until_its_query_continues() -> None:
    starting = Query("Initializing sources", "Getting offsets from X", "Processing new data")

    assert wait_for_source(starting.query)
    assert starting.status["message"] == "Processing new data"


def test_a_source_that_does_not_start_is_reported() -> None:
    assert not wait_for_source(Query("Getting offsets from X").query, timeout=0.05)


def test_a_query_that_has_ended_is_not_waited_for() -> None:
    assert wait_for_source(Query("Initializing sources", is_active=False).query)
