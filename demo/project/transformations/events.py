"""From the stream EVENTS: a table in Parquet, totals in a bucket, alerts in another stream."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import LongType, StringType, StructType

from jetspark.spark import decode_json

spark: SparkSession = SparkSession.active()
SERVERS = spark.conf.get("spark.jetspark.servers") or ""
LEDGER = spark.conf.get("spark.jetspark.ledger") or ""
# The size of a micro-batch, and its number of tasks: for the size of the run.
BATCH = spark.conf.get("spark.jetspark.demo.batch", "100000") or ""
PARTITIONS = spark.conf.get("spark.jetspark.demo.partitions", "4") or ""

EVENT = (
    StructType()
    .add("id", LongType())
    .add("kind", StringType())
    .add("region", StringType())
    .add("customer", LongType())
    .add("cents", LongType())
)
SALE = StructType().add("area", StringType()).add("cents", LongType())
TOTAL = StructType().add("events", LongType()).add("cents", LongType())
ENTRY = StructType().add("key", StringType()).add("value", StringType())


@dp.table(partition_cols=["kind"], comment="Events without duplicates, and invalid messages.")
def events() -> DataFrame:
    """Parse; an invalid message has the kind 'refused'; of equal events one is kept."""
    messages = (
        spark.readStream.format("jetstream")
        .options(servers=SERVERS, stream="EVENTS", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=BATCH, minPartitions=PARTITIONS)
        .schema("seq long, timestamp timestamp, data binary")
        .load()
    )
    parsed = messages.select("seq", "timestamp", decode_json("data", EVENT).alias("one"))
    whole = "one._rescued IS NULL AND one.id IS NOT NULL AND one.kind IN ('order', 'click')"
    known = parsed.withColumn("whole", f.expr(f"coalesce({whole}, false)"))
    keyed = known.withColumn("key", f.expr("if(whole, one.id, -seq)"))
    # The server's times never decrease, so no event is late; duplicates follow soon.
    once = keyed.withWatermark("timestamp", "30 seconds").dropDuplicatesWithinWatermark(["key"])
    return once.selectExpr(
        "seq",
        "timestamp",
        "one.id AS id",
        "one.region AS region",
        "one.customer AS customer",
        "one.cents AS cents",
        "if(whole, one.kind, 'refused') AS kind",
    )


dp.create_sink("totals", "nats_kv", {"servers": SERVERS, "bucket": "TOTALS"})


def add_up(
    key: tuple[Any, ...], sales: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Add a micro-batch to the total of its area."""
    count, cents = state.get if state.exists else (0, 0)
    for frame in sales:
        count += len(frame)
        cents += int(frame["cents"].sum())
    state.update((count, cents))
    value = json.dumps({"events": count, "cents": cents})
    yield pd.DataFrame({"key": [key[0]], "value": [value]})


@dp.append_flow(target="totals")
def keep_totals() -> DataFrame:
    """Keep the number of events and the revenue of each region and kind."""
    good = spark.readStream.table("events").where("kind <> 'refused'")
    areas = good.selectExpr("concat(region, '.', kind) AS area", "cents").to(SALE)
    return areas.groupBy("area").applyInPandasWithState(
        add_up, ENTRY, TOTAL, "append", GroupStateTimeout.NoTimeout
    )


dp.create_sink(
    "alerts", "jetstream", {"servers": SERVERS, "stream": "ALERTS", "ledgerBucket": LEDGER}
)


@dp.append_flow(target="alerts")
def publish_alerts() -> DataFrame:
    """Publish the rows of the view `large_orders`."""
    return spark.readStream.table("large_orders")
