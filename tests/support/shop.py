"""A shop's streams, consumers, buckets and objects, for tests of the dashboard."""

from __future__ import annotations

import json
import random
from typing import Final

import jetspark
from jetspark import ConsumerConfig, StreamConfig

STATES: Final = ("new", "paid", "packed", "shipped", "delivered")
COUNTRIES: Final = ("de", "fr", "it", "jp", "us")
ORDERS: Final = 240
SESSIONS: Final = 130


async def fill_shop(url: str) -> None:
    """Fill a server; the same values every time."""
    values = random.Random(7)
    async with await jetspark.connect(url) as client:
        stream = client.jetstream()
        await stream.create_stream(
            StreamConfig(
                name="ORDERS",
                subjects=["orders.>"],
                description="Orders of the shop, from checkout to delivery",
                max_bytes=64 * 1024 * 1024,
                max_age=30 * 86400,
                allow_direct=True,
            )
        )
        await stream.create_stream(
            StreamConfig(
                name="PAYMENTS",
                subjects=["payments.>"],
                retention="workqueue",
                description="Payments to capture, each by one worker",
            )
        )
        await stream.create_stream(
            StreamConfig(name="CLICKS", subjects=["clicks.>"], max_msgs=500, storage="memory")
        )
        for number in range(ORDERS):
            state, country = values.choice(STATES), values.choice(COUNTRIES)
            await stream.publish(
                f"orders.{country}.{state}",
                _order(values, number, state, country),
                headers={"Trace-Id": f"{values.getrandbits(64):016x}"},
            )
        for number in range(40):
            body = json.dumps({"payment": number, "amount": number * 3.5})
            await stream.publish("payments.capture", body.encode())
        for _ in range(60):
            await stream.publish("clicks.web", values.randbytes(40))
        await stream.create_stream(StreamConfig(name="ORDERS_COPY", mirror="ORDERS"))
        await _consume(stream)
        await _store(stream, values)


def _order(values: random.Random, number: int, state: str, country: str) -> bytes:
    items = [
        {"sku": f"SKU-{values.randint(100, 999)}", "count": values.randint(1, 4)}
        for _ in range(values.randint(1, 3))
    ]
    order = {"order": 10_000 + number, "status": state, "country": country, "items": items}
    return json.dumps(order).encode()


async def _consume(stream: jetspark.JetStream) -> None:
    for config in (
        ConsumerConfig(
            durable="billing", filter_subjects=["orders.*.paid"], max_ack_pending=20, ack_wait=600
        ),
        ConsumerConfig(durable="warehouse", filter_subjects=["orders.*.packed"]),
        ConsumerConfig(durable="analytics"),
    ):
        await stream.create_consumer("ORDERS", config)
    await stream.create_consumer("PAYMENTS", ConsumerConfig(durable="capture"))
    billing = await stream.consumer("ORDERS", "billing")
    for message in (await billing.fetch(20, timeout=2))[:3]:
        message.ack()
    analytics = await stream.consumer("ORDERS", "analytics")
    for message in await analytics.fetch(ORDERS - 8, timeout=2):
        message.ack()


async def _store(stream: jetspark.JetStream, values: random.Random) -> None:
    settings = await stream.create_key_value("settings", history=10)
    for theme in ("light", "dark", "dark-blue"):
        await settings.put("checkout.theme", theme.encode())
    for price in ("49.00", "39.00", "59.00"):
        await settings.put("shipping.free_from", price.encode())
    for vat, note in ((0.19, "until May"), (0.21, "since May")):
        body = json.dumps({"vat": vat, "currency": "EUR", "note": note})
        await settings.put("prices.eu", body.encode())
    await settings.put("old.flag", b"1")
    await settings.delete("old.flag")
    sessions = await stream.create_key_value("sessions")
    for number in range(SESSIONS):
        await sessions.put(f"user.{number:04d}.cart", json.dumps({"items": number % 7}).encode())
    reports = await stream.create_object_store("reports")
    await reports.put("2026/november.pdf", values.randbytes(300_000))
    await reports.put("2026/october.pdf", values.randbytes(120_000))
    ledger = await stream.create_key_value("spark_ledger")
    entry = {"epoch": 41, "last_seq": 40, "query": "7c0c9e0e-orders", "stream": "CLICKS"}
    await ledger.put("orders", json.dumps(entry).encode())
    progress = await stream.create_key_value("pipeline_progress")
    flow = {"project": "shop", "flow": "clean_orders", "state": "running", "rows": 120, "lag": 17}
    await progress.put("shop.clean_orders", json.dumps(flow).encode())
