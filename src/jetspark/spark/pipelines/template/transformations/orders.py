"""From the stream ORDERS: a cleaned table, rejected messages, totals in a bucket, alerts.

Spark calls the decorated functions to build the pipeline. They must not access data or schemas:
give types, as below, where Spark would have to infer them.
"""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from jetspark.spark import connection_options

spark = SparkSession.active()

# The options --server, --creds and so on of `jetspark pipeline run`; and its ledger.
SERVER = connection_options(spark)
LEDGER = spark.conf.get("spark.jetspark.ledger", "LEDGER") or "LEDGER"

ORDER = (
    StructType()
    .add("id", LongType())
    .add("region", StringType())
    .add("amount", DoubleType())
    .add("broken", StringType())  # the text if it is not JSON, or not of these types
)
WHOLE = "broken IS NULL AND id IS NOT NULL AND region IS NOT NULL AND amount >= 0"
SALE = StructType().add("region", StringType()).add("amount", DoubleType())
TOTAL = StructType().add("orders", LongType()).add("amount", DoubleType())
ENTRY = StructType().add("key", StringType()).add("value", StringType())


def read_orders() -> DataFrame:
    """Read the stream; every row keeps its sequence, and an invalid order its text."""
    messages = (
        spark.readStream.format("jetstream")
        .options(**SERVER)
        .option("stream", "ORDERS")
        .option("startingOffsets", "earliest")
        .load()
    )
    options = {"columnNameOfCorruptRecord": "broken"}
    order = f.from_json(f.col("data").cast("string"), ORDER, options)
    return messages.select("seq", "timestamp", "data", order.alias("order")).select(
        "seq", "timestamp", "data", "order.*"
    )


def clean_orders() -> DataFrame:
    """Keep complete orders, each once, even if it was published again within a minute."""
    once = (
        read_orders()
        .where(WHOLE)
        .withWatermark("timestamp", "1 minute")
        .dropDuplicatesWithinWatermark(["id"])
    )
    return once.select("seq", "timestamp", "id", "region", "amount")


@dp.table(comment="Complete orders, without duplicates.")
def orders() -> DataFrame:
    return clean_orders()


@dp.table(comment="Messages that are not valid orders.")
def refused() -> DataFrame:
    return read_orders().where(f"NOT coalesce({WHOLE}, false)").select("seq", "timestamp", "data")


dp.create_sink("totals", "nats_kv", {**SERVER, "bucket": "TOTALS"})


def add_up(
    key: tuple[Any, ...], sales: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Add the sales of a micro-batch to the totals of their regions, and write these."""
    count, amount = state.get if state.exists else (0, 0.0)
    for frame in sales:
        count += len(frame)
        amount += float(frame["amount"].sum())
    state.update((count, amount))
    value = json.dumps({"orders": count, "amount": round(amount, 2)})
    yield pd.DataFrame({"key": [key[0]], "value": [value]})


@dp.append_flow(target="totals")
def keep_totals() -> DataFrame:
    sales = clean_orders().to(SALE).groupBy("region")
    return sales.applyInPandasWithState(
        add_up, ENTRY, TOTAL, "append", GroupStateTimeout.NoTimeout
    )


dp.create_sink("alerts", "jetstream", {**SERVER, "stream": "ALERTS", "ledgerBucket": LEDGER})


@dp.append_flow(target="alerts")
def publish_alerts() -> DataFrame:
    return spark.readStream.table("large_orders")
