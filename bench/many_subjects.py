"""A stream of three million messages over a million subjects, on both servers.

    make bench ARGS="--only subjects"
    python -m bench.many_subjects --scale 0.1

Publishing to a new subject each time, requests with a filter, requests over all subjects, and a
start after SIGKILL. With each request: the longest wait of another client (bench/bystander.py).
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.bystander import Bystander
from bench.load import Wire, make_stream, windowed_frames
from bench.servers import OURS, PEER, Running, running

TITLE = "many subjects"
STREAM = b"WIDE"
SUBJECTS = 1_000_000
KEYS = 1_000
ROUNDS = 3
WINDOW = 5_000
PAYLOAD = b"x" * 64
CHUNK = 100_000
REPEATS = 5

Figures = dict[str, float]

# All other figures are milliseconds.
UNITS = {
    "publish, a new subject each": "/s",
    "publish, a new subject each, CPU": "us",
    "publish, a known subject each": "/s",
    "memory": "MB",
}


def subjects(count: int) -> Iterator[bytes]:
    """Names of four tokens; half of them start with `WIDE.a`, each second token has 1,000 keys."""
    for n in range(count):
        yield b"%b.%b.%d.k%d" % (STREAM, b"ab"[n % 2 :][:1], n // (2 * KEYS), n // 2 % KEYS)


def publish(wire: Wire, count: int) -> float:
    """Publish one message to each subject; the seconds that it took."""
    taken = 0.0
    frames: list[bytes] = []
    for subject in subjects(count):
        frames.append(b"PUB %b _I.1 %d\r\n%b\r\n" % (subject, len(PAYLOAD), PAYLOAD))
        if len(frames) == CHUNK:
            taken += timed(lambda: windowed_frames(wire, frames, b'"seq":', WINDOW)) / 1000
            frames.clear()
    if frames:
        taken += timed(lambda: windowed_frames(wire, frames, b'"seq":', WINDOW)) / 1000
    return taken


def timed(work: Callable[[], object]) -> float:
    """How long it takes, in milliseconds."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


class Asker:
    """Asks a server about its stream, next to a bystander; collects the figures."""

    def __init__(self, server: Running) -> None:
        self.wire: Wire = Wire(server)
        self.bystander: Bystander = Bystander(server, STREAM)
        self.figures: Figures = {}
        self._number = 0

    def ask(self, verb: bytes, body: object, *, name: bytes = b"") -> dict[str, object]:
        """One request; its answer, which must not be an error."""
        subject = b"$JS.API.%b.%b" % (verb, STREAM) + (b"." + name if name else b"")
        asked = json.dumps(body).encode() if body else b""
        self.wire.send(
            b"SUB _R.1 99\r\nUNSUB 99 1\r\nPUB %b _R.1 %d\r\n%b\r\n" % (subject, len(asked), asked)
        )
        # `MSG _R.1 99 <size> CRLF`, then so many bytes; a PING of the server may come before.
        answer = b""
        while True:
            head, end, start = answer.partition(b"\r\n")
            if end and head.startswith(b"MSG "):
                break
            if head == b"PING" and end:
                self.wire.send(b"PONG\r\n")
                answer = start
            else:
                answer += self.wire.receive()
        parts, size = [start], int(head.split()[-1])
        while sum(map(len, parts)) < size + 2:
            parts.append(self.wire.receive())
        answer = b"".join(parts)[:size]
        found: dict[str, object] = json.loads(answer)
        if "error" in found:
            raise RuntimeError(f"{subject!r}: {found['error']}")
        return found

    def consumer(self, **config: object) -> float:
        """Create a consumer and remove it; how long the creation took."""
        self._number += 1
        name = f"C{self._number}"
        body = {"stream_name": STREAM.decode(), "config": {"name": name, **config}}
        took = timed(lambda: self.ask(b"CONSUMER.CREATE", body, name=name.encode()))
        self.ask(b"CONSUMER.DELETE", None, name=name.encode())
        return took

    def info(self, pattern: str) -> float:
        """STREAM.INFO with the subjects that match."""
        return timed(lambda: self.ask(b"STREAM.INFO", {"subjects_filter": pattern}))

    def purge(self, pattern: str) -> float:
        """Purge the subjects that match."""
        return timed(lambda: self.ask(b"STREAM.PURGE", {"filter": pattern}))

    def measure(self, what: str, work: Callable[[], float], times: int = REPEATS) -> None:
        """Do it so many times; keep the median, and the longest waits of the bystander."""
        with self.bystander:
            took = [work() for _ in range(times)]
        self.figures[what] = statistics.median(took)
        self.figures[what + "; a PING"] = self.bystander.ping
        self.figures[what + "; a direct get"] = self.bystander.get

    def close(self) -> None:
        """End both clients."""
        self.bystander.close()
        self.wire.close()


def asked(server: Running, count: int) -> Figures:
    """Fill the stream and ask everything."""
    wire = Wire(server)
    make_stream(wire, STREAM)
    wire.send(b"SUB _I.* 1\r\n")
    wire.sync()
    cpu = server.cpu_ns()
    new = publish(wire, count)
    figures = {"publish, a new subject each": count / new}
    figures["publish, a new subject each, CPU"] = (server.cpu_ns() - cpu) / count / 1000
    seconds = [publish(wire, count) for _ in range(ROUNDS - 2)]
    figures["publish, a known subject each"] = count / statistics.median(seconds)
    asker = Asker(server)
    # The other client takes CPU time, so it has a round of its own.
    asker.measure("publish, all subjects once", lambda: publish(wire, count) * 1000, 1)
    figures["memory"] = server.resident_mb()
    wire.close()
    prefix = STREAM.decode()
    one, few, every = f"{prefix}.a.7.k7", f"{prefix}.a.7.*", f"{prefix}.*.*.k7"
    asker.measure("consumer, one subject", lambda: asker.consumer(filter_subject=one))
    asker.measure("first wildcard", lambda: asker.consumer(filter_subject=few), 1)
    asker.measure(f"consumer, {few}", lambda: asker.consumer(filter_subject=few))
    asker.measure(f"consumer, {every}", lambda: asker.consumer(filter_subject=every))
    half = {"deliver_policy": "by_start_sequence", "opt_start_seq": count * ROUNDS // 2}
    asker.measure(
        f"consumer, {few}, from the middle",
        lambda: asker.consumer(filter_subject=few, **half),
    )
    wide = f"{prefix}.a.>"
    asker.measure(f"consumer, {wide}", lambda: asker.consumer(filter_subject=wide), 1)
    asker.measure("consumer, all", asker.consumer)
    asker.measure(f"info, {few}", lambda: asker.info(few))
    asker.measure("info, all subjects", lambda: asker.info(">"), 1)
    # nats-server requires a filter here.
    last = {"deliver_policy": "last_per_subject", "filter_subject": f"{prefix}.>"}
    asker.measure("consumer, last per subject", lambda: asker.consumer(**last), 1)
    asker.measure(f"purge, {every}", lambda: asker.purge(every), 1)
    asker.measure(f"purge, {wide}", lambda: asker.purge(wide), 1)
    asker.close()
    return figures | asker.figures


def measured(name: str, count: int) -> Figures:
    """All figures of one server."""
    with tempfile.TemporaryDirectory(prefix="jetspark-bench-", dir=Path.cwd()) as folder:
        with running(name, store=Path(folder)) as server:
            figures = asked(server, count)
        with running(name, store=Path(folder)) as server:
            wire = Wire(server)
            wire.send(b"SUB _I.* 1\r\n")
            wire.sync()
            publish(wire, count)
            before = _messages(wire)
            server.kill()
        begun = time.perf_counter()
        with running(name, store=Path(folder)) as server:
            figures["start after SIGKILL"] = (time.perf_counter() - begun) * 1000
            after = _messages(Wire(server))
            if name == OURS and before != after:
                raise RuntimeError(f"{name} had {before} messages and has {after}")
        return figures


def _messages(wire: Wire) -> int:
    answer = wire.request(b"$JS.API.STREAM.INFO." + STREAM, b"")
    found: int = json.loads(answer[answer.index(b"{") :])["state"]["messages"]
    return found


def report(*, only: str, scale: float = 1.0) -> None:
    """Print the rows; ``scale`` reduces everything."""
    if only not in TITLE:
        return
    count = max(2 * KEYS, int(SUBJECTS * scale))
    theirs, ours = measured(PEER, count), measured(OURS, count)
    title = f"{ROUNDS * count:,} msgs, {count:,} subjects"
    print(f"\n{title:<52} {PEER:>12} {OURS:>12}")
    for what, figure in theirs.items():
        unit = UNITS.get(what, "ms")
        digits = 0 if unit in {"/s", "MB"} else 1
        print(f"{what:<52} {figure:>12,.{digits}f} {ours[what]:>12,.{digits}f} {unit}")


def main() -> None:
    """Run it on its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the subjects")
    report(only="", scale=parser.parse_args().scale)


if __name__ == "__main__":
    main()
