"""`make demo` as a user runs it: processes of its own, and a Spark driver that is killed.

``tests/spark/guides/test_demo.py`` runs the same command in the session of the tests.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def run_demo(folder: Path, *, events: int) -> str:
    """Run the command; its report must account for every event. What it did, in one line."""
    output = folder / "out"
    command = [sys.executable, "-m", "demo"]
    done = subprocess.run(
        [*command, "--events", str(events), "--output", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return check_output(output, done.stdout, events=events)


def check_output(output: Path, said: str, *, events: int) -> str:
    """Check what the command left in ``output``, and what it said."""
    report = json.loads((output / "report.json").read_text())
    assert report["problems"] == []
    assert report["events"] == events == report["kept"] + report["refused"] + report["copies"]
    assert report["refused"] == events // 97
    # One in 53 is a copy, unless it is broken as well; the first 500 have none.
    assert report["copies"] > (events - 500) // 60
    assert 0 < report["killed_at_s"] < report["back_at_s"] < report["caught_up_at_s"]
    assert report["totals_at_kill"]["revision"] > 0
    assert (output / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "SIGKILL: the Spark driver is dead" in said
    return f"{events} events, {report['copies']} copies left out, each of the others once"
