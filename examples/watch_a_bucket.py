"""An in-memory table that follows a bucket: first the initial data, then every change."""

import asyncio
import sys
import tempfile

import jetspark


async def main(url: str | None = None) -> dict[str, bytes]:
    """Follow a bucket while it changes; returns the final table."""
    if url is None:  # start a temporary server
        with tempfile.TemporaryDirectory() as folder:
            async with jetspark.Server(store_dir=folder) as server:
                return await main(server.client_url)

    async with jetspark.connect(url) as client:
        js = client.jetstream()
        async with js.create_key_value("example_hosts") as hosts:
            await hosts.put_many({"db.1": b"10.0.0.1", "db.2": b"10.0.0.2", "web.1": b"10.0.0.9"})

            table: dict[str, bytes] = {}
            async with hosts.watch("db.*") as watcher:
                # Ends with the initial data, also if the bucket is empty.
                async for entry in watcher.initial():
                    table[entry.key] = entry.value
                print("at first:", table)

                await hosts.delete("db.1")
                last = await hosts.put("db.3", b"10.0.0.3")
                async for entry in watcher:
                    print(f"{entry.operation} {entry.key} at {entry.time:%H:%M:%S}")
                    if entry.operation == "PUT":
                        table[entry.key] = entry.value
                    else:  # deleted, purged, or expired
                        table.pop(entry.key, None)
                    if entry.revision == last:
                        break
            print("at the end:", table)

            # `ready` waits until the initial data has arrived; here there is none.
            async with hosts.watch("cache.*", updates_only=True) as changes:
                await changes.ready(timeout=5)
                await hosts.put("cache.1", b"10.0.0.7")
                print("changed:", (await changes.next(timeout=5)).key)

            # Reads of a single key.
            gone = await hosts.get("db.1", default=None)
            print("db.1:", gone, "- db.2:", await hosts.exists("db.2"))
        await js.delete_key_value("example_hosts")
        return table


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
