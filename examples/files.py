"""Files in an object store, without asyncio."""

import tempfile
from pathlib import Path

from jetspark import sync


def main() -> int:
    """Store a file, read a part of it, write it back; returns its size."""
    with tempfile.TemporaryDirectory() as folder, sync.Server(store_dir=folder) as server:
        original, copy = Path(folder, "readings.csv"), Path(folder, "copy.csv")
        original.write_text("".join(f"{n},{n * n}\n" for n in range(200_000)))

        with sync.connect(server.client_url) as client:
            store = client.jetstream().create_object_store("files")
            info = store.put_file(original, metadata={"station": "north"})
            print(f"{info.size:,} bytes in {info.chunks} chunks, {info.digest}")

            with store.open("readings.csv", start=0, length=20) as head:
                print(head.read())

            store.get_file("readings.csv", copy)  # never the whole file in memory
        assert copy.read_bytes() == original.read_bytes()
        return info.size


if __name__ == "__main__":
    main()
