"""Atomic batches, and high-throughput publishing."""

import asyncio
import sys
import tempfile

import jetspark
from jetspark import Expect
from jetspark.errors import WrongLastSequence


async def main(url: str | None = None) -> int:
    """Book some amounts, then publish many lines; returns the number of stored messages."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        book = await js.create_stream(
            "EXAMPLE_BOOK", subjects=["example.book.>"], allow_atomic=True, allow_batched=True
        )

        # The end of the block commits; after an exception inside it, nothing is stored.
        async with js.atomic_batch() as batch:
            batch.add("example.book.debit", b"10")
            batch.add("example.book.credit", b"10")
        print(f"{batch.ack.count} messages, the last is {batch.ack.seq}")

        # If one expectation fails, neither message is stored.
        try:
            async with js.atomic_batch() as batch:
                batch.add("example.book.debit", b"20")
                batch.add("example.book.credit", b"20", expect=Expect(last_subject_seq=0))
        except WrongLastSequence as error:
            print("refused:", error)

        # Not atomic: messages are stored as they arrive, without waiting for each ack.
        async with js.fast_publisher() as publisher:
            for n in range(1000):
                await publisher.publish("example.book.line", b"%d" % n)
            await publisher.extend(["example.book.line"] * 1000, [b"text"] * 1000)
        print(f"{publisher.ack.count} lines published")

        stored = (await book.info()).state.messages
        await js.delete_stream("EXAMPLE_BOOK")
        return stored


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
