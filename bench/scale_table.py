"""The scale table: each of its rows on both servers, what is asked for, and whether it is reached.

    python -m bench.scale_table --out FILE           about a quarter of an hour
    python -m bench.scale_table --scale 0.01 --only streams    one part, small

A quiet machine is needed. Every part also says how long another client waits at most meanwhile
(bench/bystander.py); it takes CPU time, so rates are measured without it, in a run of their own.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import many, many_subjects
from bench.cases import Case, publish
from bench.connection_cases import crowd
from bench.many import watched
from bench.servers import OURS, PEER, Running, running
from bench.stream_cases import round_robin
from bench.subject_cases import changing

Figures = dict[str, float]
Note = Callable[[str, float], None]
# Judges the figures of nats-server and jetspark; a goal is its text and its judge.
Judge = Callable[[float, float], bool]
Goal = tuple[str, Judge | None]

ROUNDS = 3
# A server has finished what it does in the background when it uses less of a core than this.
CALM_PERCENT = 5.0
CALM_S = 0.5
CALM_WAIT_S = 30.0


# Parts -------------------------------------------------------------------------------------------


def calm(server: Running) -> None:
    """Wait until a server has done in the background what the preparation left to it."""
    end = time.perf_counter() + CALM_WAIT_S
    while time.perf_counter() < end:
        cpu = server.cpu_ns()
        time.sleep(CALM_S)
        if (server.cpu_ns() - cpu) / CALM_S / 1e7 < CALM_PERCENT:
            return


def rate(name: str, case: Case, what: str, note: Note, scale: float, stream: bytes) -> None:
    """Messages per second, the median of some rounds, and the longest wait of a bystander."""
    count = max(1000, int(case.count * scale))
    found, spent = [], []
    for _ in range(ROUNDS):
        with running(name) as server:
            work = case.prepare(server, count)
            calm(server)
            cpu, begun = server.cpu_ns(), time.perf_counter()
            work()
            found.append(count / (time.perf_counter() - begun))
            spent.append((server.cpu_ns() - cpu) / count / 1000)
    note(what, statistics.median(found))
    note(what + ", CPU", min(spent))
    with running(name) as server:
        work = case.prepare(server, count)
        calm(server)
        with watched(server, stream, what + ", bystander", note):
            work()


def subjects(name: str, scale: float, note: Note) -> None:
    """A million subjects, three million messages."""
    count = max(2 * many_subjects.KEYS, int(many_subjects.SUBJECTS * scale))
    for what, figure in many_subjects.measured(name, count).items():
        note(what, figure)


def streams(name: str, scale: float, note: Note) -> None:
    """Publishing to one stream, and to many in turn."""
    for window in (1000, 10_000):
        one = Case("", 300_000, publish(128, window))
        rate(name, one, f"1 stream, {window}", note, scale, b"PUB")
        for number, count in ((100, 200_000), (1000, 100_000)):
            case = Case("", count, round_robin(max(2, int(number * scale)), window))
            rate(name, case, f"{number} streams, {window}", note, scale, b"RR0")


def stream_costs(name: str, scale: float, note: Note) -> None:
    """Creating streams, their memory, starting with them."""
    many.many_streams(name, max(10, int(many.STREAMS * scale)), note)


def connections(name: str, scale: float, note: Note) -> None:
    """Many connections that wait for each answer."""
    case = Case("", 200_000, crowd(max(10, int(2000 * scale)), 1))
    rate(name, case, "2,000 connections", note, scale, b"S0")


def core(name: str, scale: float, note: Note) -> None:
    """Messages of changing subjects without a receiver."""
    case = Case("", 1_200_000, changing())
    rate(name, case, "400,000 subjects", note, scale, b"NONE")


def memory_back(name: str, scale: float, note: Note) -> None:
    """What is held after everything was deleted."""
    many.everything_deleted(
        name,
        int(many.STREAMS * scale),
        int(many.CONSUMERS * scale) // 10,
        max(1000, int(many.SUBJECTS * scale)),
        note,
    )


def syncs(name: str, _scale: float, note: Note) -> None:
    """How long a synced write takes on this disk: the floor of everything durable."""
    if name != OURS:
        return
    times = []
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        for n in range(200):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), bytes(4096), n * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    note("synced write", statistics.median(times) * 1000)


PARTS: Mapping[str, Callable[[str, float, Note], None]] = {
    "disk": syncs,
    "subjects": subjects,
    "streams": streams,
    "stream costs": stream_costs,
    "connections": connections,
    "core": core,
    "memory back": memory_back,
}


# Rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line: a figure of both servers, and what is asked for.

    ``reached`` judges the figures; rows without it are for information.
    """

    what: str
    figure: str
    unit: str
    reach: str = ""
    reached: Judge | None = None

    def text(self, figures: Mapping[str, Figures]) -> str:
        """The line of a Markdown table; empty if nothing was measured."""
        theirs, ours = (figures.get(name, {}).get(self.figure) for name in (PEER, OURS))
        if ours is None:
            return ""
        verdict = ""
        if self.reached is not None:
            verdict = "yes" if self.reached(theirs or 0.0, ours) else "**no**"
        cells = (self.what, self._shown(theirs), self._shown(ours), self.reach, verdict)
        return "| " + " | ".join(cells) + " |"

    def _shown(self, figure: float | None) -> str:
        if figure is None:
            return "-"
        digits = 0 if abs(figure) >= 100 else 1 if abs(figure) >= 10 else 2
        blank = "" if self.unit.startswith("/") else " "
        return f"{figure:,.{digits}f}{blank}{self.unit}"


def at_most(most: float, unit: str) -> Goal:
    """Asks for this much or less."""
    return f"<= {most:g} {unit}", lambda _theirs, ours: ours <= most


def at_least(least: float, unit: str) -> Goal:
    """Asks for this much or more."""
    return f">= {least:,g}{unit}", lambda _theirs, ours: ours >= least


def times(factor: float) -> Goal:
    """Asks for a multiple of the other server's figure."""
    return f">= {factor:g} x nats-server", lambda theirs, ours: ours >= factor * theirs


def request(what: str, figure: str, goal: Goal = ("", None)) -> Iterator[Row]:
    """A request, and how long a bystander waits."""
    yield Row(what, figure, "ms", *goal)
    yield Row("- bystander: PING", figure + "; a PING", "ms", *at_most(10, "ms"))
    yield Row("- bystander: direct get", figure + "; a direct get", "ms", *at_most(10, "ms"))


def rates(what: str, figure: str, goal: Goal = ("", None)) -> Iterator[Row]:
    """A rate, its CPU time, and how long a bystander waits."""
    yield Row(what, figure, "/s", *goal)
    yield Row("- CPU per message", figure + ", CPU", "us")
    yield Row("- bystander", figure + ", bystander", "ms")


WIDE = many_subjects.STREAM.decode()
FEW, EVERY = f"{WIDE}.a.7.*", f"{WIDE}.*.*.k7"
NEW = "publish, a new subject each"
ROWS: Sequence[Row] = (
    Row("synced write of 4 KiB on this disk", "synced write", "ms"),
    Row("publish 64 B, every message a new subject, 1 M", NEW, "/s", *times(3)),
    Row("- CPU per message", NEW + ", CPU", "us"),
    Row("- bystander: PING", "publish, all subjects once; a PING", "ms"),
    Row("- bystander: direct get", "publish, all subjects once; a direct get", "ms"),
    *rates(
        "round robin, 1,000 streams, 1,000 in flight",
        "1000 streams, 1000",
        at_least(100_000, "/s"),
    ),
    *rates(
        "round robin, 1,000 streams, 10,000 in flight",
        "1000 streams, 10000",
        at_least(100_000, "/s"),
    ),
    *rates("one stream, 1,000 in flight", "1 stream, 1000"),
    *rates("round robin, 100 streams, 1,000 in flight", "100 streams, 1000"),
    Row("- share of one stream", "share, 1000", "", *at_least(0.7, "")),
    *rates("one stream, 10,000 in flight", "1 stream, 10000"),
    *rates("round robin, 100 streams, 10,000 in flight", "100 streams, 10000"),
    Row("- share of one stream", "share, 10000", "", *at_least(0.7, "")),
    *request("consumer create, one subject", "consumer, one subject", at_most(2, "ms")),
    *request(f"consumer create, `{FEW}`", f"consumer, {FEW}", at_most(2, "ms")),
    *request(f"consumer create, `{EVERY}`", f"consumer, {EVERY}", at_most(2, "ms")),
    *request("STREAM.INFO, `subjects_filter` of 1,000", f"info, {FEW}", at_most(2, "ms")),
    *request(
        "consumer create, last per subject over all",
        "consumer, last per subject",
        at_most(1000, "ms"),
    ),
    *request("STREAM.INFO of all subjects", "info, all subjects"),
    *request("purge by wildcard, 1,000 subjects", f"purge, {EVERY}"),
    *request("purge by wildcard, half of all subjects", f"purge, {WIDE}.a.>"),
    Row("create a stream", "stream create, one at a time", "ms", *at_most(3, "ms")),
    Row("- memory of each", "memory per stream", "KB", *at_most(40, "KB")),
    Row(
        "- start with 1,000, after a stop",
        "start with the streams, after a stop",
        "s",
        *at_most(0.5, "s"),
    ),
    Row(
        "- start with 1,000, after SIGKILL",
        "start with the streams, after SIGKILL",
        "s",
        *at_most(0.5, "s"),
    ),
    Row(
        "- bystander, creating", "longest wait of a bystander, creating", "ms", *at_most(10, "ms")
    ),
    Row(
        "- bystander, deleting", "longest wait of a bystander, deleting", "ms", *at_most(10, "ms")
    ),
    *rates("2,000 connections, each one at a time", "2,000 connections", at_least(100_000, "/s")),
    Row(
        "restart after SIGKILL, 3 M messages, 1 M subjects",
        "start after SIGKILL",
        "ms",
        *at_most(1000, "ms"),
    ),
    Row("- memory", "memory", "MB", *at_most(288, "MB")),
    *rates("core publish, 400,000 subjects without a receiver", "400,000 subjects", times(1.5)),
    Row(
        "memory back after 1,000 streams were deleted",
        "memory back, streams",
        "MB",
        *at_most(20, "MB"),
    ),
    Row(
        "memory back after 1 M subjects, streams, consumers were deleted",
        "memory back, streams, subjects and consumers",
        "MB",
        *at_most(20, "MB"),
    ),
)


def shares(figures: Figures) -> None:
    """Add the rate of 100 streams as a share of the rate of one."""
    for window in (1000, 10_000):
        one, many_of = (figures.get(f"{n}, {window}") for n in ("1 stream", "100 streams"))
        if one and many_of:
            figures[f"share, {window}"] = many_of / one


def table(figures: Mapping[str, Figures], scale: float = 1.0) -> str:
    """All measured rows as a Markdown table."""
    size = "" if scale == 1.0 else f"everything times {scale:g}"
    lines = [f"| {size} | {PEER} | {OURS} | reach | reached |", "|---|---|---|---|---|"]
    lines += [text for text in (row.text(figures) for row in ROWS) if text]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="parts whose name contains this")
    parser.add_argument("--servers", default=f"{PEER},{OURS}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of everything")
    parser.add_argument("--out", type=Path, help="write the table there, after each part")
    arguments = parser.parse_args()
    figures: dict[str, Figures] = {name: {} for name in arguments.servers.split(",")}
    begun = time.perf_counter()
    for part, measure in PARTS.items():
        if arguments.only not in part:
            continue
        for name, found in figures.items():
            measure(name, arguments.scale, found.__setitem__)
            shares(found)
            print(f"{part}, {name}: done after {time.perf_counter() - begun:.0f} s", flush=True)
        if arguments.out is not None:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(table(figures, arguments.scale))
    print(table(figures, arguments.scale), end="")


if __name__ == "__main__":
    main()
