"""Concurrent workers that send mails in order per customer and shut down without losing any.

`concurrency` limits how many messages are processed at a time; the client prefetches only a few
more. `ordered_by` keeps the order per key: one customer's second mail waits for the first, while
mails of other customers continue.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark import Consumer, JetStreamMessage

CUSTOMERS = ("anna", "ben", "cleo")


async def shift(workers: Consumer, enough: int) -> list[str]:
    """Send `enough` mails, then finish those in progress; returns what was sent."""
    sent: list[str] = []
    end = asyncio.Event()

    async def send(message: JetStreamMessage) -> None:
        await asyncio.sleep(0.02)  # simulates a mail server
        sent.append(f"{message.subject.rpartition('.')[2]} {message.data.decode()}")
        message.ack()
        if len(sent) >= enough:
            end.set()

    # `in_progress` extends `ack_wait` while a mail is being sent: without it the server would
    # redeliver a slow mail, and it would be sent twice.
    async with workers.consume(send, concurrency=4, ordered_by="subject", in_progress=True):
        await end.wait()
    # The end of the block waits for mails in progress and returns those not started: the next
    # shift gets them at once.
    return sent


async def main(url: str | None = None) -> tuple[list[str], list[str]]:
    """Send twelve mails in two shifts; returns what each shift sent."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        mails = await js.create_stream("EXAMPLE_MAILS", subjects=["example.mails.*"])
        for n in range(1, 5):
            for customer in CUSTOMERS:
                await js.publish(f"example.mails.{customer}", b"%d" % n)

        workers = await mails.create_consumer(durable="workers", ack_wait=30)
        early = await shift(workers, enough=4)
        print("early shift:", *early, sep="\n  ")
        late = await shift(workers, enough=12 - len(early))
        print("late shift:", *late, sep="\n  ")
        await js.delete_stream("EXAMPLE_MAILS")
        return early, late


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
