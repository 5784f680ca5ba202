"""A stream aggregated by Spark into a bucket, which any client can read."""

import tempfile
from typing import TYPE_CHECKING

from jetspark import sync
from jetspark.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = 10_000


def fill(client: sync.Client) -> None:
    """Publish orders of ten customers, and create a bucket for their totals."""
    js = client.jetstream()
    js.create_stream("ORDERS", subjects=["orders.*"], allow_direct=True)
    js.create_key_value("totals")
    for n in range(ORDERS):
        js.publish_async(f"orders.customer-{n % 10}", b'{"amount": %d}' % n)
    js.publish_async_complete()


def sum_up(spark: "SparkSession", url: str) -> None:
    """Read the stream as a table, and write a row per customer as a key."""
    orders = spark.read.format("jetstream").options(servers=url, stream="ORDERS").load()
    totals = (
        orders.selectExpr(
            "split(subject, '[.]')[1] as key",
            "cast(get_json_object(cast(data as string), '$.amount') as bigint) as amount",
        )
        .groupBy("key")
        .sum("amount")
        .selectExpr("key", "cast(cast(`sum(amount)` as string) as binary) as value")
    )
    totals.write.format("nats_kv").mode("append").options(servers=url, bucket="totals").save()


def main() -> None:
    """Run everything with an embedded server and a local Spark session."""
    with (
        tempfile.TemporaryDirectory() as folder,
        sync.Server(store_dir=folder) as server,
        sync.connect(server.client_url) as client,
    ):
        fill(client)
        spark = session("totals", master="local[2]", log_level="ERROR")
        sum_up(spark, server.client_url)
        spark.stop()
        bucket = client.jetstream().key_value("totals")
        for entry in sorted(bucket.snapshot(), key=lambda entry: entry.key):
            print(entry.key, entry.value.decode())


if __name__ == "__main__":
    main()
