"""Spark over JetStream compared with nats-py as users write it, on our server and nats-server.

    python -m bench.spark [--only WORD] [--rounds N] [--scale S]     also part of `make bench`

One Spark session, local[2], 128-byte payloads, file storage, the noop sink. Two figures for each
row: rows per second of wall-clock time, and rows per CPU-second of the JVM and its Python workers,
which varies little on a busy machine. The ceiling is a source that generates its rows, with lists
built for every batch. Nothing here asserts a time.
"""

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import spark_peers
from bench.raw_api import checked, stream_request
from bench.servers import OURS, PEER, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAYLOAD = b"x" * 128
CHUNK = 5_000
SERVERS = (OURS, PEER)
TICK = os.sysconf("SC_CLK_TCK")

Job = Callable[[], None]


@dataclass
class Figures:
    """The results of the runs of one case."""

    rates: list[float] = field(default_factory=list)
    per_cpu: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Rows per second: the median."""
        return statistics.median(self.rates)

    @property
    def cpu(self) -> float:
        """Rows per CPU-second: the best, which other work on the machine affected least."""
        return max(self.per_cpu)


class ProcessTree:
    """A process and its descendants, with the CPU time of all of them.

    Python workers end when they are idle, and their time is not accounted to any process if the
    daemon that forked them ends first. So every process is sampled several times a second, and its
    last sample counts: the sum never decreases.
    """

    LOOK_S = 0.1

    def __init__(self, root: int) -> None:
        self._root = root
        self._ticks: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu_s(self) -> float:
        """Return the CPU time of all of them so far."""
        with self._lock:
            self._look()
            return sum(self._ticks.values()) / TICK

    def _watch(self) -> None:
        while Path(f"/proc/{self._root}").exists():
            time.sleep(self.LOOK_S)
            with self._lock:
                self._look()

    def _look(self) -> None:
        parents: dict[int, int] = {}
        found: dict[int, tuple[str, int]] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                # After the name, which may contain anything: state, parent, ... times at 11 and
                # 12, and at 19 the start time, which distinguishes it from another process with
                # the same pid.
                words = (folder / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(words[1])
            found[int(folder.name)] = words[19], int(words[11]) + int(words[12])
        for pid, (started, ticks) in found.items():
            if (pid, started) in self._ticks or self._within(pid, parents):
                self._ticks[pid, started] = ticks

    def _within(self, pid: int, parents: dict[int, int]) -> bool:
        while pid > 1:
            if pid == self._root:
                return True
            pid = parents.get(pid, 0)
        return False


class Session:
    """A Spark session, and the CPU time of its processes."""

    def __init__(self) -> None:
        here = str(Path(__file__).resolve().parents[1])
        path = os.environ.get("PYTHONPATH", "")
        # Workers import functions from this folder.
        os.environ["PYTHONPATH"] = f"{here}{os.pathsep}{path}" if path else here
        from jetspark.spark import session

        config = {"spark.ui.enabled": "false", "spark.driver.memory": "2g"}
        self.spark: SparkSession = session(
            "jetspark-bench", master="local[2]", config=config, log_level="OFF"
        )
        self.spark.dataSource.register(spark_peers.ceiling_source())
        self.jvm: int = self.spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001
        self._processes = ProcessTree(self.jvm)

    def cpu_s(self) -> float:
        """CPU time of the JVM and of everything that it started, including ended processes."""
        return self._processes.cpu_s()

    def measure(self, found: Figures, rows: int, job: Job) -> None:
        """Run a job and record its time."""
        cpu, begun = self.cpu_s(), time.perf_counter()
        job()
        seconds, spent = time.perf_counter() - begun, self.cpu_s() - cpu
        found.rates.append(rows / seconds)
        found.per_cpu.append(rows / spent if spent else 0.0)


def discard(rows: "DataFrame") -> None:
    """Read every row and every column, and keep none."""
    rows.write.format("noop").mode("overwrite").save()


@contextmanager
def served(name: str) -> Iterator[str]:
    """A server; its URL."""
    with running(name) as server:
        yield f"nats://{server.host}:{server.port}"


def filled(url: str, name: str, rows: int) -> None:
    """Create a stream with this many messages."""
    from jetspark import sync

    with sync.connect(url) as client:
        js = client.jetstream()
        fields = {"subjects": [f"{name}.>"], "allow_direct": True, "allow_batched": True}
        checked(client.request(*stream_request(name, **fields)))
        if not rows:
            return
        with js.fast_publisher() as publisher:
            for first in range(0, rows, CHUNK):
                count = min(CHUNK, rows - first)
                publisher.extend([f"{name}.{n % 10}" for n in range(count)], [PAYLOAD] * count)


def read_case(session: Session, server: str, rounds: int, scale: float) -> None:
    """Read a stream: the connector, nats-py, the ceiling, and Parquet, alternating."""
    rows, few = int(1_000_000 * scale), int(100_000 * scale)
    ours, theirs, ceiling, parquet = Figures(), Figures(), Figures(), Figures()
    spark = session.spark
    with served(server) as url, tempfile.TemporaryDirectory() as folder:
        filled(url, "READ", rows)
        filled(url, "FEW", few)
        source = spark.read.format("jetstream").option("servers", url).option("stream", "READ")
        made_up = spark.read.format("bench_ceiling").option("rows", str(rows))
        files = f"{folder}/rows"
        source.load().write.parquet(files)
        for warm in (True, *[False] * rounds):
            found = [Figures() for _ in range(4)] if warm else [ours, theirs, ceiling, parquet]
            session.measure(found[0], rows, lambda: discard(source.load()))
            session.measure(
                found[1], few, lambda: discard(spark_peers.read_with_nats_py(spark, url, few))
            )
            session.measure(found[2], rows, lambda: discard(made_up.load()))
            session.measure(found[3], rows, lambda: discard(spark.read.parquet(files)))
    row(f"read, on {server}", theirs, ours)
    print(
        f"{'  share of the Arrow ceiling':<34} {ceiling.rate:>10,.0f}/s {ours.rate:>10,.0f}/s "
        f"{ours.cpu / ceiling.cpu:>6.0%}   {ceiling.cpu:,.0f} {ours.cpu:,.0f}"
    )
    print(
        f"{'  the same rows in Parquet':<34} {parquet.rate:>10,.0f}/s {ours.rate:>10,.0f}/s "
        f"{ours.rate / parquet.rate:>6.2f}   {parquet.cpu:,.0f} {ours.cpu:,.0f}"
    )


def write_case(session: Session, server: str, rounds: int, scale: float) -> None:
    """Write exactly once with the connector, and with nats-py's publish_async."""
    rows, few = int(1_000_000 * scale), int(100_000 * scale)
    ours, theirs = Figures(), Figures()
    with served(server) as url:
        filled(url, "WRITE", 0)
        for number, warm in enumerate((True, *[False] * rounds)):
            found = [Figures(), Figures()] if warm else [ours, theirs]
            write = partial(write_exactly_once, session.spark, url, rows, number)
            session.measure(found[0], rows, write)
            frame = payloads(session.spark, few)
            session.measure(found[1], few, partial(spark_peers.write_with_nats_py, frame, url))
        check_stored(url, "WRITE", (rows + few) * (rounds + 1))
    row(f"exactly-once write, on {server}", theirs, ours)


def write_exactly_once(spark: "SparkSession", url: str, rows: int, number: int) -> None:
    """One batch write with its own transaction."""
    writer = payloads(spark, rows).write.format("jetstream").option("servers", url)
    writer = writer.option("stream", "WRITE").option("delivery", "exactly-once")
    writer.option("txnAppId", "bench").option("txnVersion", str(number)).mode("append").save()


def payloads(spark: "SparkSession", rows: int) -> "DataFrame":
    """Rows to write, each different, in two partitions."""
    made = spark.range(rows, numPartitions=2)
    return made.selectExpr(
        "concat('WRITE.', id % 10) AS subject",
        "cast(rpad(cast(id AS string), 128, 'x') AS binary) AS data",
    )


def check_stored(url: str, name: str, rows: int) -> None:
    """Check that all rows are stored: otherwise the figure would be meaningless."""
    from jetspark import sync

    with sync.connect(url) as client:
        stored = client.jetstream().stream(name).info().state.messages
    assert stored == rows, f"{stored} of {rows} rows are stored"


def kv_case(session: Session, server: str, rounds: int, scale: float) -> None:
    """A snapshot of a bucket."""
    keys = int(1_000_000 * scale)
    ours = Figures()
    with served(server) as url:
        fill_bucket(url, keys)
        bucket = session.spark.read.format("nats_kv").option("servers", url)
        bucket = bucket.option("bucket", "BENCH")
        assert bucket.load().count() == keys
        for _ in range(rounds):
            session.measure(ours, keys, lambda: discard(bucket.load()))
    row(f"KV snapshot, on {server}", None, ours)


def fill_bucket(url: str, keys: int) -> None:
    """Create a bucket with this many keys."""
    from jetspark import sync

    with sync.connect(url) as client:
        js = client.jetstream()
        kv = js.create_key_value("BENCH")
        for first in range(0, keys, CHUNK):
            some = range(first, min(first + CHUNK, keys))
            kv.put_many({f"k.{n}": PAYLOAD for n in some}, timeout=60)


def row(name: str, theirs: Figures | None, ours: Figures) -> None:
    """Print one row of the table."""
    if theirs is None:
        print(f"{name:<34} {'-':>12} {ours.rate:>10,.0f}/s {'':>6}   - {ours.cpu:,.0f}")
        return
    print(
        f"{name:<34} {theirs.rate:>10,.0f}/s {ours.rate:>10,.0f}/s "
        f"{ours.rate / theirs.rate:>6.2f}   {theirs.cpu:,.0f} {ours.cpu:,.0f}"
    )


CASES: dict[str, Callable[[Session, str, int, float], None]] = {
    "spark read": read_case,
    "spark exactly-once write": write_case,
    "spark KV snapshot": kv_case,
}


def report(rounds: int, *, only: str = "", scale: float = 1.0) -> None:
    """Print the table."""
    chosen = [case for name, case in CASES.items() if only in name]
    if not chosen:
        return
    print(
        f"\n{'Spark local[2], 128 B':<34} {'nats-py':>12} {'jetspark':>12} {'ratio':>6}   "
        "rows per CPU-second of JVM and workers (theirs, ours)"
    )
    session = Session()
    try:
        for case in chosen:
            for server in SERVERS:
                case(session, server, rounds, scale)
    finally:
        session.spark.stop()


def main() -> None:
    """Measure and print."""
    parser: Any = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    arguments = parser.parse_args()
    report(arguments.rounds, only=arguments.only, scale=arguments.scale)


if __name__ == "__main__":
    main()
