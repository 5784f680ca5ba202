"""``kv_merge``: merge rows into a bucket, and report what was not written."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from jetspark.spark.connection_settings import CONNECTION_OPTIONS, Connection, parse_connection
from jetspark.spark.needs import needs_spark
from jetspark.spark.option_reader import OptionReader, Use
from jetspark.subjects.tokens import bucket_name_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MATCHED: Final = ("update", "delete", "ignore")
NOT_MATCHED: Final = ("insert", "ignore")


@dataclass(frozen=True)
class MergeReport:
    """What a merge did with its rows."""

    written: int
    """Keys that were inserted or updated."""
    deleted: int
    ignored: int
    """Rows that nothing was to be done with."""
    conflicts: "DataFrame"
    """Rows that were not written: ``key``, their ``expected_revision``, and the ``revision`` that
    the key had instead (NULL: it did not exist)."""


def kv_merge(
    rows: "DataFrame",
    bucket: str,
    *,
    when_matched: str = "update",
    when_not_matched: str = "insert",
    **options: str,
) -> MergeReport:
    """Merge rows with the columns ``key`` and ``value`` into a bucket; runs at once.

    ``when_matched``: what to do with a key that has a value: ``"update"``, ``"delete"`` or
    ``"ignore"``; ``when_not_matched``: with one that has none: ``"insert"`` or ``"ignore"``. A
    column ``operation`` (``PUT``, ``DEL``, ``PURGE``) changes that for single rows: ``DEL`` and
    ``PURGE`` delete matched keys. Each decision is written with compare-and-set: if another writer
    changes the key meanwhile, it is made again. A row with an ``expected_revision`` (0: the key
    must have no value) is written only if the key has it, else it is a conflict in the report.
    ``options`` are the connection options.

    Every key may occur once. For ``foreachBatch`` too: a merge that is run again after a failure
    writes the same values.
    """
    with needs_spark():
        import pyarrow as pa
        from pyspark.sql import functions as f

        from jetspark.spark.kv.merge_tasks import (
            OUTCOMES,
            MergePlan,
            check_merge_columns,
            conflict_table,
            counted,
        )
        from jetspark.spark.same_version import Carried

    problem = bucket_name_problem(bucket)
    if problem is not None:
        raise ValueError(f"kv_merge: {bucket!r} is not a bucket name: {problem}")
    _check_word("when_matched", when_matched, MATCHED)
    _check_word("when_not_matched", when_not_matched, NOT_MATCHED)
    check_merge_columns(rows.schema)
    plan = MergePlan(
        connection=_connection(options),
        bucket=bucket,
        when_matched=when_matched,
        when_not_matched=when_not_matched,
        run=secrets.token_hex(8),
    )
    carried = Carried(plan)

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from jetspark.spark.kv.merge_tasks import TaskMerge

        return TaskMerge(carried.value).merge(batches)

    # The rows of a key meet in one task, which refuses a second one.
    outcomes = rows.repartition(f.col("key")).mapInArrow(cast("Any", merge), OUTCOMES)
    table = outcomes.toArrow()
    counts = counted(table)
    return MergeReport(
        counts["written"],
        counts["deleted"],
        counts["ignored"],
        rows.sparkSession.createDataFrame(
            conflict_table(table), "key string, expected_revision long, revision long"
        ),
    )


def _check_word(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"kv_merge: {name} is {given!r}: expected one of {', '.join(known)}")


def _connection(options: Mapping[str, str]) -> Connection:
    reader = OptionReader("kv_merge", options, Use.CALL, {Use.CALL: CONNECTION_OPTIONS})
    connection = parse_connection(reader)
    reader.finish()
    return connection
