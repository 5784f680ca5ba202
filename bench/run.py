"""Comparison with nats-server 2.15.1, in one run, alternating, medians.

    make bench                          every case, three rounds
    make bench ARGS="--only publish"    the cases whose name contains the word
    make bench ARGS="--gate OLD.whl"    this build compared with an older one (bench/gate.py)

Ours acknowledges after a synced write; nats-server has its default, which does not sync before the
ack. Do not compare figures from different times or machines.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench import (
    clients,
    consumer_cases,
    copies,
    dashboard,
    gate,
    interactive,
    many,
    many_subjects,
    replica,
    restart,
    spark,
    start,
)
from bench.cases import CASES, Case
from bench.connection_cases import CASES as CONNECTION_CASES
from bench.servers import OURS, PEER, running
from bench.stream_cases import CASES as STREAM_CASES
from bench.subject_cases import CASES as SUBJECT_CASES


def disk_p50_ms(size: int, rounds: int = 300) -> float:
    """How long a synced write of this many bytes takes here and now."""
    blob = b"x" * size
    times = []
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        for n in range(rounds):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), blob, n * size)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1000


def measure(name: str, case: Case, count: int) -> tuple[float, float, float]:
    """Messages per second, CPU nanoseconds of the server per message, messages per write."""
    with running(name, guarded=case.guarded) as server:
        work = case.prepare(server, count)
        before = server.commits()
        cpu = server.cpu_ns()
        begun = time.perf_counter()
        work()
        seconds = time.perf_counter() - begun
        spent = server.cpu_ns() - cpu
        after = server.commits()
        groups = after.get("groups", 0) - before.get("groups", 0)
        written = after.get("messages", 0) - before.get("messages", 0)
        return count / seconds, spent / count, written / groups if groups else 0.0


def compare(case: Case, rounds: int, count: int) -> None:
    """Measure both servers alternately and print the row."""
    figures: dict[str, list[tuple[float, float, float]]] = {case.peer: [], OURS: []}
    for _ in range(rounds):
        for name, found in figures.items():
            found.append(measure(name, case, count))
    theirs, ours = (statistics.median(row[0] for row in each) for each in figures.values())
    cheapest = [min(row[1] for row in each) for each in figures.values()]
    together = statistics.median(row[2] for row in figures[OURS])
    print(
        f"{case.name:<34} {theirs:>10,.0f}/s {ours:>10,.0f}/s {ours / theirs:>6.2f}   "
        f"{cheapest[0]:,.0f} {cheapest[1]:,.0f}"
        + (f", {together:,.1f}" if together else "")
        + (f"   (compared with {case.peer})" if case.peer != PEER else "")
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages")
    parser.add_argument(
        "--gate", type=Path, metavar="WHEEL", help="compare with this build instead; 1 if slower"
    )
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="with --gate: count instructions of server and client with callgrind",
    )
    arguments = parser.parse_args()
    if arguments.gate is not None:
        sys.exit(
            gate.run_gate(
                arguments.gate,
                only=arguments.only,
                rounds=arguments.rounds,
                scale=arguments.scale,
                counted=arguments.instructions,
            )
        )
    if arguments.instructions:
        parser.error("--instructions needs --gate OLD.whl")
    small, large = disk_p50_ms(4096), disk_p50_ms(90 * 1024)
    print(f"disk: synced write p50 {small:.3f} ms of 4 KiB, {large:.3f} ms of 90 KiB")
    print(
        f"{'case':<34} {PEER:>12} {OURS:>12} {'ratio':>6}   CPU ns/msg (theirs, ours), "
        "messages per write"
    )
    for case in (
        *CASES,
        *SUBJECT_CASES,
        *CONNECTION_CASES,
        *STREAM_CASES,
        *consumer_cases.CONSUMER_CASES,
        *copies.CASES,
    ):
        if arguments.only in case.name:
            compare(case, arguments.rounds, max(1, int(case.count * arguments.scale)))
    copies.report(arguments.rounds, arguments.scale, only=arguments.only)
    replica.report(arguments.rounds, arguments.scale, only=arguments.only)
    if arguments.only in "start memory":
        start.report(arguments.rounds)
    interactive.report(only=arguments.only)
    dashboard.report(only=arguments.only)
    many_subjects.report(only=arguments.only, scale=arguments.scale)
    if arguments.only in "restart":
        restart.report(1, arguments.scale)
    if arguments.only in many.TITLE:
        many.report(
            streams=int(many.STREAMS * arguments.scale),
            consumers=int(many.CONSUMERS * arguments.scale),
            subjects=int(many.SUBJECTS * arguments.scale),
        )
    if arguments.only in "memory per idle consumer":
        consumer_cases.report(arguments.rounds)
    clients.report(arguments.rounds, only=arguments.only)
    spark.report(arguments.rounds, only=arguments.only, scale=arguments.scale)


if __name__ == "__main__":
    main()
