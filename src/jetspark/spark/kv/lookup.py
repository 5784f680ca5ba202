"""``kv_lookup``: the values of a bucket as a column, for streaming enrichment."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jetspark.spark.connection_settings import CONNECTION_OPTIONS, Connection, parse_connection
from jetspark.spark.needs import needs_spark
from jetspark.spark.option_reader import OptionReader, Use
from jetspark.subjects.tokens import bucket_name_problem

if TYPE_CHECKING:
    from pyspark.sql import Column


def kv_lookup(
    key: "Column | str",
    bucket: str,
    *,
    max_staleness: float | timedelta = 0.0,
    **options: str,
) -> "Column":
    """Return a column with the value of each key in a bucket: ``value, revision, timestamp``.

    It is NULL where the bucket has no value. Values are as new as the bucket was when Spark handed
    the rows to Python (up to 10,000 at a time), or up to ``max_staleness`` seconds older, which
    saves a request for each of these. ``options`` are the connection options.
    """
    with needs_spark():
        import pyarrow as pa
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.functions import arrow_udf

        from jetspark.spark.kv.lookup_values import RESULT, LookupPlan
        from jetspark.spark.same_version import Carried

    problem = bucket_name_problem(bucket)
    if problem is not None:
        raise ValueError(f"kv_lookup: {bucket!r} is not a bucket name: {problem}")
    stale_s = (
        max_staleness.total_seconds() if isinstance(max_staleness, timedelta) else max_staleness
    )
    seconds: object = stale_s
    if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise ValueError(
            f"kv_lookup: max_staleness is {max_staleness!r}: expected 0 or more seconds, or a "
            "timedelta"
        )
    carried = Carried(LookupPlan(_connection(options), bucket, float(stale_s)))

    # Spark evaluates the annotations, and requires types there.
    def look_up(keys: pa.Array) -> pa.Array:
        from jetspark.spark.kv.lookup_values import lookup_of

        return lookup_of(carried.value).look_up(keys)

    # Its stub requires the kind of function, about which Spark then warns.
    make: Any = arrow_udf
    # Another call may see another value: Spark must neither repeat nor move it.
    made = make(look_up, returnType=RESULT).asNondeterministic()
    column: Column = made(f.col(key) if isinstance(key, str) else key)
    return column


def _connection(options: Mapping[str, str]) -> Connection:
    reader = OptionReader("kv_lookup", options, Use.CALL, {Use.CALL: CONNECTION_OPTIONS})
    connection = parse_connection(reader)
    reader.finish()
    return connection
