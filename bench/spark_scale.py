"""What a Spark read costs as its stream grows, and how long a row takes from publish to sink.

    python -m bench.spark_scale [--only WORD] [--scale S]

memory: a stream of 10,000,000 messages (times the scale) in 1, 2 and 4 partitions; the largest
resident size of any Python worker and of the JVM, next to a read of a tenth of it: it must not
grow with the stream. sparse: 200 messages of one subject among others, in a stream and in one of
four times its size; the CPU time of server and workers must be that of the 200. latency: 50
messages per second into one stream, through a streaming query with a trigger of 0, to a
consumer of another stream. Nothing here asserts a time.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

from bench.servers import OURS, running
from bench.spark import CHUNK, PAYLOAD, Figures, Session, discard, filled

RARE = 200
LATENCY_S = 20.0
LATENCY_RATE = 50


class Peaks:
    """The largest resident size of the JVM and of any Python process below it, while open."""

    LOOK_S = 0.05

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.jvm_mb = 0.0
        self.worker_mb = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(self.LOOK_S):
            for pid in _descendants(self._jvm):
                size = _resident_mb(pid)
                if pid == self._jvm:
                    self.jvm_mb = max(self.jvm_mb, size)
                else:
                    self.worker_mb = max(self.worker_mb, size)


def _descendants(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found


def _resident_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.split("VmRSS:")[1].split()[0]) / 1024 if "VmRSS:" in status else 0.0


def memory_case(session: Session, scale: float) -> None:
    """Read all of a large stream, and a tenth of it, in some partitions."""
    rows = int(10_000_000 * scale)
    with running(OURS) as server:
        url = f"nats://{server.host}:{server.port}"
        filled(url, "LARGE", rows)
        source = session.spark.read.format("jetstream").option("servers", url)
        source = source.option("stream", "LARGE")
        discard(source.option("endingOffsets", str(CHUNK)).load())
        for parts in (1, 2, 4):
            for end in (rows // 10, rows):
                found = Figures()
                read = source.options(minPartitions=parts, maxRecordsPerPartition=rows)
                frame = read.option("endingOffsets", str(end + 1)).load()
                with Peaks(session.jvm) as peaks:
                    session.measure(found, end, partial(discard, frame))
                print(
                    f"memory, {end:>10,} rows in {parts} partitions: largest worker "
                    f"{peaks.worker_mb:,.0f} MB, JVM {peaks.jvm_mb:,.0f} MB; "
                    f"{found.rate:,.0f} rows/s, {found.cpu:,.0f} per CPU-second",
                    flush=True,
                )


def sparse_case(session: Session, scale: float) -> None:
    """Read one subject of a stream, and of one with four times as many other messages."""
    for rows in (int(500_000 * scale), int(2_000_000 * scale)):
        with running(OURS) as server:
            url = f"nats://{server.host}:{server.port}"
            _fill_sparse(url, rows)
            source = session.spark.read.format("jetstream").option("servers", url)
            source = source.option("stream", "SPARSE").option("subject", "SPARSE.rare")
            assert source.load().count() == RARE
            found, took = Figures(), []
            served_ns = server.cpu_ns()
            for _ in range(5):
                begun = time.perf_counter()
                session.measure(found, RARE, lambda: discard(source.load()))  # noqa: B023
                took.append(time.perf_counter() - begun)
            served_ms = (server.cpu_ns() - served_ns) / 5e6
            print(
                f"sparse, {RARE} of {rows:>9,} messages: {min(took):.2f} s, CPU of JVM and "
                f"workers {RARE / found.cpu:.2f} s, of the server {served_ms:.1f} ms",
                flush=True,
            )


def _fill_sparse(url: str, rows: int) -> None:
    from jetspark import sync

    filled(url, "SPARSE", 0)
    every = rows // RARE
    with sync.connect(url) as client, client.jetstream().fast_publisher() as publisher:
        for first in range(0, rows, CHUNK):
            subjects = [
                "SPARSE.rare" if n % every == 0 else f"SPARSE.{n % 1000}"
                for n in range(first, min(first + CHUNK, rows))
            ]
            publisher.extend(subjects, [PAYLOAD] * len(subjects))


def latency_case(session: Session, scale: float) -> None:
    """Time from publish to a consumer of the sink's stream, at a trigger of 0."""
    for delivery in ("at-least-once", "exactly-once"):
        with running(OURS) as server, tempfile.TemporaryDirectory() as folder:
            url = f"nats://{server.host}:{server.port}"
            filled(url, "IN", 0)
            filled(url, "OUT", 0)
            took = _latencies(session, url, folder, delivery, max(5.0, LATENCY_S * scale))
        took.sort()
        print(
            f"latency, {delivery:<13}: publish to sink p50 {took[len(took) // 2] * 1e3:.0f} ms, "
            f"p99 {took[len(took) * 99 // 100] * 1e3:.0f} ms, longest {took[-1] * 1e3:.0f} ms "
            f"({len(took)} messages)",
            flush=True,
        )


def _latencies(
    session: Session, url: str, folder: str, delivery: str, seconds: float
) -> list[float]:
    from jetspark import sync

    source = session.spark.readStream.format("jetstream").options(servers=url, stream="IN")
    # The first message may be published before the query has asked where the stream ends.
    rows = (
        source.option("startingOffsets", "earliest")
        .load()
        .selectExpr("'OUT.x' AS subject", "data")
    )
    writer = rows.writeStream.format("jetstream").options(servers=url, stream="OUT")
    writer = writer.option("delivery", delivery).option("checkpointLocation", folder)
    query = writer.trigger(processingTime="0 seconds").start()
    took: list[float] = []
    try:
        with sync.connect(url) as client:
            # Not a subscription: that sees the messages of a batch before they are stored.
            came = client.jetstream().stream("OUT").ordered_consumer().messages()
            # The first micro-batches start workers and load classes.
            for _ in range(20):
                client.publish("IN.x", b"0")
                client.flush()
                came.next(timeout=60)
            sent = threading.Thread(target=_publish, args=(url, seconds), daemon=True)
            sent.start()
            took += (
                time.time() - float(came.next(timeout=60).data)
                for _ in range(int(seconds * LATENCY_RATE))
            )
            sent.join()
            came.close()
    finally:
        query.stop()
    return took


def _publish(url: str, seconds: float) -> None:
    from jetspark import sync

    with sync.connect(url) as client:
        begun = time.time()
        for number in range(int(seconds * LATENCY_RATE)):
            time.sleep(max(0.0, begun + number / LATENCY_RATE - time.time()))
            client.publish("IN.x", repr(time.time()).encode())
            client.flush()


CASES: dict[str, Callable[[Session, float], None]] = {
    "memory": memory_case,
    "sparse": sparse_case,
    "latency": latency_case,
}


def main() -> None:
    """Measure and print."""
    parser: Any = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    arguments = parser.parse_args()
    session = Session()
    try:
        for name, case in CASES.items():
            if arguments.only in name:
                case(session, arguments.scale)
    finally:
        session.spark.stop()


if __name__ == "__main__":
    main()
