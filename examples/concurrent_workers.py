"""Mails sent several at a time, in order for each customer, by workers that go home in between.

`concurrency` works on so many messages at a time, and takes no more from the server than it can
work on soon. `ordered_by` keeps the order where it matters: one customer's second mail waits for
the first, while the mails of others go on.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark import Consumer, JetStreamMessage

CUSTOMERS = ("anna", "ben", "cleo")


async def shift(workers: Consumer, enough: int) -> list[str]:
    """Work until so many mails are sent, then finish what was begun; returns what was sent."""
    sent: list[str] = []
    end = asyncio.Event()

    async def send(message: JetStreamMessage) -> None:
        await asyncio.sleep(0.02)  # a mail server at work
        sent.append(f"{message.subject.rpartition('.')[2]} {message.data.decode()}")
        message.ack()
        if len(sent) >= enough:
            end.set()

    # `in_progress` asks for more time while a mail takes longer than the consumer's `ack_wait`:
    # without it the server would give the mail to somebody else, and it would be sent twice.
    async with workers.consume(send, concurrency=4, ordered_by="subject", in_progress=True):
        await end.wait()
    # The end of the block waited for the mails that were being sent, and gave back those that
    # were not begun: the next shift gets them at once.
    return sent


async def main(url: str | None = None) -> tuple[list[str], list[str]]:
    """Send twelve mails in two shifts; returns what each of them sent."""
    if url is None:  # a server of our own, for as long as this takes
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
