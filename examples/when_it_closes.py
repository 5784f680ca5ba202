"""The state of a connection, a reconnect, and how waiting calls end on close."""

import asyncio
import sys
import tempfile

import jetspark
from jetspark.errors import ConnectionClosed


async def main(url: str | None = None) -> list[str]:
    """Reconnect, then close while a call waits; returns what was observed."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    observed: list[str] = []
    client = await jetspark.connect(
        url,
        reconnected_callback=lambda info: print(f"connected again, to {info.server_id}"),
        closed_callback=lambda reason: print(f"closed, reason: {reason}"),
    )
    observed.append(f"{client.status}, last error: {client.last_error}")

    # Subscriptions survive a reconnect, forced or not.
    greetings = await client.subscribe(client.new_inbox())
    await client.force_reconnect()
    observed.append(f"{client.status} after {client.stats.reconnects} reconnect")
    observed.append(f"last error: {client.last_error}")
    client.publish(greetings.subject, b"hello")
    observed.append((await greetings.next(timeout=5)).data.decode())

    # When the client closes, all waiting calls end in the same way: requests, reads, iterations.
    waiting = asyncio.create_task(greetings.next(timeout=60))
    await asyncio.sleep(0)  # let it start waiting
    await client.close()
    try:
        await waiting
    except ConnectionClosed as error:
        observed.append(f"next: {type(error).__name__}")
    try:
        await client.request("anything", b"")
    except ConnectionClosed as error:
        observed.append(f"request: {type(error).__name__}")
    observed.append(str(client.status))
    print(*observed, sep="\n")
    return observed


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
