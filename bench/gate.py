"""Compares two builds of jetspark, row by row, to detect slowdowns.

    make bench ARGS="--gate OLD.whl"                     every row, three rounds
    make bench ARGS="--gate OLD.whl --only publish"      the rows whose name contains the word
    make bench ARGS="--gate OLD.whl --instructions"      rows of server and client, by callgrind

The old wheel is unpacked next to the environment and put before the installed build on the path,
so both run on the same Python, with the same dependencies, in the same minute. The builds
alternate. The criterion is CPU time per message, the best of the rounds, because other work on the
machine affects it least; the wall-clock rate is printed as well. A row below the bar is measured
again before it counts. Exit status 1 if a row stays below. On a shared machine, CPU time differs
by a third between two minutes: ``--instructions`` counts what the server or the client executes
per message, which does not (bench/instructions.py).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import client_bulk, clients, consumer_cases, instructions
from bench.cases import CASES, Case
from bench.connection_cases import CASES as CONNECTION_CASES
from bench.servers import OURS, PEER
from bench.stream_cases import CASES as STREAM_CASES
from bench.subject_cases import CASES as SUBJECT_CASES

BAR = 0.97
ROUNDS_AGAIN = 5
SPARK_ROUNDS = 5  # within one session: a JVM needs a while until its code is compiled

SERVER_ROWS: Mapping[str, Case] = {
    case.name: case
    for case in (
        *CASES,
        *SUBJECT_CASES,
        *CONNECTION_CASES,
        *STREAM_CASES,
        *consumer_cases.CONSUMER_CASES,
    )
}
SPARK_ROWS = ("spark read", "spark exactly-once write", "spark KV snapshot")


@dataclass(frozen=True)
class Row:
    """Something measured in a separate process."""

    kind: str
    name: str


@dataclass
class Figures:
    """The figures of one build for one row, over all rounds."""

    cpu_ns: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def add(self, found: Mapping[str, float]) -> None:
        """Add the figures of one round."""
        self.cpu_ns.append(found["cpu_ns"])
        self.rates.append(found["rate"])


def chosen_rows(only: str) -> list[Row]:
    """Return the rows whose name contains a word."""
    rows = [Row("server", name) for name in SERVER_ROWS]
    rows += [Row("client", name) for name in (*clients.CASES, *client_bulk.CASES)]
    rows += [Row("spark", name) for name in SPARK_ROWS]
    return [row for row in rows if only in row.name]


def measure_server(name: str, scale: float) -> dict[str, float]:
    """CPU time of the server per message."""
    from bench.run import measure

    case = SERVER_ROWS[name]
    rate, cpu_ns, _ = measure(OURS, case, max(1, int(case.count * scale)))
    return {"cpu_ns": cpu_ns, "rate": rate}


def measure_client(name: str, _scale: float) -> dict[str, float]:
    """CPU time of the client per message; if it needs our server, that time is included."""
    if name in clients.CASES:
        return clients.measured("jetspark", name, PEER)
    found = clients.measured("jetspark", name, OURS)
    count = client_bulk.CASES[name][1]
    return {"cpu_ns": found["cpu_ns"] + found["served_ns"] / count, "rate": found["rate"]}


def measure_spark(name: str, scale: float) -> dict[str, float]:
    """CPU time of the JVM and its Python workers per row, best of a few in one session."""
    from bench import spark

    session = spark.Session()
    found = spark.Figures()
    rows = int((200_000 if "KV" in name else 500_000) * scale)
    try:
        with spark.served(OURS) as url:
            for number, job in enumerate(_spark_jobs(session, name, url, rows)):
                # The first run compiles.
                session.measure(found if number else spark.Figures(), rows, job)
    finally:
        session.spark.stop()
    return {"cpu_ns": 1e9 / found.cpu, "rate": found.rate}


def _spark_jobs(session: "object", name: str, url: str, rows: int) -> list[Callable[[], None]]:
    from bench import spark

    assert isinstance(session, spark.Session)
    made = session.spark
    if "write" in name:
        spark.filled(url, "WRITE", 0)
        return [
            partial(spark.write_exactly_once, made, url, rows, number)
            for number in range(SPARK_ROUNDS + 1)
        ]
    if "KV" in name:
        spark.fill_bucket(url, rows)
        source = made.read.format("nats_kv").option("bucket", "BENCH")
    else:
        spark.filled(url, "READ", rows)
        source = made.read.format("jetstream").option("stream", "READ")
    source = source.option("servers", url)
    # Loaded each time: Spark keeps the plan of a DataFrame.
    return [lambda: spark.discard(source.load())] * (SPARK_ROUNDS + 1)


def count_server(name: str, scale: float) -> Mapping[str, float]:
    """Instructions of the server per message."""
    return instructions.of_server(SERVER_ROWS[name], scale)


def count_client(name: str, scale: float) -> Mapping[str, float]:
    """Instructions of the client per message."""
    if name in clients.CASES:
        return instructions.of_client(name, clients.CASES[name][1], PEER, scale)
    return instructions.of_client(name, client_bulk.CASES[name][1], OURS, scale)


MEASURES: Mapping[str, Callable[[str, float], Mapping[str, float]]] = {
    "counted server": count_server,
    "counted client": count_client,
    "server": measure_server,
    "client": measure_client,
    "spark": measure_spark,
}


class Gate:
    """Measures rows with both builds."""

    def __init__(self, old: Path, scale: float) -> None:
        self._scale = scale
        ahead = os.pathsep.join(filter(None, [str(old), os.environ.get("PYTHONPATH", "")]))
        self._environments = {
            "old": os.environ | {"PYTHONPATH": ahead},
            "new": dict(os.environ),
        }

    def compare(self, row: Row, rounds: int) -> float:
        """Print a row and return old CPU time over new: 1 is equal, below is slower."""
        figures = {"old": Figures(), "new": Figures()}
        self._run(row, rounds, figures)
        if _ratio(figures) < BAR:
            self._run(row, ROUNDS_AGAIN, figures)
        ratio = _ratio(figures)
        old, new = figures["old"], figures["new"]
        print(
            f"{row.name:<38} {min(old.cpu_ns):>10,.0f} {min(new.cpu_ns):>10,.0f} {ratio:>6.2f}   "
            f"{max(old.rates):>12,.0f} {max(new.rates):>12,.0f} "
            f"{max(new.rates) / max(old.rates):>6.2f}{'' if ratio >= BAR else '   SLOWER'}",
            flush=True,
        )
        return ratio

    def count(self, row: Row, rounds: int) -> float:
        """Print a row counted by callgrind and return old instructions over new."""
        least = {
            build: min(
                self._child(Row(f"counted {row.kind}", row.name), build)["instructions"]
                for _ in range(rounds)
            )
            for build in ("old", "new")
        }
        ratio = least["old"] / least["new"]
        print(
            f"{row.name:<38} {least['old']:>10,.0f} {least['new']:>10,.0f} {ratio:>6.3f}"
            f"{'' if ratio >= BAR else '   SLOWER'}",
            flush=True,
        )
        return ratio

    def _run(self, row: Row, rounds: int, figures: Mapping[str, Figures]) -> None:
        for number in range(rounds):
            # Alternating, in changing order: the first may find the machine in another state.
            for build in ("old", "new") if number % 2 == 0 else ("new", "old"):
                figures[build].add(self._child(row, build))

    def _child(self, row: Row, build: str) -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, "-m", "bench.gate", "--child", row.kind, row.name, str(self._scale)],
            env=self._environments[build],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{row.name}, {build} build:\n{done.stderr[-3000:]}")
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found


def _ratio(figures: Mapping[str, Figures]) -> float:
    return min(figures["old"].cpu_ns) / min(figures["new"].cpu_ns)


def run_gate(wheel: Path, *, only: str, rounds: int, scale: float, counted: bool = False) -> int:
    """Compare the installed build with a wheel; return the exit status."""
    if not zipfile.is_zipfile(wheel):
        print(f"bench: {wheel} is not a wheel", file=sys.stderr)
        return 2
    rows = [row for row in chosen_rows(only) if row.kind != "spark" or not counted]
    if counted and instructions.missing():
        print(f"bench: {instructions.missing()}", file=sys.stderr)
        return 2
    if not rows:
        print(f"bench: no row of the gate has {only!r} in its name", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="jetspark-gate-") as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        gate = Gate(Path(folder), scale)
        if counted:
            print(f"{'instructions per message':<38} {'old':>10} {'new':>10} {'ratio':>6}")
            slower = [row.name for row in rows if gate.count(row, rounds) < BAR]
        else:
            print(f"{'':<38} {'CPU ns per message':>21} {'':>6}   {'messages/s':>25}")
            print(f"{'row':<38} {'old':>10} {'new':>10} {'ratio':>6}   {'old':>12} {'new':>12}")
            slower = [row.name for row in rows if gate.compare(row, rounds) < BAR]
    if slower:
        print(f"slower than {BAR:.2f} of {wheel.name}: {', '.join(slower)}")
        return 1
    print(f"{len(rows)} rows, none below {BAR:.2f} of {wheel.name}")
    return 0


def main() -> None:
    """Measure one row in this process, for a gate in another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", nargs=3, required=True, metavar=("KIND", "NAME", "SCALE"))
    kind, name, scale = parser.parse_args().child
    print(json.dumps(MEASURES[kind](name, float(scale))))


if __name__ == "__main__":
    main()
