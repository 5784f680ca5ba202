"""The examples of docs/testing.md run as they stand, on our server and on nats-server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("server", ["jetspark", "nats-server"])
def test_every_example_passes(tmp_path: Path, server: str) -> None:
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", f"--jetspark-server={server}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.path.abspath(os.environ.get("PYTHONPATH", tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )

    tests = PAGE.count("def test_")
    passed = re.search(r"(\d+) passed", done.stdout)
    skipped = re.search(r"(\d+) skipped", done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert passed is not None
    assert int(passed[1]) + (int(skipped[1]) if skipped else 0) == tests
    assert (skipped is not None) == (server == "nats-server")


def test_the_failure_that_is_shown_is_the_one_that_is_printed() -> None:
    shown = re.findall(r"^```text\n(expected .*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)

    assert len(shown) == 1
