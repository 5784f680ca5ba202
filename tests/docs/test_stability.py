"""docs/stability.md promises only what a test or a command proves."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text()
PROMISES = PAGE.partition("## Public API")[2]
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_every_promise_names_its_proof() -> None:
    rows = [line for line in PROMISES.splitlines() if re.match(r"\| (?!promise|public)", line)]
    bare = [row for row in rows if not re.search(r"\| `(tests/|make )[^|]*\|$", row)]

    assert len(rows) > 15
    assert bare == []


def test_every_test_that_a_promise_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", PAGE)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists()
        or not re.search(
            rf"^\s*(async )?def {name or 'test'}", (ROOT / path).read_text(), re.MULTILINE
        )
    ]

    assert len(named) > 15
    assert missing == []


def test_every_command_that_a_promise_names_exists() -> None:
    assert set(re.findall(r"`make ([a-z-]+)", PAGE)) - set(TARGETS) == set()


def test_warnings_fail_the_tests() -> None:
    """Those of our own above all: examples and documents run as tests."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"][
        "ini_options"
    ]
    first, *ignored = settings["filterwarnings"]

    assert first == "error"
    assert [line for line in ignored if "jetspark" in line or "Deprecation" in line] == []


def test_deprecations_are_in_the_changelog() -> None:
    deprecating = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if "DeprecationWarning" in path.read_text()
    ]

    assert bool(deprecating) == ("### Deprecated" in (ROOT / "CHANGELOG.md").read_text())
