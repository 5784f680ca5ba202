"""``expect``: each row is in one part, and the counts agree, in batch and streaming queries."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from jetspark.spark import expect, progress_report

RULES = {"positive": "amount > 0", "known": "region IN ('eu', 'us')", "named": "id IS NOT NULL"}
ROWS = [
    (1, "eu", 5),
    (2, "us", 0),
    (3, None, -1),
    (None, "eu", 1),
    (5, "us", None),
    (6, "eu", 2),
]
SCHEMA = "id long, region string, amount long"


def _violated(row: tuple[Any, ...]) -> list[str]:
    """The rules again, in Python."""
    number, region, amount = row
    found = []
    if amount is None or amount <= 0:
        found.append("positive")
    if region not in {"eu", "us"}:
        found.append("known")
    if number is None:
        found.append("named")
    return found


def test_every_row_is_valid_or_quarantined_with_its_reasons(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA)
    checked = expect(rows, {**RULES, "known": functions.col("region").isin("eu", "us")})

    valid = [tuple(row) for row in checked.valid.collect()]
    bad = {tuple(row)[:3]: row._violations for row in checked.quarantined.collect()}
    marked = {tuple(row)[:3]: row._violations for row in checked.marked.collect()}

    assert sorted(valid) == [row for row in ROWS if not _violated(row)]
    assert bad == {row: _violated(row) for row in ROWS if _violated(row)}
    assert marked == {row: _violated(row) for row in ROWS}
    with pytest.raises(PySparkException, match=r"expectation positive is violated by .*\"id\":2"):
        expect(rows.coalesce(1), RULES).required.collect()
    dotted = rows.withColumnsRenamed({"id": "order.id", "region": "a`b"})
    with pytest.raises(PySparkException, match=r"is violated by .*\"order.id\":2"):
        expect(dotted.coalesce(1), {"positive": "amount > 0"}).required.collect()
    good = rows.where("id IN (1, 6)")
    assert expect(good, RULES).required.count() == 2

    # A streaming query reports the counts of its micro-batch.
    rows.write.parquet(str(tmp_path / "rows"))
    source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "rows"))
    stored: list[tuple[Any, ...]] = []

    def each(batch: DataFrame, _: int) -> None:
        stored.extend(tuple(row) for row in batch.collect())

    writer = expect(source, RULES, name="quality").valid.writeStream.foreachBatch(each)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(stored) == sorted(valid)
    report = progress_report(query.lastProgress)  # type: ignore[arg-type]
    assert report["observed"]["quality"] == {
        "rows": 6,
        "violating": 4,
        "positive": 3,
        "known": 1,
        "named": 1,
    }


def test_rules_without_a_usable_name_are_refused(spark: SparkSession) -> None:
    rows = spark.range(1)

    for rules, said in (
        ({}, "rules is {}: expected names and conditions"),
        ({"a b": "true"}, "'a b'"),
        ({"Rows": "true"}, "'Rows'"),
    ):
        with pytest.raises(ValueError, match=said):
            expect(rows, rules)
    with pytest.raises(ValueError, match="already have a column '_violations'"):
        expect(rows.toDF("_violations"), {"a": "true"})
