"""Files in an object store, without asyncio."""

import sys
import tempfile
from pathlib import Path

from jetspark import sync


def main(url: str | None = None) -> int:
    """Store a file, read a part of it, write it back; returns its size."""
    with tempfile.TemporaryDirectory() as folder:
        if url is None:  # start a temporary server
            with sync.Server(store_dir=folder) as server:
                return main(server.client_url)

        original, copy = Path(folder, "readings.csv"), Path(folder, "copy.csv")
        original.write_text("".join(f"{n},{n * n}\n" for n in range(200_000)))

        with sync.connect(url) as client:
            js = client.jetstream()
            store = js.create_object_store("example_files")
            info = store.put_file(original, metadata={"station": "north"})
            print(f"{info.size:,} bytes in {info.chunks} chunks, {info.digest}")

            with store.open("readings.csv", start=0, length=20) as head:
                print(head.read())

            store.get_file("readings.csv", copy)  # streams to disk, never the whole file in memory
            js.delete_object_store("example_files")
        assert copy.read_bytes() == original.read_bytes()
        return info.size


if __name__ == "__main__":
    main(*sys.argv[1:2])
