"""Jobs that survive a crashed worker.

A work-queue stream keeps a job until a worker has acknowledged it. The first worker fetches a job
and dies; the server redelivers the job to the next one.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark import Client


async def work(client: Client, name: str, *, dies: bool = False) -> int:
    """Process jobs until none is left; returns how many."""
    jobs = await client.jetstream().stream("EXAMPLE_JOBS")
    workers = await jobs.consumer("workers")
    done = 0
    while messages := await workers.fetch(1, timeout=1):
        [message] = messages
        if dies:
            print(f"{name} dies with {message.data!r}")
            return done
        # Acknowledge after the work is done, and wait for the confirmation.
        await message.ack_sync()
        done += 1
        print(f"{name} did {message.data!r}, delivery {message.metadata.num_delivered}")
    return done


async def main(url: str | None = None) -> int:
    """Publish jobs and process them; returns how many were processed."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        jobs = await js.create_stream(
            "EXAMPLE_JOBS", subjects=["example.jobs.>"], retention="workqueue"
        )
        # A job that is not acknowledged within half a second is redelivered.
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
