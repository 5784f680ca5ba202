"""The small form of `make demo`: a driver is killed, and every event accounted for.

In a file of its own: it starts processes of its own and runs beside the other files.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="needs the extra pipelines")
pytest.importorskip("yaml", reason="needs the extra pipelines")


@pytest.mark.timeout(900)
def test_the_demo_kills_a_driver_and_every_event_is_accounted_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra demo")
    output = tmp_path / "out"

    done = subprocess.run(
        [
            *(sys.executable, "-m", "jetspark", "demo"),
            *("--events", "16000", "--output", str(output)),
        ],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((output / "report.json").read_text())
    assert report["problems"] == []
    assert report["events"] == 16_000 == report["kept"] + report["refused"] + report["copies"]
    assert report["refused"] == 16_000 // 97
    assert report["copies"] > 200
    assert 0 < report["killed_at_s"] < report["back_at_s"] < report["caught_up_at_s"]
    assert report["totals_at_kill"]["revision"] > 0
    assert (output / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "SIGKILL: the Spark driver is gone" in done.stdout
