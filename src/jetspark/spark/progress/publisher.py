"""Publishing the progress of streaming queries to a subject."""

import json
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jetspark.spark.connection_settings import CONNECTION_OPTIONS, parse_connection
from jetspark.spark.connections import ConnectionCache, connect
from jetspark.spark.option_reader import OptionReader, Use
from jetspark.spark.progress.reports import Report, await_reports, watch
from jetspark.subjects.tokens import is_valid_literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ProgressPublisher:
    """Publishes a report of every progress of every streaming query, until it is closed."""

    def __init__(self, spark: "SparkSession", subject: str, options: dict[str, str]) -> None:
        if not is_valid_literal(subject.encode()):
            raise ValueError(
                f"publish_progress: {subject!r} is not a subject without wildcards, spaces or "
                "empty tokens"
            )
        names = {Use.CALL: CONNECTION_OPTIONS}
        reader = OptionReader("publish_progress", options, Use.CALL, names)
        self._connection = parse_connection(reader)
        reader.finish()
        self._subject = subject
        self._spark = spark
        # Its own connection: Spark calls listeners in a thread.
        self._connections = ConnectionCache(connect)
        # A wrong address, password or permission is an error now, not in a log later.
        with self._connections.borrow(self._connection) as client:
            client.flush()
        self._listener = watch(spark, self._publish)

    def close(self) -> None:
        """Publish what Spark still has to report, stop, and close the connection."""
        await_reports(self._spark)
        self._spark.streams.removeListener(self._listener)
        self._connections.close()

    def __enter__(self) -> Self:
        """Return the publisher."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop publishing."""
        self.close()

    def _publish(self, report: Report) -> None:
        with self._connections.borrow(self._connection) as client:
            client.publish(self._subject, json.dumps(report).encode())
            client.flush()


def publish_progress(spark: "SparkSession", subject: str, **options: str) -> ProgressPublisher:
    """Publish the progress of all streaming queries of ``spark`` to ``subject``, as JSON.

    ``publish_progress(spark, "spark.progress", servers="nats://127.0.0.1:4222")``; the options are
    the connection options of the formats. Each message is a report as ``watch`` passes it: rows,
    bytes, lag by stream, durations, the start and the end of a query. A stream that stores the
    subject keeps a history. If no server answers, reports are dropped and the error is logged; the
    query is not affected. ``close()``, or leaving ``with``, ends it, after the reports of what has
    happened so far (over Spark Connect, without those that have not arrived).
    """
    return ProgressPublisher(spark, subject, options)
