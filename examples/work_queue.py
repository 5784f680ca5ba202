"""Jobs that survive the worker that dies with them.

A work-queue stream keeps a job until a worker has acknowledged it. The first worker takes a job
and dies; the server gives the job to the next one.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark import Client


async def work(client: Client, name: str, *, dies: bool = False) -> int:
    """Do jobs until none is left; returns how many."""
    jobs = await client.jetstream().stream("EXAMPLE_JOBS")
    workers = await jobs.consumer("workers")
    done = 0
    while messages := await workers.fetch(1, timeout=1):
        [message] = messages
        if dies:
            print(f"{name} dies with {message.data!r}")
            return done
        # Acknowledged when the work is done, and known to the server before the next one.
        await message.ack_sync()
        done += 1
        print(f"{name} did {message.data!r}, delivery {message.metadata.num_delivered}")
    return done


async def main(url: str | None = None) -> int:
    """Publish jobs and do them; returns how many were done."""
    if url is None:  # a server of our own, for as long as this takes
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        jobs = await js.create_stream(
            "EXAMPLE_JOBS", subjects=["example.jobs.>"], retention="workqueue"
        )
        # A job that is unacknowledged for half a second is given to another worker.
        await jobs.create_consumer(durable="workers", ack_wait=0.5)
        for n in range(5):
            await js.publish("example.jobs.resize", b"picture %d" % n)

        await work(client, "worker 1", dies=True)
        done = await work(client, "worker 2")
        left = (await jobs.info()).state.messages
        print(f"{done} jobs done, {left} left")
        await js.delete_stream("EXAMPLE_JOBS")
        return done


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
