"""A short run of the fuzzer, so that it keeps working; long runs are a job of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_a_short_fuzzing_run_finds_nothing(tmp_path: Path) -> None:
    """Fuzzing runs on the interpreted build, so on the sources."""
    pytest.importorskip("atheris", reason="atheris is not installed (x86-64 Linux only)")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(
        [sys.executable, ROOT / "fuzz" / "fuzz_protocol.py", "-runs=3000", "-seed=1"],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        check=False,
        timeout=50,
    )

    assert run.returncode == 0, run.stderr.decode()[-2000:]
    assert b"Done 3000 runs" in run.stderr
