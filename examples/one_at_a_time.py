"""Work that only one process may do at a time, and a token that keeps late ones out.

A lock cannot stop a holder that was paused for too long and believes in it still. Its token grows
with every holder: whatever the work writes to refuses a token lower than the highest it has seen.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark import KeyValue


class Ledger:
    """What the work writes to: takes nothing from a holder of the past."""

    def __init__(self) -> None:
        self.highest = 0
        self.lines: list[str] = []

    def write(self, line: str, token: int) -> None:
        """Take a line of the holder with this token."""
        if token < self.highest:
            raise PermissionError(f"token {token} is of the past: {self.highest} was here")
        self.highest = token
        self.lines.append(line)


async def close_the_books(bucket: KeyValue, name: str, ledger: Ledger) -> None:
    """Wait for the lock, then work."""
    async with bucket.lock("books", ttl=5) as lock:
        ledger.write(f"{name} begins", lock.token)
        await asyncio.sleep(0.05)
        ledger.write(f"{name} ends", lock.token)


async def main(url: str | None = None) -> list[str]:
    """Three at once; returns what they wrote."""
    if url is None:  # a server of our own, for as long as this takes
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        bucket = await js.create_key_value("example_locks")
        ledger = Ledger()
        names = ("anna", "ben", "cleo")
        await asyncio.gather(*(close_the_books(bucket, name, ledger) for name in names))
        print(*ledger.lines, sep="\n")
        await js.delete_key_value("example_locks")
        return ledger.lines


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
