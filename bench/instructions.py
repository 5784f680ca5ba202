"""Instructions that a server or a client executes per message, counted by callgrind.

CPU time differs by a third between minutes on a shared machine; the number of executed
instructions hardly does, however busy the machine is. It does not include waiting for memory or
disk, so it complements the times and does not replace them. Needs valgrind.

Under valgrind the server is fifty times slower, and what depends on time happens more often per
message: the state of consumers is saved, and a read is put off to another turn. If a row has only
more interpreted code or copies, count the saves and the turns before believing it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.cases import Case
from bench.servers import OURS, running

# Fifty to a hundred times slower than normal: a share of the messages is enough.
MOST = 20_000
LEAST = 1_000
READY_S = 120
# Callgrind counts each byte that ``rep movsb`` copies as an instruction (``rep stosb`` likewise),
# and glibc uses it or not depending on the addresses: the same large copy costs 70,000
# instructions in one run and 3,000 in the next.
NO_REP = (
    "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=0x40000000"
    ":glibc.cpu.x86_rep_stosb_threshold=0x40000000"
)


def missing() -> str:
    """Say what is not installed; empty if nothing is missing."""
    found = shutil.which("valgrind") and shutil.which("callgrind_control")
    return "" if found else "valgrind is not installed (Debian: apt-get install valgrind)"


def of_server(case: Case, scale: float) -> Mapping[str, float]:
    """Instructions of the server per message during the work of a case."""
    count = max(1, min(MOST, int(case.count * scale)))
    with (
        tempfile.TemporaryDirectory(prefix="jetspark-callgrind-") as folder,
        running(OURS, guarded=case.guarded, prefix=_counting(folder)) as server,
    ):
        work = case.prepare(server, count)
        # Its answer waits until the code of the monitoring port is loaded, which is no message's.
        server.commits()
        switch("on", server.pid)
        work()
        switch("off", server.pid)
        return {"instructions": _totals(folder) / count}


def of_client(case: str, usual: int, server: str, scale: float) -> Mapping[str, float]:
    """Instructions of the client process per message; ``usual`` is its normal message count."""
    count = max(LEAST, int(usual * scale) // 20 // LEAST * LEAST)
    with (
        tempfile.TemporaryDirectory(prefix="jetspark-callgrind-") as folder,
        running(server) as peer,
    ):
        done = subprocess.run(
            [
                *_counting(folder),
                *(sys.executable, "-m", "bench.clients", "--counted", str(count)),
                *("--one", "jetspark", case, f"nats://{peer.host}:{peer.port}"),
            ],
            env=os.environ | {"PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{case}:\n{done.stderr}")
        return {"instructions": _totals(folder) / count}


def switch(state: str, pid: int) -> None:
    """Start or stop counting in a process; the counts are written when it ends."""
    control = ["callgrind_control", f"--instr={state}", str(pid)]
    subprocess.run(control, check=True, capture_output=True, timeout=READY_S)
    if state == "off":
        subprocess.run(
            ["callgrind_control", "--dump", str(pid)],
            check=True,
            capture_output=True,
            timeout=READY_S,
        )


def _counting(folder: str) -> list[str]:
    return [
        "env",
        NO_REP,
        "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        "--quiet",
        f"--callgrind-out-file={folder}/out",
    ]


def _totals(folder: str) -> int:
    dumps = (each.read_text() for each in Path(folder).iterdir())
    found = (re.search(r"^totals: (\d+)", dump, re.MULTILINE) for dump in dumps)
    return sum(int(total[1]) for total in found if total)
