"""``register_tables``: SQL over everything that a server has."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from jetspark import KeyValueConfig
from jetspark.spark import register_tables
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream.view import PlanningFailed

if TYPE_CHECKING:
    from tests.spark.conftest import NatsServer


def test_streams_buckets_and_objects_are_views_with_the_fields_of_their_payloads(
    spark: SparkSession, start_nats: "Callable[..., NatsServer]"
) -> None:
    server = start_nats()
    streams = server.streams()
    jetstream = streams.jetstream
    streams.create("ORDERS-EU")
    for number in range(4):
        jetstream.publish(f"ORDERS-EU.{number}", b'{"id": %d, "fruit": "apple"}' % number)
    jetstream.publish("ORDERS-EU.bad", b"oops")
    bucket = jetstream.create_key_value(KeyValueConfig(bucket="PRICES"))
    bucket.put("apple", b'{"price": 2.5}')
    jetstream.create_object_store("FILES").put("a.txt", b"hello")
    schemas = {"ORDERS-EU": "id long, fruit string", "kv_PRICES": "price double"}

    made = register_tables(spark, prefix="shop_", schemas=schemas, servers=server.url)

    assert made == ["shop_kv_PRICES", "shop_obj_FILES", "shop_ORDERS-EU"]
    found = spark.sql(
        "SELECT sum(price * id) AS due, count(*) AS rows FROM `shop_ORDERS-EU` o "
        "JOIN shop_kv_PRICES p ON o.fruit = p.key WHERE o._rescued IS NULL"
    ).collect()
    assert [tuple(row) for row in found] == [(15.0, 4)]
    bad = spark.sql("SELECT subject FROM `shop_ORDERS-EU` WHERE _rescued IS NOT NULL").collect()
    assert [row.subject for row in bad] == ["ORDERS-EU.bad"]
    assert spark.sql("SELECT path, length FROM shop_obj_FILES").collect() == [("a.txt", 5)]

    # Spark keeps the plan of a view; called again, it shows what is new.
    jetstream.publish("ORDERS-EU.5", b'{"id": 5, "fruit": "apple"}')
    streams.create("orders-eu2")
    assert spark.table("`shop_ORDERS-EU`").count() == 5
    assert register_tables(spark, like="*-*", prefix="shop_", servers=server.url) == [
        "shop_ORDERS-EU",
        "shop_orders-eu2",
    ]
    assert spark.table("`shop_ORDERS-EU`").count() == 6

    streams.create("ORDERS-EU2")
    with pytest.raises(ValueError, match="SQL does not distinguish ORDERS-EU2, orders-eu2"):
        register_tables(spark, servers=server.url)
    with pytest.raises(ValueError, match="schemas has 'NONE', but no such view is created"):
        register_tables(spark, like="kv_*", schemas={"NONE": "id long"}, servers=server.url)
    with pytest.raises(ValueError, match="schema of 'kv_PRICES' has value, which the view"):
        register_tables(
            spark, like="kv_*", schemas={"kv_PRICES": "value double"}, servers=server.url
        )
    streams.client.close()
    CONNECTIONS.close()


def test_mistakes_are_one_line() -> None:
    with pytest.raises(InvalidOptions, match="unknown option 'stream'"):
        register_tables(None, servers="nats://127.0.0.1:1", stream="A")  # type: ignore[arg-type]
    with pytest.raises(PlanningFailed, match="register_tables cannot list the streams on"):
        register_tables(None, servers="nats://127.0.0.1:1")  # type: ignore[arg-type]
