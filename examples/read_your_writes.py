"""Reads that see earlier writes, whichever copy of the data answers.

In a cluster, or if mirrors answer, the copy that answers may not have a write that another copy
has acknowledged. Pass the sequence that a read must see: it returns a recent enough answer or
raises an error, never a stale answer.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark.errors import MinLastSequence, RequestTimeout


async def main(url: str | None = None) -> list[bytes]:
    """Write and read in three ways; returns what was read."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        stream = await js.create_stream(
            "EXAMPLE_PRICES", subjects=["example.prices.*"], allow_direct=True
        )
        # Explicitly: pass a sequence to the reader in a link, a cookie or a message.
        ack = await js.publish("example.prices.tea", b"3.20")
        message = await stream.get_msg(last_by_subject="example.prices.tea", min_last_seq=ack.seq)
        read = [message.data]

        # A sequence that is not reached in time raises an error instead of returning an old price.
        try:
            await stream.get_msg(
                last_by_subject="example.prices.tea", min_last_seq=ack.seq + 1, timeout=0.7
            )
        except (MinLastSequence, RequestTimeout) as error:
            print("too early:", error)

        # Automatically: this handle remembers what it wrote and read.
        bucket = await js.create_key_value("example_cart")
        await bucket.close()
        cart = await js.key_value("example_cart", read_after_write=True)
        await cart.put("tea", b"2 packets")
        read.append((await cart.get("tea")).value)

        # Buckets use `min_last_revision`: a revision that `put` returned, here or elsewhere.
        revision = await cart.put("tea", b"3 packets")
        elsewhere = await js.key_value("example_cart")
        read.append((await elsewhere.get("tea", min_last_revision=revision)).value)

        print(*read, sep="\n")
        await js.delete_key_value("example_cart")
        await js.delete_stream("EXAMPLE_PRICES")
        return read


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
