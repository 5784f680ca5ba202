"""The first part of the demo: a server that is killed while it stores messages loses nothing.

An acknowledged message is on disk. The rest is published again, each with its own id, so that
messages stored without an answer are not duplicated.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.progress import Progress

from demo.report import Steps
from demo.server import ServerProcess
from jetspark.client.client import connect
from jetspark.errors import Error

if TYPE_CHECKING:
    from jetspark.client.jetstream.context import JetStream
    from jetspark.client.jetstream.streams import Stream

STREAM: Final = "ORDERS"
REGIONS: Final = ("north", "east", "south", "west")


async def crash_server(folder: Path, steps: Steps, progress: Progress, messages: int) -> list[str]:
    """Write, kill, restart, read back, write the rest; return the problems."""
    acknowledged: dict[int, int] = {}
    problems: list[str] = []
    async with ServerProcess(folder) as server:
        await write_until_killed(server, acknowledged, steps, progress, messages)
    begun = time.monotonic()
    async with ServerProcess(folder) as server:
        steps.add("restarted, streams recovered", len(acknowledged), begun)
        async with connect(server.url, name="jetspark demo") as client:
            stream = await client.jetstream().stream(STREAM)
            kept = await read(stream, steps, progress, "Read back after the crash")
            lost = [n for n, seq in acknowledged.items() if kept.get(seq) != payload_of(n)]
            steps.note("acknowledged and lost", len(lost))
            if lost:
                problems.append(f"{len(lost)} acknowledged messages are lost")
            await write_rest(client.jetstream(), acknowledged, steps, progress, messages)
            whole = await read(stream, steps, progress, "Read back everything")
            if sorted(whole.values()) != sorted(payload_of(n) for n in range(messages)):
                problems.append(f"{len(whole)} of {messages} messages are in the stream")
    return problems


async def write_until_killed(
    server: ServerProcess,
    acknowledged: dict[int, int],
    steps: Steps,
    progress: Progress,
    messages: int,
) -> None:
    """Publish, and kill the server meanwhile; record what it acknowledged until then."""
    task = progress.add_task("Publish; killed meanwhile", total=messages)
    begun = time.monotonic()
    client = await connect(server.url, name="jetspark demo", allow_reconnect=False)
    js = client.jetstream(publish_async_max=500)
    await js.create_stream(STREAM, subjects=["orders.>"], allow_direct=True)

    acks = []
    try:
        for n in range(messages):
            acks.append(
                await js.publish_async(_subject(n), payload_of(n), msg_id=str(n), timeout=2)
            )
            if n - js.publish_async_pending >= messages // 2:
                await server.kill()
    except Error:
        pass  # the connection broke, as expected
    await client.close()
    for n, ack in enumerate(acks):
        if ack.done() and ack.exception() is None:
            acknowledged[n] = ack.result().seq
    progress.update(task, completed=len(acknowledged))
    progress.stop_task(task)
    steps.add("acknowledged on disk, then SIGKILL", len(acknowledged), begun)


async def write_rest(
    js: "JetStream",
    acknowledged: dict[int, int],
    steps: Steps,
    progress: Progress,
    messages: int,
) -> None:
    """Publish the unacknowledged messages; those already stored are recognised by their id."""
    rest = [n for n in range(messages) if n not in acknowledged]
    task = progress.add_task("Publish the rest", total=len(rest))
    begun = time.monotonic()
    acks = [await js.publish_async(_subject(n), payload_of(n), msg_id=str(n)) for n in rest]
    await js.publish_async_complete()
    progress.update(task, completed=len(rest))
    steps.add("published again, acknowledged on disk", len(acks), begun)
    again = sum(ack.result().duplicate for ack in acks)
    steps.note("already stored before the crash", again)


async def read(stream: "Stream", steps: Steps, progress: Progress, what: str) -> dict[int, bytes]:
    """Everything in the stream, by sequence."""
    last = (await stream.info()).state.last_seq
    task = progress.add_task(what, total=last)
    begun = time.monotonic()
    found: dict[int, bytes] = {}
    async for message in stream.get_batch(seq=1):
        found[message.seq] = message.data
        if message.seq % 1000 == 0:
            progress.update(task, completed=message.seq)
    progress.update(task, completed=last)
    steps.add(what.lower(), len(found), begun)
    return found


def _subject(n: int) -> str:
    return f"orders.{REGIONS[n % len(REGIONS)]}"


def payload_of(n: int) -> bytes:
    """Return the payload of message ``n``."""
    return b'{"order":%d,"amount":%d}' % (n, n * 7 % 1000)
