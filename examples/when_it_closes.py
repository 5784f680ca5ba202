"""What a program learns of its connection: its state, a reconnect, one ending for all."""

import asyncio
import sys
import tempfile

import jetspark
from jetspark.errors import ConnectionClosed


async def main(url: str | None = None) -> list[str]:
    """Reconnect, then close while something waits; returns what was learnt."""
    if url is None:  # a server of our own, for as long as this takes
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    learnt: list[str] = []
    client = await jetspark.connect(
        url,
        reconnected_callback=lambda info: print(f"connected again, to {info.server_id}"),
        closed_callback=lambda reason: print(f"closed, reason: {reason}"),
    )
    learnt.append(f"{client.status}, last error: {client.last_error}")

    # Subscriptions stay when a connection is lost, or given up to get another one.
    greetings = await client.subscribe(client.new_inbox())
    await client.force_reconnect()
    learnt.append(f"{client.status} after {client.stats.reconnects} reconnect")
    learnt.append(f"last error: {client.last_error}")
    client.publish(greetings.subject, b"hello")
    learnt.append((await greetings.next(timeout=5)).data.decode())

    # Whatever waits when the client closes ends in the same way: requests, reads, iterations.
    waiting = asyncio.create_task(greetings.next(timeout=60))
    await asyncio.sleep(0)  # it waits now
    await client.close()
    try:
        await waiting
    except ConnectionClosed as error:
        learnt.append(f"next: {type(error).__name__}")
    try:
        await client.request("anything", b"")
    except ConnectionClosed as error:
        learnt.append(f"request: {type(error).__name__}")
    learnt.append(str(client.status))
    print(*learnt, sep="\n")
    return learnt


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
