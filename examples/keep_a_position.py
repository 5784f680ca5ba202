"""Resume where a reader stopped: consumers that stay, and those that end with a subscription.

A consumer created by `create_consumer` lives until it is deleted. A consumer created by
`subscribe` or `pull_subscribe` belongs to the subscription and is deleted with it, unless you pass
`keep=True`.
"""

import asyncio
import sys
import tempfile

import jetspark


async def read_some(url: str, number: int) -> list[bytes]:
    """Simulate one run of a program: read some messages, starting where the last run stopped."""
    async with jetspark.connect(url) as client:
        stream = await client.jetstream().stream("EXAMPLE_NEWS")
        reader = await stream.create_consumer(durable="reader")  # repeating this is no error
        messages = await reader.fetch(number, timeout=5)
        for message in messages:
            await message.ack_sync()
        return [message.data for message in messages]


async def main(url: str | None = None) -> dict[str, list[bytes]]:
    """Read in several runs and in every way; returns what each run has read."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        stream = await js.create_stream("EXAMPLE_NEWS", subjects=["example.news"])
        for n in range(1, 5):
            await js.publish("example.news", b"news %d" % n)

        read = {"first run": await read_some(url, 2), "second run": await read_some(url, 2)}

        # The first deletion of a durable is logged, because its position is lost.
        for keep in (False, True):
            name = "kept" if keep else "not kept"
            durable = name.replace(" ", "-")
            read[name] = []
            for _ in range(2):
                async with js.pull_subscribe(
                    "example.news", durable=durable, keep=keep
                ) as subscription:
                    message = await subscription.next(timeout=5)
                    await message.ack_sync()
                    read[name].append(message.data)

        for name, data in read.items():
            print(f"{name}: {data}")
        print("left on the server:", sorted([name async for name in stream.consumer_names()]))
        await js.delete_stream("EXAMPLE_NEWS")
        return read


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
