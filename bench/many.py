"""What many streams and consumers cost: creating, memory, idling, listing, starting, deleting.

    python -m bench.many                              1,000 streams and 10,000 consumers
    python -m bench.many --streams 10000 --json many.json

One client creates one stream after the other, then another batch with many requests in flight.
``memory back`` is what the server still holds after everything was deleted, compared with its
start.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from bench.bystander import Bystander
from bench.load import Wire, windowed_frames
from bench.servers import OURS, PEER, Running, running

TITLE = "many streams and consumers"
STREAMS = 1_000
CONSUMERS = 10_000
SUBJECTS = 1_000_000
IDLE_S = 3.0
WINDOW = 100
# nats-server allows 1,000 consumers unless a stream says otherwise.
CONSUMED = b'{"name":"C","subjects":["c.>"],"max_consumers":1000000}'
# Freed memory is returned to the system by the upkeep of the next period.
UPKEEP_S = 32.0
# What each figure is, in order, and its unit.
FIGURES = {
    "stream create, one at a time": "ms",
    "stream create, CPU": "ms",
    "stream create, many in flight": "ms",
    "first message of a new stream": "ms",
    "memory per stream": "KB",
    "idle CPU with the streams": "% of a core",
    "STREAM.NAMES, all pages": "ms",
    "STREAM.LIST, all pages": "ms",
    "start with the streams, after a stop": "s",
    "start with the streams, after SIGKILL": "s",
    "memory per stream after a start": "KB",
    "longest wait of a bystander, creating": "ms",
    "stream delete, one at a time": "ms",
    "longest wait of a bystander, deleting": "ms",
    "memory back, streams": "MB",
    "consumer create, one at a time": "ms",
    "longest wait of a bystander, consumers": "ms",
    "memory per consumer": "KB",
    "idle CPU with the consumers": "% of a core",
    "CONSUMER.LIST, all pages": "ms",
    "start with the consumers, after SIGKILL": "s",
    "consumer delete, one at a time": "ms",
    "memory back, streams, subjects and consumers": "MB",
}


def stream_body(number: int) -> tuple[bytes, bytes]:
    """Subject and body of the request that creates a stream."""
    body = b'{"name":"S%d","subjects":["s%d.>"]}' % (number, number)
    return b"$JS.API.STREAM.CREATE.S%d" % number, body


def consumer_body(number: int) -> tuple[bytes, bytes]:
    """Subject and body of the request that creates a durable consumer of the stream ``C``."""
    body = (
        b'{"stream_name":"C","config":{"durable_name":"c%d","ack_policy":"explicit",'
        b'"filter_subject":"c.%d"}}' % (number, number)
    )
    return b"$JS.API.CONSUMER.CREATE.C.c%d.c.%d" % (number, number), body


def frame(subject: bytes, body: bytes) -> bytes:
    """One request as a frame."""
    return b"PUB %b _I.1 %d\r\n%b\r\n" % (subject, len(body), body)


def one_by_one(wire: Wire, requests: Sequence[tuple[bytes, bytes]]) -> float:
    """Median milliseconds of these requests, one after the other."""
    took = []
    for subject, body in requests:
        began = time.perf_counter()
        answer = wire.request(subject, body)
        took.append(time.perf_counter() - began)
        if b'"error"' in answer:
            raise RuntimeError(answer.decode(errors="replace"))
    return statistics.median(took) * 1000


def in_flight(wire: Wire, frames: list[bytes]) -> float:
    """Milliseconds per request with many of them in flight."""
    began = time.perf_counter()
    windowed_frames(wire, frames, b'"type":"', WINDOW)
    return (time.perf_counter() - began) * 1000 / len(frames)


def idle_percent(server: Running) -> float:
    """CPU of a server that has nothing to do."""
    time.sleep(1)  # what the last request left to do
    began, cpu = time.perf_counter(), server.cpu_ns()
    time.sleep(IDLE_S)
    return (server.cpu_ns() - cpu) / (time.perf_counter() - began) / 1e7


@contextmanager
def watched(
    server: Running, stream: bytes, what: str, note: Callable[[str, float], None]
) -> Iterator[None]:
    """Note how long another client waits at most, in milliseconds."""
    with closing(Bystander(server, stream)) as bystander:
        with bystander:
            yield
        note(what, max(bystander.ping, bystander.get))


def pages(wire: Wire, subject: bytes, field: str) -> tuple[float, int]:
    """Milliseconds for all pages of a list, and how many items it has."""
    began = time.perf_counter()
    seen = 0
    while True:
        body = b'{"offset":%d}' % seen
        answer = json.loads(_body(wire, subject, body))
        page = answer[field] or []
        seen += len(page)
        if not page or seen >= answer["total"]:
            return (time.perf_counter() - began) * 1000, seen


def _body(wire: Wire, subject: bytes, body: bytes) -> bytes:
    """The body of one answer, however long it is."""
    wire.send(
        b"SUB _P.1 98\r\nUNSUB 98 1\r\nPUB %b _P.1 %d\r\n%b\r\n" % (subject, len(body), body)
    )
    seen = wire.receive()
    while seen.startswith(b"PING\r\n") or b"\r\n" not in seen:
        # A PING of the server may precede the answer; it waits two minutes for ours.
        seen = seen.removeprefix(b"PING\r\n") or wire.receive()
        if b"\r\n" not in seen:
            seen += wire.receive()
    head, _, rest = seen.partition(b"\r\n")
    pieces = [rest]
    missing = int(head.split()[-1]) + 2 - len(rest)
    while missing > 0:
        pieces.append(wire.receive())
        missing -= len(pieces[-1])
    return b"".join(pieces)[: int(head.split()[-1])]


def timed_start(name: str, store: Path) -> tuple[float, float]:
    """Seconds from the start of a process to ready, and its memory in MB."""
    began = time.perf_counter()
    with running(name, store=store) as server:
        return time.perf_counter() - began, server.resident_mb()


def many_streams(name: str, count: int, note: Callable[[str, float], None]) -> None:
    """Measure streams; ``note`` takes each figure."""
    half = count // 2
    with tempfile.TemporaryDirectory(prefix="jetspark-bench-", dir=Path.cwd()) as folder:
        store = Path(folder)
        with running(name, store=store) as server:
            empty = _settled_mb(server)
            wire = Wire(server)
            cpu = server.cpu_ns()
            note("stream create, one at a time", one_by_one(wire, _bodies(0, half)))
            note("stream create, CPU", (server.cpu_ns() - cpu) / 1e6 / half)
            wire.send(b"SUB _I.* 1\r\n")
            frames = [frame(*stream_body(n)) for n in range(half, count)]
            with watched(server, b"S0", "longest wait of a bystander, creating", note):
                note("stream create, many in flight", in_flight(wire, frames))
            wire.send(b"UNSUB 1\r\n")
            note("memory per stream", (_settled_mb(server) - empty) * 1024 / count)
            note("idle CPU with the streams", idle_percent(server))
            first = [(b"s%d.a" % n, b"x" * 64) for n in range(0, count, max(1, count // 100))]
            note("first message of a new stream", one_by_one(wire, first))
            note("STREAM.NAMES, all pages", pages(wire, b"$JS.API.STREAM.NAMES", "streams")[0])
            note("STREAM.LIST, all pages", pages(wire, b"$JS.API.STREAM.LIST", "streams")[0])
        seconds, _ = timed_start(name, store)
        note("start with the streams, after a stop", seconds)
        with running(name, store=store) as server:
            note("memory per stream after a start", (_settled_mb(server) - empty) * 1024 / count)
            server.kill()
        seconds, _ = timed_start(name, store)
        note("start with the streams, after SIGKILL", seconds)
        with running(name, store=store) as server:
            wire = Wire(server)
            gone = [(b"$JS.API.STREAM.DELETE.S%d" % n, b"") for n in range(count)]
            with watched(server, b"S0", "longest wait of a bystander, deleting", note):
                note("stream delete, one at a time", one_by_one(wire, gone))
            time.sleep(UPKEEP_S)
            note("memory back, streams", _settled_mb(server) - empty)


def many_consumers(name: str, count: int, note: Callable[[str, float], None]) -> None:
    """Measure consumers; ``note`` takes each figure."""
    with tempfile.TemporaryDirectory(prefix="jetspark-bench-", dir=Path.cwd()) as folder:
        store = Path(folder)
        with running(name, store=store) as server:
            wire = Wire(server)
            wire.request(b"$JS.API.STREAM.CREATE.C", CONSUMED)
            before = _settled_mb(server)
            made = [consumer_body(n) for n in range(count)]
            with watched(server, b"C", "longest wait of a bystander, consumers", note):
                note("consumer create, one at a time", one_by_one(wire, made))
            note("memory per consumer", (_settled_mb(server) - before) * 1024 / count)
            note("idle CPU with the consumers", idle_percent(server))
            took, _ = pages(wire, b"$JS.API.CONSUMER.LIST.C", "consumers")
            note("CONSUMER.LIST, all pages", took)
            server.kill()
        seconds, _ = timed_start(name, store)
        note("start with the consumers, after SIGKILL", seconds)
        with running(name, store=store) as server:
            wire = Wire(server)
            gone = [(b"$JS.API.CONSUMER.DELETE.C.c%d" % n, b"") for n in range(count)]
            note("consumer delete, one at a time", one_by_one(wire, gone))


def everything_deleted(
    name: str, streams: int, consumers: int, subjects: int, note: Callable[[str, float], None]
) -> None:
    """Measure what a server holds after streams, subjects and consumers came and went."""
    with running(name) as server:
        before = _settled_mb(server)
        wire = Wire(server)
        one_by_one(wire, _bodies(0, streams))
        wire.request(b"$JS.API.STREAM.CREATE.C", CONSUMED)
        wire.send(b"SUB _I.* 1\r\n")
        for first in range(0, subjects, 50_000):
            frames = [
                b"PUB c.%d _I.1 64\r\n%b\r\n" % (n, b"x" * 64)
                for n in range(first, min(first + 50_000, subjects))
            ]
            windowed_frames(wire, frames, b'"seq":', 5_000)
        wire.send(b"UNSUB 1\r\n")
        one_by_one(wire, [consumer_body(n) for n in range(consumers)])
        one_by_one(wire, [(b"$JS.API.CONSUMER.DELETE.C.c%d" % n, b"") for n in range(consumers)])
        one_by_one(wire, [(b"$JS.API.STREAM.DELETE.C", b"")])
        one_by_one(wire, [(b"$JS.API.STREAM.DELETE.S%d" % n, b"") for n in range(streams)])
        time.sleep(UPKEEP_S)
        note("memory back, streams, subjects and consumers", _settled_mb(server) - before)


def _bodies(first: int, end: int) -> list[tuple[bytes, bytes]]:
    return [stream_body(n) for n in range(first, end)]


def _settled_mb(server: Running) -> float:
    """Memory once it no longer falls."""
    lowest = server.resident_mb()
    for _ in range(10):
        time.sleep(0.5)
        now = server.resident_mb()
        if now >= lowest:
            return now
        lowest = now
    return lowest


def measured(name: str, streams: int, consumers: int, subjects: int) -> dict[str, float]:
    """All figures of one server."""
    found: dict[str, float] = {}
    if streams:
        many_streams(name, streams, found.__setitem__)
    if consumers:
        many_consumers(name, consumers, found.__setitem__)
    if subjects:
        everything_deleted(name, streams, consumers, subjects, found.__setitem__)
    return found


def report(
    *,
    streams: int = STREAMS,
    consumers: int = CONSUMERS,
    subjects: int = SUBJECTS,
    names: Sequence[str] = (PEER, OURS),
    output: Path | None = None,
) -> None:
    """Print the rows; with ``output`` write the figures there as JSON."""
    figures = {name: measured(name, streams, consumers, subjects) for name in names}
    print(f"\n{f'{streams:,} streams, {consumers:,} consumers':<46}", end="")
    print("".join(f" {name:>12}" for name in names))
    for what, unit in FIGURES.items():
        if what in figures[names[0]]:
            row = "".join(f" {figures[name][what]:>12,.2f}" for name in names)
            print(f"{what:<46}{row} {unit}")
    if output is not None:
        output.write_text(
            json.dumps(
                {"streams": streams, "consumers": consumers, "units": FIGURES, "figures": figures},
                indent=1,
            )
        )


def main() -> None:
    """Run it on its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--consumers", type=int, default=CONSUMERS)
    parser.add_argument("--subjects", type=int, default=SUBJECTS)
    parser.add_argument("--only", choices=(PEER, OURS), help="measure one server")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    report(
        streams=given.streams,
        consumers=given.consumers,
        subjects=given.subjects,
        names=(given.only,) if given.only else (PEER, OURS),
        output=given.json,
    )


if __name__ == "__main__":
    main()
