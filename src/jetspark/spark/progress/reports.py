"""Progress reports of a streaming query: rows, bytes, durations, and lag.

Spark 4.3 gives Python sources no place in ``StreamingQueryProgress.metrics``, and shows them in a
plan as ``(Python)``. It does report the offsets of each source, which contain sequences, and
observed metrics (``observed``): everything here is derived from these two.
"""

import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from jetspark.spark.needs import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery

Report = dict[str, Any]

_log = logging.getLogger("jetspark.spark.progress")

# Spark calls listeners in a thread: a query that has ended may not have been reported yet.
_REPORTED_MS: Final = 10_000


class SourceLag(NamedTuple):
    """The lag of one source of a query."""

    stream: str
    """The name of the stream; for a bucket ``KV_<bucket>``."""
    behind: int | None
    """Sequences not read yet; None if Spark did not report the end of the stream."""
    next: int
    """The first sequence that the query has not read."""


def lag(query: "StreamingQuery | Mapping[str, Any]") -> list[SourceLag]:
    """Return the lag of each stream or bucket that a query reads.

    ``query`` is a streaming query, or a progress of one (``query.lastProgress``, a listener's
    ``event.progress``, or its JSON as a dict). The figures are from the time when Spark planned
    the reported micro-batch, once that batch has been read; a query without a report yet has none.
    Sequences are counted: with a subject filter, or if messages were deleted, fewer messages may
    be left.
    """
    progress = query if isinstance(query, Mapping) else query.lastProgress
    if not progress:
        return []
    found: list[SourceLag] = []
    for source in progress["sources"]:
        latest = positions(source.get("latestOffset"))
        begins = _begins(source.get("latestOffset"))
        for stream, (following, created) in positions(source.get("endOffset")).items():
            behind = None
            if stream in latest:
                end, made = latest[stream]
                # Nothing was read of a stream that was deleted and created again.
                begin = following if made == created else begins.get(stream, 1)
                behind = max(end - begin, 0)
            found.append(SourceLag(stream, behind, following))
    return found


def lag_by_stream(progress: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the lag of each stream; of several reads of one, as in a self join, the largest."""
    found: dict[str, int | None] = {}
    for each in lag(progress):
        known = [one for one in (found.get(each.stream), each.behind) if one is not None]
        found[each.stream] = max(known, default=None)
    return found


def watch(
    spark: "SparkSession", report: Callable[[Report], None] | None = None
) -> "StreamingQueryListener":
    """Call ``report`` for every progress of every streaming query of ``spark``.

    It gets a dict for ``json.dumps``, see ``progress_report``; ``{"event": "terminated"}`` with
    ``error`` at the end of a query. Without ``report`` the dicts are logged as JSON to the logger
    ``jetspark.spark.progress``. Works with classic Spark and with Connect, where ``report`` runs
    in the client. An error in ``report`` is logged and does not affect the query.
    ``spark.streams.removeListener(...)`` with the returned listener ends it; Spark reports the end
    of a query a little after ``awaitTermination`` has returned.
    """
    with needs_spark():
        from jetspark.spark.progress.listener import ProgressListener

    listener = ProgressListener(report or _log_report)
    spark.streams.addListener(listener)
    return listener


def await_reports(spark: "SparkSession") -> None:
    """Wait until listeners were called for everything that queries have done so far.

    Without it, a listener that is removed after ``awaitTermination`` misses the last reports. A
    Connect client does not know what its server has not sent yet.
    """
    context = getattr(cast("Any", spark), "_sc", None)
    if context is None or context._jsc is None:  # noqa: SLF001 - Spark Connect, or Spark has ended
        return
    from py4j.protocol import Py4JError

    try:
        context._jsc.sc().listenerBus().waitUntilEmpty(_REPORTED_MS)  # noqa: SLF001
    except Py4JError as error:
        _log.warning("the last reports of streaming queries may be missing: %s", error)


def progress_report(progress: Mapping[str, Any]) -> Report:
    """Convert a progress to plain values.

    ``query`` (its name), ``id``, ``runId``, ``batch``, ``time``, ``rows``, ``rowsPerSecond``;
    ``bytes`` as counted by ``observed``, else None; ``lag`` by stream; ``durationsMs`` by step;
    ``observed`` with the metrics of every observation by name.
    """
    observed = {
        name: {key: _plain(value) for key, value in _items(row)}
        for name, row in (progress["observedMetrics"] or {}).items()
    }
    counted = [each["bytes"] for each in observed.values() if each.get("bytes") is not None]
    return {
        "event": "progress",
        "query": progress["name"],
        "id": str(progress["id"]),
        "runId": str(progress["runId"]),
        "batch": progress["batchId"],
        "time": progress["timestamp"],
        "rows": progress["numInputRows"],
        "rowsPerSecond": progress["processedRowsPerSecond"],
        "bytes": sum(counted) if counted else None,
        "lag": lag_by_stream(progress),
        "durationsMs": dict(progress["durationMs"]),
        "observed": observed,
    }


def _log_report(report: Report) -> None:
    _log.info("%s", json.dumps(report))


def positions(offset: Any) -> dict[str, tuple[int, str]]:
    """Return the next sequence and the time of creation by stream, of an offset or its JSON.

    Empty for sources of other formats.

    Versions 1 and 2 of the offset have the same two fields.
    """
    return {
        name: (place["next"], str(place["created"]))
        for name, place in _places(offset).items()
        if isinstance(place.get("next"), int) and "created" in place
    }


def _begins(offset: Any) -> dict[str, int]:
    """Return the first sequences of the streams, as far as a reported end has them."""
    return {
        name: place["from"]
        for name, place in _places(offset).items()
        if isinstance(place.get("from"), int)
    }


def _places(offset: Any) -> dict[str, Mapping[str, Any]]:
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    if not isinstance(offset, Mapping):
        return {}
    streams = offset.get("streams")
    if not isinstance(streams, Mapping):
        return {}
    return {str(name): place for name, place in streams.items() if isinstance(place, Mapping)}


def _items(row: Any) -> list[tuple[str, Any]]:
    return list((row if isinstance(row, Mapping) else row.asDict()).items())


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
