"""Reads that see what was written, whichever copy of the data answers.

In a cluster, and where mirrors answer, the copy that is asked may not have what another one has
acknowledged. Say what a read must have seen: it then gets an answer that is new enough, or an
error, never an old one.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark.errors import MinLastSequence, RequestTimeout


async def main(url: str | None = None) -> list[bytes]:
    """Write and read in three ways; returns what was read."""
    if url is None:  # a server of our own, for as long as this takes
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        stream = await js.create_stream(
            "EXAMPLE_PRICES", subjects=["example.prices.*"], allow_direct=True
        )
        # By hand: a sequence travels with a link, in a cookie, or in a message to the reader.
        ack = await js.publish("example.prices.tea", b"3.20")
        message = await stream.get_msg(last_by_subject="example.prices.tea", min_last_seq=ack.seq)
        read = [message.data]

        # What nobody has written yet is an error when the time is over, not an old price.
        try:
            await stream.get_msg(
                last_by_subject="example.prices.tea", min_last_seq=ack.seq + 1, timeout=0.7
            )
        except (MinLastSequence, RequestTimeout) as error:
            print("too early:", error)

        # By itself: this handle remembers what it wrote and saw.
        bucket = await js.create_key_value("example_cart")
        await bucket.close()
        cart = await js.key_value("example_cart", read_after_write=True)
        await cart.put("tea", b"2 packets")
        read.append((await cart.get("tea")).value)

        # Buckets say `min_last_revision`: the revision is what `put` returned, here or elsewhere.
        revision = await cart.put("tea", b"3 packets")
        elsewhere = await js.key_value("example_cart")
        read.append((await elsewhere.get("tea", min_last_revision=revision)).value)

        print(*read, sep="\n")
        await js.delete_key_value("example_cart")
        await js.delete_stream("EXAMPLE_PRICES")
        return read


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
