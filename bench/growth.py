"""How costs grow: to 10 M messages, 1 M subjects, 10,000 streams and consumers, 5,000 connections.

    python -m bench.growth                            every dimension, both servers
    python -m bench.growth --only subjects --scale 0.01
    python -m bench.growth --out build/growth         writes growth.json and one SVG per dimension

One server grows in steps. After each step the same things are measured: publishing, direct gets,
STREAM.INFO, creating a consumer, purging a subject, memory, disk, and a start after SIGKILL. A
second client asks for little meanwhile (bench/bystander.py): how long it waits at most is what
other clients notice of an operation.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.bystander import Bystander
from bench.connection_cases import Crowd
from bench.consumer_cases import make_consumer
from bench.load import Wire, make_stream, windowed, windowed_frames
from bench.servers import OURS, PEER, Running, running
from bench.svg import Panel, figure

SIZE = 128
BODY = b"x" * SIZE
ACK = b'"seq":'
WINDOW = 1000
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
PUBLISHED = 20_000
GETS = 300
INFOS = 20
CREATED = 20
PURGED = 100
PUBLISHED_BY_CROWD = 20_000
FRAMES = 100_000


@dataclass
class Grown:
    """A server that grows, with its store."""

    store: Path
    scale: float
    server: Running
    wire: Wire
    crowd: list[Crowd] = field(default_factory=list)

    def publish(self, frames: Sequence[bytes]) -> None:
        """Publish, with many in flight."""
        windowed_frames(self.wire, list(frames), ACK, min(WINDOW, len(frames)))

    def timed(self, times: int, work: Callable[[int], object]) -> float:
        """The median time of a request, in milliseconds."""
        found = []
        for n in range(max(1, times)):
            begun = time.perf_counter()
            work(n)
            found.append(time.perf_counter() - begun)
        return 1000 * statistics.median(found)


def connected(server: Running) -> Wire:
    """A connection that receives answers."""
    wire = Wire(server)
    wire.send(b"SUB _I.* 1\r\n")
    wire.sync()
    return wire


def frame_of(subject: bytes) -> bytes:
    """A publish that is acknowledged."""
    return b"PUB %b _I.1 %d\r\n%b\r\n" % (subject, SIZE, BODY)


# What grows --------------------------------------------------------------------------------------


def grow_messages(grown: Grown, before: int, after: int) -> None:
    """More messages on 100 subjects."""
    left = after - before
    once = [frame_of(b"BIG.%d" % (n % 100)) for n in range(min(left, FRAMES))]
    while left > 0:
        grown.publish(once[:left])
        left -= len(once)


def grow_subjects(grown: Grown, before: int, after: int) -> None:
    """More subjects, each with one message."""
    for first in range(before, after, FRAMES):
        last = min(after, first + FRAMES)
        grown.publish([frame_of(b"BIG.%d.%d" % (n % 100, n)) for n in range(first, last)])


def grow_streams(grown: Grown, before: int, after: int) -> None:
    """More streams, each with one message."""
    for n in range(before, after):
        make_stream(grown.wire, b"S%d" % n)
    grown.publish([frame_of(b"S%d.x" % n) for n in range(before, after)])


def grow_consumers(grown: Grown, before: int, after: int) -> None:
    """More durable consumers of one stream."""
    for n in range(before, after):
        config = b'"durable_name":"d%d","ack_policy":"explicit"' % n
        make_consumer(grown.wire, b"BIG", b"d%d" % n, config)


def grow_connections(grown: Grown, before: int, after: int) -> None:
    """More connections, each with a subscription."""
    inbox = b"_C%d" % len(grown.crowd)
    grown.crowd.append(Crowd(grown.server, after - before, lambda _: b"BIG.1", inbox))


@dataclass(frozen=True)
class Dimension:
    """What grows, how far, and whether it survives a restart."""

    name: str
    most: int
    grow: Callable[[Grown, int, int], None]
    stored: bool = True


DIMENSIONS = (
    Dimension("messages", 10_000_000, grow_messages),
    Dimension("subjects", 1_000_000, grow_subjects),
    Dimension("streams", 10_000, grow_streams),
    Dimension("consumers", 10_000, grow_consumers),
    Dimension("connections", 5_000, grow_connections, stored=False),
)


# What is measured --------------------------------------------------------------------------------


def measure_publish(grown: Grown) -> dict[str, float]:
    """CPU time and rate of publishes to a subject that exists; of all connections, if many."""
    count = max(10, int(PUBLISHED * min(1.0, 10 * grown.scale)))
    cpu, begun = grown.server.cpu_ns(), time.perf_counter()
    windowed(grown.wire, frame_of(b"BIG.1"), ACK, count, min(WINDOW, count))
    found = {
        "publish, CPU us": (grown.server.cpu_ns() - cpu) / count / 1000,
        "publish, messages/s": count / (time.perf_counter() - begun),
    }
    if grown.crowd:
        count = max(10, int(PUBLISHED_BY_CROWD * min(1.0, 10 * grown.scale)))
        cpu, begun = grown.server.cpu_ns(), time.perf_counter()
        grown.crowd[-1].publish(count)
        found["one at a time, CPU us"] = (grown.server.cpu_ns() - cpu) / count / 1000
        found["one at a time, messages/s"] = count / (time.perf_counter() - begun)
    return found


def measure_requests(grown: Grown) -> dict[str, float]:
    """Milliseconds of requests, one after the other, and the longest wait of a bystander."""
    wire = grown.wire

    def get(_: int) -> None:
        wire.send(b"PUB $JS.API.DIRECT.GET.BIG.BIG.1 _I.1 0\r\n\r\n")
        while b"HMSG _I.1" not in wire.receive():
            pass

    def create(n: int) -> None:
        config = b'"ack_policy":"none","mem_storage":true,"filter_subject":"BIG.1"'
        make_consumer(wire, b"BIG", b"tmp%d" % n, config)

    def purge(_: int) -> None:
        grown.publish([frame_of(b"BIG.purged.%d" % n) for n in range(PURGED)])
        wire.request(b"$JS.API.STREAM.PURGE.BIG", b'{"filter":"BIG.purged.*"}')

    def some(count: int) -> int:
        return max(2, int(count * min(1.0, 10 * grown.scale)))

    with closing(Bystander(grown.server, b"BIG")) as bystander, bystander:
        found = {
            "direct get, ms": grown.timed(some(GETS), get),
            "STREAM.INFO, ms": grown.timed(
                some(INFOS), lambda _: wire.request(b"$JS.API.STREAM.INFO.BIG", b"")
            ),
            "consumer create, ms": grown.timed(some(CREATED), create),
            "publish 100 and purge them, ms": grown.timed(3, purge),
        }
    found["longest wait of a bystander, ms"] = max(bystander.ping, bystander.get)
    for n in range(some(CREATED)):
        wire.request(b"$JS.API.CONSUMER.DELETE.BIG.tmp%d" % n, b"")
    return found


def measure_size(grown: Grown) -> dict[str, float]:
    """Memory of the server, and size of the store."""
    # Allocated, not apparent: files are extended before they are written.
    disk = sum(f.stat().st_blocks * 512 for f in grown.store.rglob("*") if f.is_file())
    return {"memory, MB": grown.server.resident_mb(), "disk, MB": disk / 1e6}


# Runs --------------------------------------------------------------------------------------------

Point = dict[str, float]


def steps_of(dimension: Dimension, scale: float, shares: Sequence[float]) -> list[int]:
    """The sizes to measure at, each larger than the one before."""
    most = max(2, int(dimension.most * scale))
    return sorted({max(1, int(most * share)) for share in shares})


def grow(
    name: str, dimension: Dimension, *, scale: float, shares: Sequence[float] = SHARES
) -> list[Point]:
    """Grow one server; the figures after each step."""
    store = Path(tempfile.mkdtemp(prefix="jetspark-bench-", dir=Path.cwd()))
    points: list[Point] = []
    size = 0
    crowd: list[Crowd] = []
    sizes = steps_of(dimension, scale, shares)
    try:
        while len(points) < len(sizes):
            begun = time.perf_counter()
            with running(name, store=store) as server, closing(connected(server)) as wire:
                started_s = time.perf_counter() - begun
                if points and dimension.stored:
                    points[-1]["start after SIGKILL, s"] = started_s
                grown = Grown(store, scale, server, wire, crowd)
                if not points:
                    # nats-server allows 1,000 consumers unless a stream says otherwise.
                    make_stream(wire, b"BIG", b',"max_consumers":1000000')
                    grown.publish([frame_of(b"BIG.%d" % n) for n in range(100)])
                while len(points) < len(sizes):
                    after = sizes[len(points)]
                    begun = time.perf_counter()
                    dimension.grow(grown, size, after)
                    each = (time.perf_counter() - begun) / (after - size) * 1e6
                    size = after
                    point = {"size": float(size), "growing, us each": each}
                    point |= measure_publish(grown) | measure_requests(grown)
                    points.append(point | measure_size(grown))
                    show(name, dimension, points[-1])
                    if dimension.stored:
                        server.kill()
                        break
        if dimension.stored:
            begun = time.perf_counter()
            with running(name, store=store):
                points[-1]["start after SIGKILL, s"] = time.perf_counter() - begun
    finally:
        for each_crowd in crowd:
            each_crowd.close()
        shutil.rmtree(store, ignore_errors=True)
    return points


def show(name: str, dimension: Dimension, point: Point) -> None:
    """Print the figures of a step."""
    rest = ", ".join(f"{what} {value:.3g}" for what, value in point.items() if what != "size")
    print(f"{name}, {point['size']:,.0f} {dimension.name}: {rest}", flush=True)


Results = Mapping[str, Mapping[str, Sequence[Point]]]


def plots(results: Results) -> dict[str, str]:
    """One figure per dimension, by file name: a panel for everything that was measured."""
    found = {}
    for dimension, servers in results.items():
        whats = dict.fromkeys(
            what for points in servers.values() for point in points for what in point
        )
        panels = []
        for what in whats:
            if what == "size":
                continue
            lines = {
                name: [(point["size"], point[what]) for point in points if what in point]
                for name, points in servers.items()
            }
            panels.append(Panel(what, dimension, what.rpartition(", ")[2], lines))
        found[f"growth-{dimension}.svg"] = figure(f"Growth: {dimension}", panels)
    return found


def write(results: Results, folder: Path) -> None:
    """Write the figures and the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "growth.json").write_text(json.dumps(results, indent=1) + "\n")
    for name, drawn in plots(results).items():
        (folder / name).write_text(drawn)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="dimensions whose name contains this")
    parser.add_argument("--servers", default=f"{OURS},{PEER}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of everything")
    parser.add_argument("--out", type=Path, help="folder for growth.json and the plots")
    arguments = parser.parse_args()
    results = {
        dimension.name: {
            name: grow(name, dimension, scale=arguments.scale)
            for name in arguments.servers.split(",")
        }
        for dimension in DIMENSIONS
        if arguments.only in dimension.name
    }
    if arguments.out is not None:
        write(results, arguments.out)
        print(f"wrote {arguments.out / 'growth.json'} and the plots")


if __name__ == "__main__":
    main()
