"""What programs do with the new official Python client (nats-core, nats-jetstream).

Run by a Python of 3.13 or newer that has both, with the URL of a server; prints "done".
"""

import asyncio
import sys

from nats import client, jetstream  # type: ignore[attr-defined]


async def run(url: str) -> None:
    async with await client.connect(url) as nc:
        inbox = await nc.subscribe("core.a")
        await nc.publish("core.a", b"hello", headers={"k": "v"})
        message = await inbox.next(timeout=10)
        assert (message.data, message.headers.get("k")) == (b"hello", "v")
        js = jetstream.new(nc)
        stream = await js.create_stream(name="NEW", subjects=["new.>"])
        for n in range(5):
            ack = await js.publish(f"new.{n}", b"%d" % n)
            assert ack.sequence == n + 1
        consumer = await stream.create_consumer(name="c", durable_name="c", ack_policy="explicit")
        got = []
        async for each in await consumer.fetch(max_messages=3, max_wait=5):
            got.append(each.data)
            await each.ack()
        assert got == [b"0", b"1", b"2"]
        batch = await consumer.fetch_nowait(max_messages=10)
        assert [each.data async for each in batch] == [b"3", b"4"]
        assert (await js.get_message("NEW", 2)).data == b"1"
        assert [name async for name in js.stream_names()] == ["NEW"]
        assert await js.delete_stream("NEW")
    sys.stdout.write("done\n")


asyncio.run(run(sys.argv[1]))
