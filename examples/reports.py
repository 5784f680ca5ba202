"""Reports written by threads and stored as files, without asyncio.

`jetspark.sync` has every call of the asyncio client under the same name. Callbacks are plain
functions that run on threads, so they may block and use the client.
"""

import sys
import tempfile
import threading
from pathlib import Path

from jetspark import sync

MONTHS = ("january", "february", "march", "april")


def main(url: str | None = None) -> list[str]:
    """Write a report for each request; returns the names of the stored reports."""
    with tempfile.TemporaryDirectory() as folder:
        if url is None:  # start a temporary server
            with sync.Server(store_dir=folder) as server:
                return main(server.client_url)

        with sync.connect(url) as client:
            js = client.jetstream()
            orders = js.create_stream("EXAMPLE_REPORTS", subjects=["example.reports.*"])
            reports = js.create_object_store("example_reports")
            workers = orders.create_consumer(durable="writers")
            written = threading.Semaphore(0)

            def write(message: sync.JetStreamMessage) -> None:
                month = message.subject.rpartition(".")[2]
                path = Path(folder, f"{month}.txt")
                path.write_text(f"{month}: {message.data.decode()}\n")
                reports.put_file(path)
                message.ack_sync()  # after the report is stored, not before
                written.release()

            for n, month in enumerate(MONTHS):
                js.publish(f"example.reports.{month}", b"%d sold" % (n * 100))
            with workers.consume(write, concurrency=2):  # two threads
                for _ in MONTHS:
                    written.acquire()

            names = sorted(info.name for info in reports.list())
            reports.get_file("march.txt", Path(folder, "copy.txt"))
            print(*names, Path(folder, "copy.txt").read_text().strip(), sep="\n")
            js.delete_object_store("example_reports")
            js.delete_stream("EXAMPLE_REPORTS")
            return names


if __name__ == "__main__":
    main(*sys.argv[1:2])
