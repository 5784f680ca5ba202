"""A read replica compared with its leader: direct gets, publishes through it, and its cost.

The figures of a row are those of requests to the leader, and to the replica; CPU is that of the
server that gets the requests. The cost rows are the leader's CPU per acknowledged publish, without
a replica and with one that copies the stream (docs/replicas.md).
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.load import Wire, make_stream, windowed
from bench.servers import OURS, PEER, Running, running

GETS = 100_000
PUBLISHES = 100_000
WINDOW = 100
FILLED = 1000
BODY = b"x" * 128
# Separate inboxes for acknowledgements to the leader's client and to the replica's.
NEAR, FAR = b"_I", b"_J"


def publish_frame(inbox: bytes) -> bytes:
    """A publish."""
    return b"PUB GET.x %b.1 128\r\n%b\r\n" % (inbox, BODY)


def get_frame(inbox: bytes) -> bytes:
    """A direct get."""
    return b'PUB $JS.API.DIRECT.GET.GET %b.1 11\r\n{"seq":500}\r\n' % inbox


@contextmanager
def leader_with_stream(name: str) -> Iterator[tuple[Running, Wire]]:
    """A leader with a stream of some messages."""
    with running(name) as leader:
        wire = Wire(leader)
        make_stream(wire, b"GET")
        wire.send(b"SUB %b.* 1\r\n" % NEAR)
        wire.sync()
        windowed(wire, publish_frame(NEAR), b'"seq":', FILLED, FILLED)
        yield leader, wire


@contextmanager
def replica_of(leader: Running) -> Iterator[tuple[Running, Wire]]:
    """A replica whose copy has everything."""
    url = f"nats://{leader.host}:{leader.port}"
    with running(OURS, "--replica-of", url, "--streams", "GET") as replica:
        wire = Wire(replica)
        wire.send(b"SUB %b.* 1\r\n" % FAR)
        wire.sync()
        while True:  # until the leader gets no more requests
            cpu = leader.cpu_ns()
            windowed(wire, get_frame(FAR), b"HMSG ", 200, 10)
            if leader.cpu_ns() - cpu < 2_000_000:
                break
            time.sleep(0.05)
        yield replica, wire


def timed(server: Running, work: Callable[[], None], count: int) -> tuple[float, float]:
    """Rate per second, and CPU nanoseconds of the server per operation."""
    cpu, begun = server.cpu_ns(), time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    return count / seconds, (server.cpu_ns() - cpu) / count


def gets(wire: Wire, inbox: bytes, count: int) -> Callable[[], None]:
    """Get a message repeatedly."""
    return lambda: windowed(wire, get_frame(inbox), b"HMSG ", count, WINDOW)


def publishes(wire: Wire, inbox: bytes, count: int) -> Callable[[], None]:
    """Publish with acknowledgements."""
    return lambda: windowed(wire, publish_frame(inbox), b'"seq":', count, 1000)


def row(title: str, rows: list[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    """Print medians of rates and the least CPU."""
    rates = [statistics.median(each[side][0] for each in rows) for side in (0, 1)]
    cheapest = [min(each[side][1] for each in rows) for side in (0, 1)]
    print(
        f"{title:<34} {rates[0]:>10,.0f}/s {rates[1]:>10,.0f}/s {rates[1] / rates[0]:>6.2f}   "
        f"{cheapest[0]:,.0f} {cheapest[1]:,.0f}"
    )


def report(rounds: int, scale: float, *, only: str) -> None:
    """Print the rows."""
    count = max(1, int(GETS * scale))
    for name in (OURS, PEER):
        titles = [f"replica of {name}: {what}" for what in ("direct get", "publish", "its cost")]
        if not any(only in title for title in titles):
            continue
        found: list[list[tuple[tuple[float, float], tuple[float, float]]]] = [[], [], []]
        for _ in range(rounds):
            with leader_with_stream(name) as (leader, near):
                get = timed(leader, gets(near, NEAR, count), count)
                alone = timed(leader, publishes(near, NEAR, count), count)
                with replica_of(leader) as (replica, far):
                    found[0].append((get, timed(replica, gets(far, FAR, count), count)))
                    through = timed(replica, publishes(far, FAR, count), count)
                    found[1].append((alone, through))
                    watched = timed(leader, publishes(near, NEAR, count), count)
                    found[2].append((alone, watched))
        for title, rows in zip(titles, found, strict=True):
            row(title, rows)
