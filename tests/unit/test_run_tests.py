"""The runner of `make test`: what is run a second time, and what fails a run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "run_tests.py"
PASSING = "def test_passes(): pass\n"
# Fails in the first process that runs it, and in no other.
ONCE = """
from pathlib import Path
def test_fails_once():
    mark = Path(__file__).with_name("mark")
    if not mark.exists():
        mark.touch()
        raise AssertionError("the first time")
"""
ALWAYS = "def test_fails_always(): assert False\n"
CRASHING = """
import os
from pathlib import Path
def test_crashes_once():
    mark = Path(__file__).with_name("mark")
    if not mark.exists():
        mark.touch()
        os._exit(11)
"""


# Whether the run is good, how many passed and failed, and what passed alone.
Outcome = tuple[bool, int, int, list[str]]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, with a folder of its own as the repository."""
    spec = importlib.util.spec_from_file_location("run_tests", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_tests", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    # The plugins that the runner's arguments are for; the others double what a start takes.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist -p randomly -p hypothesispytest")
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return module


def run(
    runner: ModuleType, *sources: str, workers: int = 0, shares_machine: bool = True
) -> Outcome:
    for number, source in enumerate(sources):
        (runner.ROOT / "tests" / f"test_{number}.py").write_text(source)
    part = runner.Part(
        "tiny",
        100,
        ("tests",),
        arguments=(f"-n{workers}",) if workers else (),
        shares_machine=shares_machine,
    )
    done = runner.run_part(part, expect="interpreted", seed=1)
    return done.ok, done.counts["passed"], done.counts["failed"], done.passed_alone


def test_what_fails_among_others_and_passes_alone_is_named_and_fails_nothing(
    runner: ModuleType,
) -> None:
    assert run(runner, PASSING, ONCE) == (True, 2, 0, ["tests.test_1.test_fails_once"])


def test_what_fails_twice_fails_the_run(runner: ModuleType) -> None:
    result = run(runner, PASSING, ONCE, ALWAYS, workers=1)

    assert result == (False, 2, 1, ["tests.test_1.test_fails_once"])


def test_a_part_that_shares_nothing_has_no_second_chance(runner: ModuleType) -> None:
    assert run(runner, ONCE, shares_machine=False) == (False, 0, 1, [])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_crash_fails_the_run_although_it_happens_once(runner: ModuleType, workers: int) -> None:
    ok, _, failed, alone = run(runner, PASSING, CRASHING, workers=workers)

    assert not ok
    assert failed == 1
    assert alone == []
