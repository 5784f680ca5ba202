"""Streams, consumers and buckets configured with keyword arguments.

Every duration is seconds or a `timedelta`. `update` changes only the named settings.
"""

import asyncio
import sys
import tempfile
from datetime import timedelta

import jetspark
from jetspark import StreamConfig
from jetspark.errors import ApiError


async def main(url: str | None = None) -> StreamConfig:
    """Create and change things; returns the final configuration of the stream."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        orders = await js.create_stream(
            "EXAMPLE_ORDERS",
            subjects=["example.orders.>"],
            max_age=timedelta(days=1),
            duplicate_window=60,
            discard="new",
        )
        await orders.update(max_msgs=1000)
        config = (await orders.info()).config
        print(f"{config.max_msgs} messages at most, for {config.max_age:g} s, {config.subjects}")

        billing = await js.create_consumer("EXAMPLE_ORDERS", durable="billing", ack_wait=30)
        await billing.update(ack_wait=timedelta(minutes=2), max_deliver=5)
        settings = (await billing.info()).config
        print(f"{settings.ack_wait:g} s for the work, {settings.max_deliver} times at most")

        # The same settings as an object, for programs that store configurations.
        try:
            await js.create_stream(
                StreamConfig(name="EXAMPLE_COPY", subjects=["example.orders.a"])
            )
        except ApiError as error:
            print("refused:", error)

        sessions = await js.create_key_value("example_sessions", ttl=timedelta(hours=8))
        sessions = await js.update_key_value("example_sessions", history=3)
        status = await sessions.status()
        print(f"{status.bucket}: {status.history} values per key, for {status.ttl:g} s")

        await js.create_object_store("example_tables", ttl=timedelta(days=30))
        await js.update_object_store("example_tables", max_bytes=10**9)
        print("object stores:", [name async for name in js.object_store_names()])

        await js.delete_object_store("example_tables")
        await js.delete_key_value("example_sessions")
        await js.delete_stream("EXAMPLE_ORDERS")
        return config


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
