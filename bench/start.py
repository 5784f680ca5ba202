"""How quickly a server starts, and how little memory it takes when idle."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.servers import OURS, PEER, running

_EMBEDDED = """
import asyncio, time
import jetspark
from jetspark.server.server import Server
async def main():
    started = time.perf_counter()
    async with Server():
        print((time.perf_counter() - started) * 1000)
asyncio.run(main())
"""


def embedded_ms() -> float:
    """From `async with Server()` to ready, in a process that has already imported it."""
    done = subprocess.run(
        [sys.executable, "-c", _EMBEDDED], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def process_ms(name: str) -> float:
    """From starting the process to its `Server is ready`."""
    started = time.perf_counter()
    with running(name):
        return (time.perf_counter() - started) * 1000


def idle_mb(name: str) -> float:
    """Resident memory of an idle server, with monitoring on."""
    with running(name, "-m", "-1") as server:
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def report(rounds: int) -> None:
    """Print the rows."""
    embedded = statistics.median(embedded_ms() for _ in range(rounds))
    print(f"{'embedded start to ready':<34} {'-':>12} {embedded:>9.1f} ms")
    rows = [
        (process_ms, "process start to ready", "ms"),
        (idle_mb, "idle memory, monitoring on", "MB"),
    ]
    for measure, what, unit in rows:
        theirs, ours = (
            statistics.median(measure(name) for _ in range(rounds)) for name in (PEER, OURS)
        )
        print(f"{what:<34} {theirs:>9.1f} {unit} {ours:>9.1f} {unit}")
