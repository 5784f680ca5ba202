"""A lock across processes, with a fencing token that keeps late writers out.

A lock cannot stop a holder that was paused for too long and still believes that it holds the lock.
The token increases with every holder: the protected resource refuses a token lower than the
highest it has seen.
"""

import asyncio
import sys
import tempfile

import jetspark
from jetspark import KeyValue


class Ledger:
    """The protected resource: refuses writes of former lock holders."""

    def __init__(self) -> None:
        self.highest = 0
        self.lines: list[str] = []

    def write(self, line: str, token: int) -> None:
        """Accept a line from the holder of this token."""
        if token < self.highest:
            raise PermissionError(f"token {token} is outdated: {self.highest} was seen")
        self.highest = token
        self.lines.append(line)


async def close_the_books(bucket: KeyValue, name: str, ledger: Ledger) -> None:
    """Acquire the lock, then work."""
    async with bucket.lock("books", ttl=5) as lock:
        ledger.write(f"{name} begins", lock.token)
        await asyncio.sleep(0.05)
        ledger.write(f"{name} ends", lock.token)


async def main(url: str | None = None) -> list[str]:
    """Run three workers concurrently; returns what they wrote."""
    if url is None:  # start a temporary server
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
