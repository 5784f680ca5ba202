"""What a server executes per message, counted by callgrind instead of timed.

Processor time differs by a third from minute to minute on a shared machine; the number of executed
instructions hardly does, however busy the machine is. It says nothing about waiting for memory or
disk, so it stands beside the times and does not replace them. Needs valgrind.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.cases import Case
from bench.servers import OURS, running

# Fifty to a hundred times slower than without: a share of the messages is enough.
MOST = 20_000
READY_S = 120


def missing() -> str:
    """Say what is not installed, or nothing."""
    found = shutil.which("valgrind") and shutil.which("callgrind_control")
    return "" if found else "valgrind is not installed (Debian: apt-get install valgrind)"


def measured(case: Case, scale: float) -> Mapping[str, float]:
    """Instructions of the server per message while the work of a case runs."""
    count = max(1, min(MOST, int(case.count * scale)))
    with tempfile.TemporaryDirectory(prefix="jetspark-callgrind-") as folder:
        counted = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--quiet",
            f"--callgrind-out-file={folder}/out",
        ]
        with running(OURS, guarded=case.guarded, prefix=counted) as server:
            work = case.prepare(server, count)
            _control("--instr=on", server.pid)
            work()
            _control("--instr=off", server.pid)
            _control("--dump", server.pid)
            total = sum(_totals(each) for each in Path(folder).iterdir())
    return {"instructions": total / count}


def _control(verb: str, pid: int) -> None:
    subprocess.run(
        ["callgrind_control", verb, str(pid)], check=True, capture_output=True, timeout=READY_S
    )


def _totals(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0
