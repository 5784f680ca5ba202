"""Runs of pytest as a user has them: in a process of its own, in the folder of a project."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Plugins of our own tests that users need not have.
ONLY_OURS = ("-p", "no:randomly", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")


@dataclass
class Run:
    """The result of one run."""

    code: int
    output: str

    def count(self, outcome: str) -> int:
        """How many tests ended so."""
        found = re.search(rf"(\d+) {outcome}", self.output.splitlines()[-1])
        return int(found[1]) if found else 0


def environment(**more: str) -> dict[str, str]:
    """Where jetspark is found as it is found here; nothing else of our own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    if "PYTHONPATH" in os.environ:
        kept["PYTHONPATH"] = str(Path(os.environ["PYTHONPATH"]).resolve())
    return kept | more


def pytest_in(
    folder: Path, *arguments: str, python: Sequence[str] = (sys.executable,), **more: str
) -> Run:
    """Run pytest in a folder."""
    done = subprocess.run(
        [*python, "-m", "pytest", "-q", *ONLY_OURS, *arguments],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    return Run(done.returncode, done.stdout + done.stderr)
