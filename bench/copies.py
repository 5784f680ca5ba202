"""How fast a new mirror or source catches up: on one server, and from another server.

Across servers nats-server uses a leaf node, ours its connection to a remote (docs/mirrors.md). The
time is measured from the request that creates the copy until its STREAM.INFO has the last
sequence; our copy is then on disk. CPU is that of the copying server.
"""

import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.cases import Case, Work
from bench.load import Wire, make_stream, windowed
from bench.servers import OURS, PEER, Running, running

BODY = b"x" * 128
COUNT = 200_000
POLL = 0.005  # seconds between polls of a copy


def fill(server: Running, count: int) -> Wire:
    """An origin with this many messages."""
    wire = Wire(server)
    make_stream(wire, b"ORIGIN")
    wire.send(b"SUB _I.* 1\r\n")
    wire.sync()
    windowed(wire, b"PUB ORIGIN.x _I.1 128\r\n%b\r\n" % BODY, b'"seq":', count, 5000)
    return wire


def caught_up(wire: Wire, count: int, copy: bytes) -> None:
    """Create a copy and wait until it has everything."""
    reply = wire.request(b"$JS.API.STREAM.CREATE.COPY", b'{"name":"COPY",%b}' % copy)
    if b'"error"' in reply:
        raise RuntimeError(reply.decode(errors="replace"))
    while b'"last_seq":%d,' % count not in wire.request(b"$JS.API.STREAM.INFO.COPY", b""):
        time.sleep(POLL)


def on_one_server(copy: bytes) -> Callable[[Running, int], Work]:
    """Copy a stream of the same server."""

    def prepare(server: Running, count: int) -> Work:
        wire = fill(server, count)
        return lambda: caught_up(wire, count, copy)

    return prepare


CASES = (
    Case("mirror catch-up, same server", COUNT, on_one_server(b'"mirror":{"name":"ORIGIN"}')),
    Case("source catch-up, same server", COUNT, on_one_server(b'"sources":[{"name":"ORIGIN"}]')),
)


def unused_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def across(name: str, origin: str, count: int) -> tuple[float, float]:
    """Messages per second and CPU ns per message of a mirror of another server's stream."""
    with (
        tempfile.TemporaryDirectory(prefix="jetspark-bench-", dir=Path.cwd()) as text,
        ExitStack() as stack,
    ):
        folder = Path(text)
        leaf = unused_port()
        hub_flags: list[str] = []
        if name == PEER:
            config = folder / "hub.conf"
            config.write_text(
                f"jetstream {{ domain: hub }}\nleafnodes {{ listen: '127.0.0.1:{leaf}' }}\n"
            )
            hub_flags = ["-c", str(config)]
        hub = stack.enter_context(running(origin, *hub_flags))
        config = folder / "copy.conf"
        config.write_text(
            f"jetstream {{ domain: leaf }}\n"
            f"leafnodes {{ remotes [ {{ url: 'nats://127.0.0.1:{leaf}' }} ] }}\n"
            if name == PEER
            else f"jetspark {{ remotes {{ hub {{ url: 'nats://{hub.host}:{hub.port}' }} }} }}\n"
        )
        fill(hub, count).close()
        copying = stack.enter_context(running(name, "-c", str(config)))
        wire = Wire(copying)
        time.sleep(0.5)  # both connections to the hub are open
        source = b'"mirror":{"name":"ORIGIN","external":{"api":"$JS.hub.API"}}'
        cpu, begun = copying.cpu_ns(), time.perf_counter()
        caught_up(wire, count, source)
        seconds = time.perf_counter() - begun
        return count / seconds, (copying.cpu_ns() - cpu) / count


def report(rounds: int, scale: float, *, only: str) -> None:
    """Print the rows across servers."""
    count = max(1, int(COUNT * scale))
    for origin in (OURS, PEER):
        title = f"mirror catch-up, from {origin}"
        if only not in title:
            continue
        theirs = [across(PEER, PEER, count) for _ in range(rounds)]
        ours = [across(OURS, origin, count) for _ in range(rounds)]
        rates = [statistics.median(row[0] for row in each) for each in (theirs, ours)]
        cheapest = [min(row[1] for row in each) for each in (theirs, ours)]
        print(
            f"{title:<34} {rates[0]:>10,.0f}/s {rates[1]:>10,.0f}/s {rates[1] / rates[0]:>6.2f}   "
            f"{cheapest[0]:,.0f} {cheapest[1]:,.0f}"
        )
