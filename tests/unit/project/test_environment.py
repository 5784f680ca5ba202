"""Which virtual environments `make env` uses, and which Pythons it refuses."""

import re
import sys
from pathlib import Path

import pytest
from tools.environment import ROOT, too_old, usable


def interpreter(folder: Path, script: str) -> None:
    """A program in place of an environment's Python."""
    program = folder / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_an_environment_of_this_python_with_pip_is_used(tmp_path: Path) -> None:
    interpreter(tmp_path, f"echo '{sys.version}'")

    assert usable(tmp_path)


@pytest.mark.parametrize(
    "script", ["echo '3.12.1 (main) [GCC 12.2.0]'", "echo 'No module named pip' >&2; exit 1"]
)
def test_an_environment_of_another_python_or_without_pip_is_not(
    tmp_path: Path, script: str
) -> None:
    interpreter(tmp_path, script)

    assert not usable(tmp_path)


def test_an_environment_whose_python_was_removed_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(tmp_path / "removed")

    assert not usable(tmp_path)


def test_a_python_that_is_too_old_is_named_with_what_to_do() -> None:
    assert too_old((3, 11)) == too_old((3, 13)) == ""
    assert re.search(
        r"3\.11 or later, and .+ is Python 3\.10: .* make env PYTHON=python3\.11",
        too_old((3, 10)),
    )


def test_the_makefile_creates_environments_in_this_way_only() -> None:
    assert "-m venv" not in (ROOT / "Makefile").read_text()
