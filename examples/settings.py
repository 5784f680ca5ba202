"""Typed settings in a bucket: changed with compare-and-set, watched by their users."""

import asyncio
import sys
import tempfile

import msgspec

import jetspark
from jetspark.errors import WrongLastSequence


class Limits(msgspec.Struct):
    """The limits of one tenant."""

    requests: int
    burst: int = 10


async def main(url: str | None = None) -> list[int]:
    """Change a setting while it is watched; returns what the watcher saw."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        bucket = await js.create_key_value("example_settings", history=5)
        limits = bucket.typed(Limits)
        first = await limits.create("tenant-1", Limits(requests=100))

        seen: list[int] = []
        async with limits.watch("tenant-1") as watcher:
            await limits.update("tenant-1", Limits(requests=200), first)
            try:
                # A second writer that read the first revision does not overwrite it.
                await limits.update("tenant-1", Limits(requests=50), first)
            except WrongLastSequence as error:
                print("refused:", error)
            async for entry in watcher:
                if entry.value is None:
                    continue  # a deletion
                print(f"revision {entry.revision}: {entry.value}")
                seen.append(entry.value.requests)
                if entry.value.requests == 200:
                    break
        await js.delete_key_value("example_settings")
        return seen


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
