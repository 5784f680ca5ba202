"""What an installed jetspark must be able to do; `tools/smoke.py` runs it in empty environments.

Usage: python -I smoke_program.py VERSION [URL]
Uses the client on the server at URL, or on an embedded one.
"""

import asyncio
import sys
from pathlib import Path

import jetspark


async def use(client: jetspark.Client) -> None:
    """Publish and read back: a stream, a consumer, a bucket, an object store."""
    js = client.jetstream()
    orders = await js.create_stream("ORDERS", subjects=["orders.>"], allow_direct=True)
    acks = [await js.publish(f"orders.{n}", b"order %d" % n) for n in range(3)]
    assert [ack.seq for ack in acks] == [1, 2, 3]
    assert (await orders.get_msg(last_by_subject="orders.2")).data == b"order 2"
    billing = await orders.create_consumer(durable="billing")
    fetched = await billing.fetch(3, timeout=20)
    assert [message.data for message in fetched] == [b"order 0", b"order 1", b"order 2"]
    for message in fetched:
        await message.ack_sync()

    settings = await js.create_key_value("settings", history=5)
    revision = await settings.put("mail.host", b"localhost")
    entry = await settings.get("mail.host")
    assert (entry.value, entry.revision) == (b"localhost", revision)

    files = await js.create_object_store("files")
    await files.put("letter", b"x" * 300_000)
    assert await files.get("letter") == b"x" * 300_000


async def main(version: str, url: str | None) -> None:
    """Check the installation, then use it."""
    assert version == jetspark.__version__, f"{jetspark.__version__} is installed"
    place = Path(jetspark.__file__)
    assert place.is_relative_to(sys.prefix), f"{place} is not in the environment {sys.prefix}"
    assert jetspark.COMPILED, f"{place.parent} is not compiled"
    if url is not None:
        async with jetspark.connect(url) as client:
            await use(client)
    else:
        async with jetspark.Server() as server, server.connect() as client:
            await use(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
