"""Latency at a given rate: from a publish to its acknowledgement, and to its delivery.

    python -m bench.latency                         every scenario, three servers
    python -m bench.latency --only alone --seconds 5
    python -m bench.latency --out build/latency     writes latency.json and one SVG per scenario

The load is open: message n is due at a fixed time, whatever became of those before it, and its
latency counts from that time. A server that stops for 100 ms so delays every message that was due
meanwhile, and not only the one that was in flight (no coordinated omission). The rates are shares
of the highest rate of the same server, measured first, with many messages in flight.

Messages of one publisher are acknowledged and delivered in order, so the n-th acknowledgement
belongs to the n-th message.
"""

import argparse
import json
import multiprocessing
import select
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path

from bench.consumer_cases import make_consumer
from bench.load import RECEIVE, Wire, make_stream, windowed, windowed_frames
from bench.servers import OURS, PEER, SYNC_ALWAYS, Running, running
from bench.svg import Panel, figure

SIZE = 128
BODY = b"x" * SIZE
ACK = b'"seq":'
FRAME = b"PUB LAT.x _L.1 %d\r\n%b\r\n" % (SIZE, BODY)
DELIVERED = b"MSG LAT.x 1 "
SHARES = (0.1, 0.5, 0.9)
SECONDS = 10.0
# Messages for the highest rate, and of the stream that scenarios work on; ``scale`` reduces them.
MOST = 300_000
LARGE = 1_000_000
LARGE_SUBJECTS = 100_000
# A generator that is this late has not enough CPU time for the rate.
LATE_S = 1.0
# How long to wait for the last answers.
DRAIN_S = 30.0
# Sleeping less than this is not worth a system call.
SPIN_S = 0.00005
# At most this many messages are sent before answers are read.
BURST = 2_000


@dataclass
class Answers:
    """When the answers to a run of messages arrived, in order."""

    mark: bytes
    count: int = 0
    # The number of the first message, how many, and when they were read.
    runs: list[tuple[int, int, float]] = field(default_factory=list)
    _tail: bytes = b""

    def read(self, data: bytes, now: float) -> None:
        """Count the marks in received bytes."""
        data = self._tail + data
        found = data.count(self.mark)
        if found:
            self.runs.append((self.count, found, now))
            self.count += found
            end = data.rfind(self.mark) + len(self.mark)
            data = data[end:]
        self._tail = data[-(len(self.mark) - 1) :]

    def latencies(self, begun: float, interval: float) -> list[float]:
        """Seconds from when each message was due, sorted."""
        found = [
            now - (begun + n * interval)
            for first, count, now in self.runs
            for n in range(first, first + count)
        ]
        found.sort()
        return found


@dataclass(frozen=True)
class Figures:
    """Percentiles of a run, in milliseconds."""

    p50: float
    p99: float
    p999: float
    longest: float

    @classmethod
    def of(cls, latencies: Sequence[float]) -> "Figures":
        """The percentiles of sorted seconds."""
        last = len(latencies) - 1

        def at(share: float) -> float:
            return 1000 * latencies[min(last, int(share * len(latencies)))]

        return cls(at(0.5), at(0.99), at(0.999), 1000 * latencies[last])


@dataclass(frozen=True)
class Row:
    """One server, one scenario, one rate."""

    server: str
    scenario: str
    share: float
    rate: float
    acks: Figures
    deliveries: Figures


class OpenLoop:
    """Publishes at a rate, and reads acknowledgements and deliveries."""

    def __init__(self, server: Running, config: bytes = b"") -> None:
        self.writer = Wire(server)
        make_stream(self.writer, b"LAT", config)
        self.writer.send(b"SUB _L.* 1\r\n")
        self.writer.sync()
        self.reader = Wire(server)
        self.reader.send(b"SUB _D.1 1\r\n")
        self.reader.sync()

    def close(self) -> None:
        """Close its connections."""
        self.writer.close()
        self.reader.close()

    def highest_rate(self, count: int) -> float:
        """Messages per second with 1,000 in flight, without a consumer."""
        begun = time.perf_counter()
        windowed(self.writer, FRAME, ACK, count, 1000)
        return count / (time.perf_counter() - begun)

    def follow(self) -> None:
        """Deliver what is published from now on."""
        config = b'"deliver_subject":"_D.1","deliver_policy":"new","ack_policy":"none"'
        make_consumer(self.writer, b"LAT", b"c", config + b',"mem_storage":true')

    def run(self, rate: float, seconds: float) -> tuple[Figures, Figures]:
        """Publish for some seconds; latencies of acknowledgements and of deliveries."""
        acks, deliveries = Answers(ACK), Answers(DELIVERED)
        total = max(1, int(rate * seconds))
        interval = 1 / rate
        clock = time.perf_counter
        writer, reader = self.writer.socket, self.reader.socket
        for each in (writer, reader):
            each.setblocking(False)
        unsent = memoryview(b"")
        sent = 0
        begun = clock()
        drained_by = begun + seconds + DRAIN_S
        while acks.count < total or deliveries.count < total:
            now = clock()
            due = min(total, int((now - begun) / interval) + 1)
            if not unsent and sent < due:
                more = min(due - sent, BURST)
                unsent = memoryview(FRAME * more)
                sent += more
            if unsent:
                with suppress(BlockingIOError):
                    unsent = unsent[writer.send(unsent) :]
            wait = 0.0
            if not unsent and sent == due:
                ahead = begun + sent * interval - clock() if sent < total else DRAIN_S
                wait = ahead if ahead > SPIN_S else 0.0
            ready, _, _ = select.select([writer, reader], [], [], wait)
            now = clock()
            for each, answers in ((writer, acks), (reader, deliveries)):
                if each in ready:
                    data = each.recv(RECEIVE)
                    if not data:
                        raise ConnectionError("the server closed the connection")
                    answers.read(data, now)
            if now > drained_by:
                print(
                    f"  {DRAIN_S:.0f} s after the last of {total:,}: {acks.count:,} acknowledged, "
                    f"{deliveries.count:,} delivered; the figures are of those"
                )
                break
        if clock() - begun - seconds > LATE_S:
            print(f"  not kept up: {total / (clock() - begun):,.0f}/s instead of {rate:,.0f}/s")
        for each in (writer, reader):
            each.settimeout(60)
        found = [Figures.of(each.latencies(begun, interval)) for each in (acks, deliveries)]
        return found[0], found[1]


# Scenarios: what else the server does meanwhile, each in a process of its own -------------------


def fill_large(server: Running, scale: float) -> None:
    """A stream of many messages over many subjects."""
    wire = Wire(server)
    make_stream(wire, b"BIG")
    wire.send(b"SUB _I.* 1\r\n")
    subjects = max(1, int(LARGE_SUBJECTS * scale))
    once = [b"PUB BIG.%d _I.1 %d\r\n%b\r\n" % (n, SIZE, BODY) for n in range(subjects)]
    for _ in range(max(1, int(LARGE * scale) // subjects)):
        windowed_frames(wire, once, ACK, min(5000, subjects))
    wire.close()


def overwrite(server: Running, stop: Event) -> None:
    """Overwrite keys with a history of one: segments lose nearly all of their messages."""
    wire = Wire(server)
    make_stream(wire, b"KEYS", b',"max_msgs_per_subject":1')
    wire.send(b"SUB _I.* 1\r\n")
    frames = [b"PUB KEYS.%d _I.1 1024\r\n%b\r\n" % (n, b"x" * 1024) for n in range(2000)]
    while not stop.is_set():
        windowed_frames(wire, frames, ACK, 100)
        time.sleep(0.02)


def replay(server: Running, stop: Event) -> None:
    """Read the large stream again and again."""
    reader, wire = Wire(server), Wire(server)
    reader.send(b"SUB _R2.* 1\r\n")
    reader.sync()
    reader.socket.settimeout(0.2)
    number = 0
    while not stop.is_set():
        config = b'"deliver_subject":"_R2.%d","ack_policy":"none","mem_storage":true' % number
        make_consumer(wire, b"BIG", b"r%d" % number, config)
        with suppress(TimeoutError):
            while not stop.is_set():
                reader.receive()
        wire.request(b"$JS.API.CONSUMER.DELETE.BIG.r%d" % number, b"")
        number += 1


def delete_large(server: Running, stop: Event) -> None:
    """Delete the large stream, and create others of very many subjects, and delete those."""
    wire = Wire(server)
    time.sleep(0.2)
    wire.request(b"$JS.API.STREAM.DELETE.BIG", b"")
    number = 0
    while not stop.is_set():
        subjects = ",".join(f'"many{number}.{n}.*"' for n in range(1000))
        body = f'{{"name":"MANY{number}","subjects":[{subjects}]}}'.encode()
        wire.request(b"$JS.API.STREAM.CREATE.MANY%d" % number, body)
        wire.request(b"$JS.API.STREAM.DELETE.MANY%d" % number, b"")
        number += 1
        time.sleep(0.05)


def copy_large(server: Running, stop: Event) -> None:
    """Create a mirror of the large stream, again and again: a large stream is created."""
    wire = Wire(server)
    number = 0
    while not stop.is_set():
        body = b'{"name":"COPY%d","mirror":{"name":"BIG"}}' % number
        wire.request(b"$JS.API.STREAM.CREATE.COPY%d" % number, body)
        stop.wait(1.0)
        wire.request(b"$JS.API.STREAM.DELETE.COPY%d" % number, b"")
        number += 1


Disturb = Callable[[Running, Event], None]


@dataclass(frozen=True)
class Scenario:
    """What happens meanwhile; ``config`` is that of the measured stream."""

    name: str
    disturb: Disturb | None = None
    config: bytes = b""
    # It needs the large stream, and the store as it is when no segment of it was ever verified.
    large: bool = False
    unverified: bool = False


SCENARIOS = (
    Scenario("alone"),
    # Small segments: several of them are filled and removed per second.
    Scenario("segments roll", config=b',"max_bytes":16777216,"discard":"old"'),
    Scenario("another stream is compacted", overwrite),
    Scenario("another stream is verified", large=True, unverified=True),
    Scenario("a large stream is copied", copy_large, large=True),
    Scenario("streams are created and deleted", delete_large, large=True),
    Scenario("another client replays", replay, large=True),
)


@contextmanager
def disturbed(server: Running, disturb: Disturb | None) -> Iterator[None]:
    """Run a scenario in a process of its own."""
    if disturb is None:
        yield
        return
    made = multiprocessing.get_context("spawn")
    stop = made.Event()
    process = made.Process(target=disturb, args=(server, stop), daemon=True)
    process.start()
    time.sleep(0.5)  # it imports, and connects
    try:
        yield
    finally:
        stop.set()
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()


def measure(
    name: str,
    scenario: Scenario,
    *,
    seconds: float,
    scale: float,
    shares: Sequence[float] = SHARES,
) -> list[Row]:
    """Measure one server in one scenario, with a fresh store for each rate."""
    rows = []
    highest = 0.0
    for share in shares:
        folder = Path(tempfile.mkdtemp(prefix="jetspark-bench-", dir=Path.cwd()))
        try:
            if scenario.unverified:
                with running(name, store=folder) as server:
                    fill_large(server, scale)
                for found in folder.rglob("scrubbed"):
                    found.unlink()
            with running(name, store=folder) as server:
                if scenario.large and not scenario.unverified:
                    fill_large(server, scale)
                with closing(OpenLoop(server, scenario.config)) as loop:
                    if not highest:
                        highest = loop.highest_rate(max(1, int(MOST * scale)))
                    loop.follow()
                    with disturbed(server, scenario.disturb):
                        acks, deliveries = loop.run(highest * share, seconds)
            rows.append(Row(name, scenario.name, share, highest * share, acks, deliveries))
            show(rows[-1])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return rows


def show(row: Row) -> None:
    """Print a row."""

    def of(found: Figures) -> str:
        return f"{found.p50:>8.2f} {found.p99:>8.2f} {found.p999:>8.2f} {found.longest:>8.1f}"

    print(
        f"{row.server:<19} {row.scenario:<32} {row.share:>4.0%} {row.rate:>9,.0f}/s"
        f" {of(row.acks)}  {of(row.deliveries)}",
        flush=True,
    )


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows for a file."""
    return [
        {
            "server": row.server,
            "scenario": row.scenario,
            "share": row.share,
            "rate": row.rate,
            "ack_ms": vars(row.acks),
            "delivery_ms": vars(row.deliveries),
        }
        for row in rows
    ]


def plots(rows: Sequence[Row]) -> Mapping[str, str]:
    """One figure per scenario, by file name."""
    found = {}
    for scenario in dict.fromkeys(row.scenario for row in rows):
        own = [row for row in rows if row.scenario == scenario]
        panels = []
        for what, answers in (("acknowledgement", "acks"), ("delivery", "deliveries")):
            for label, percentile in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999")):
                lines: dict[str, list[tuple[float, float]]] = {}
                for row in own:
                    value: float = getattr(getattr(row, answers), percentile)
                    lines.setdefault(row.server, []).append((row.rate, value))
                title = f"publish to {what}, {label}"
                panels.append(Panel(title, "messages/s", "ms", lines, log_y=True))
        name = "latency-" + "".join(c if c.isalnum() else "-" for c in scenario)
        found[f"{name}.svg"] = figure(f"Latency: {scenario}", panels)
    return found


def write(rows: Sequence[Row], folder: Path) -> None:
    """Write the figures and the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latency.json").write_text(json.dumps(as_json(rows), indent=1) + "\n")
    for name, drawn in plots(rows).items():
        (folder / name).write_text(drawn)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--servers", default=f"{OURS},{PEER},{SYNC_ALWAYS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each rate")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages")
    parser.add_argument("--out", type=Path, help="folder for latency.json and the plots")
    arguments = parser.parse_args()
    four = f"{'p50':>8} {'p99':>8} {'p99.9':>8} {'longest':>8}"
    print(f"{'ms':<19} {'':<32} {'':>4} {'':>11} {four}  {four}")
    rows = []
    for scenario in SCENARIOS:
        if arguments.only not in scenario.name:
            continue
        for name in arguments.servers.split(","):
            if scenario.unverified and name != OURS:
                continue  # it does not verify what it stored
            rows += measure(name, scenario, seconds=arguments.seconds, scale=arguments.scale)
    if arguments.out is not None:
        write(rows, arguments.out)
        print(f"wrote {arguments.out / 'latency.json'} and the plots")


if __name__ == "__main__":
    main()
