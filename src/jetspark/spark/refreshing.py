"""``refresh``: plan the reads of a DataFrame or view again.

Spark plans the read of a Python format once for each ``load()`` and keeps the plan: it does not
include messages stored later. No public API discards it, so the field that holds it is reset in
the JVM. Every step is checked; if a version of Spark differs, ``RefreshFailed`` is raised.
"""

from typing import TYPE_CHECKING, Any, Final, cast

from jetspark.errors import Error
from jetspark.spark.kv.options import KV_FORMAT
from jetspark.spark.needs import needs_spark
from jetspark.spark.objects.options import OBJECT_FORMAT
from jetspark.spark.stream.options import FORMAT_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS: Final = (FORMAT_NAME, KV_FORMAT, OBJECT_FORMAT)

_RELATION: Final = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_TABLE: Final = "org.apache.spark.sql.execution.datasources.v2.python.PythonTable"


class RefreshFailed(Error):
    """The reads of a DataFrame or view cannot be planned again; the text says what to do."""


def refresh(query: "DataFrame | str") -> "DataFrame":
    """Return ``query`` as a DataFrame that reads the current contents of streams and buckets.

    ``query`` is a DataFrame, or the name of a temporary view; everything built on the same
    ``load()`` is planned again by its next query, so a view need not be created again. Use the
    returned DataFrame: one that was already collected keeps its plan.

    Raises ``RefreshFailed`` for a DataFrame of Spark Connect, for a cached one, and for one that
    reads nothing through jetspark.
    """
    with needs_spark():
        from pyspark.sql import DataFrame

    frame = _table(query) if isinstance(query, str) else query
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise RefreshFailed(
            "a DataFrame of Spark Connect cannot be refreshed because its plan is on the server: "
            "call spark.read.format(...).load() again"
        )
    session = frame.sparkSession
    java_session = cast("Any", session)._jsparkSession  # noqa: SLF001 - no public API
    plan = cast("Any", frame)._jdf.queryExecution().analyzed()  # noqa: SLF001
    tables = _tables(plan)
    if not tables:
        raise RefreshFailed(
            f"nothing to refresh: the query has no batch read of format {', '.join(FORMATS)}"
        )
    jvm = cast("Any", session)._jvm  # noqa: SLF001
    fresh = jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session, plan)
    if len(_tables(fresh.queryExecution().withCachedData())) < len(tables):
        raise RefreshFailed(
            "the DataFrame or a part of it is cached, so Spark would return the cached rows: "
            "call unpersist() first"
        )
    for table in tables:
        _forget_plan(table)
    return DataFrame(fresh, session)


def _table(name: str) -> "DataFrame":
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise RefreshFailed(
            f"view {name!r}: no Spark session is active; create one, and the view in it"
        )
    return session.table(name)


def _tables(plan: Any) -> list[Any]:
    """Return the tables of a plan, its views and subqueries that are read through jetspark."""
    found: list[Any] = []
    for each in (plan, *_items(plan.subqueriesAll())):
        for leaf in _items(each.collectLeaves()):
            if leaf.getClass().getName() != _RELATION:
                continue
            table = leaf.table()
            if table.getClass().getName() == _TABLE and table.name() in FORMATS:
                found.append(table)
    return found


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _forget_plan(table: Any) -> None:
    """Make Spark plan the next read of ``table`` again."""
    from py4j.protocol import Py4JError

    try:
        holder = _field(table, "ds")
        holder.setReadInfo(None)
        kept = _field(holder, "readInfo")
    except Py4JError as error:
        raise RefreshFailed(
            "this version of Spark stores the plan of a read in a way that jetspark does not "
            f"support: call spark.read.format({table.name()!r})...load() again ({error})"
        ) from error
    if kept is not None:
        raise RefreshFailed(
            "this version of Spark did not discard the plan of a read: call "
            f"spark.read.format({table.name()!r})...load() again"
        )


def _field(owner: Any, name: str) -> Any:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)
