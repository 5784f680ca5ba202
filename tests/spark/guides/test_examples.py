"""The examples that need Spark, in the session of the tests."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.examples import load

from jetspark import sync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_orders_are_summed_up_into_a_bucket(spark: "SparkSession", tmp_path: Path) -> None:
    example = load("spark_totals")
    with sync.Server(store_dir=tmp_path) as server, sync.connect(server.client_url) as client:
        example.fill(client)

        example.sum_up(spark, server.client_url)

        totals = {
            entry.key: int(entry.value)
            for entry in client.jetstream().key_value("totals").snapshot()
        }
    assert totals == {f"customer-{n}": sum(range(n, 10_000, 10)) for n in range(10)}
