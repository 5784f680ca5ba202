"""Side by side with nats-server 2.15.1, in one run, alternating, medians.

    make bench                          every case, three rounds
    make bench ARGS="--only publish"    the cases whose name contains the word

Ours acknowledges after a synced write; nats-server is its default, which does not sync before
the ack. Figures of another minute or machine mean nothing beside these.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from bench import clients, consumer_cases, start
from bench.cases import CASES, Case
from bench.servers import OURS, PEER, running


def disk_p50_ms(size: int, rounds: int = 300) -> float:
    """How long a synced write of so many bytes takes here, now."""
    blob = b"x" * size
    times = []
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        for n in range(rounds):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), blob, n * size)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1000


def measure(name: str, case: Case) -> tuple[float, float]:
    """Messages per second, and CPU nanoseconds of the server per message."""
    with running(name) as server:
        work = case.prepare(server, case.count)
        cpu = server.cpu_ns()
        begun = time.perf_counter()
        work()
        seconds = time.perf_counter() - begun
        return case.count / seconds, (server.cpu_ns() - cpu) / case.count


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    small, large = disk_p50_ms(4096), disk_p50_ms(90 * 1024)
    print(f"disk: synced write p50 {small:.3f} ms of 4 KiB, {large:.3f} ms of 90 KiB")
    print(f"{'case':<34} {PEER:>12} {OURS:>12} {'ratio':>6}   CPU ns/msg (theirs, ours)")
    for case in (*CASES, *consumer_cases.CONSUMER_CASES):
        if arguments.only not in case.name:
            continue
        rates: dict[str, list[float]] = {PEER: [], OURS: []}
        costs: dict[str, list[float]] = {PEER: [], OURS: []}
        for _ in range(arguments.rounds):
            for name in (PEER, OURS):
                rate, cost = measure(name, case)
                rates[name].append(rate)
                costs[name].append(cost)
        theirs, ours = statistics.median(rates[PEER]), statistics.median(rates[OURS])
        print(
            f"{case.name:<34} {theirs:>10,.0f}/s {ours:>10,.0f}/s {ours / theirs:>6.2f}   "
            f"{min(costs[PEER]):,.0f} {min(costs[OURS]):,.0f}"
        )
    if arguments.only in "start memory":
        start.report(arguments.rounds)
    if arguments.only in "memory per idle consumer":
        consumer_cases.report(arguments.rounds)
    clients.report(arguments.rounds, only=arguments.only)


if __name__ == "__main__":
    main()
