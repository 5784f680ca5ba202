"""docs/dependencies.md tells the truth about pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(line for extra in extras for line in extra)]


def declared() -> set[str]:
    return {re.split(r"[\[<>=;! ]", line)[0] for line in requirements()}


def explained() -> set[str]:
    page = (ROOT / "docs/dependencies.md").read_text()
    return set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE))


def test_every_dependency_is_justified_and_nothing_else_is() -> None:
    assert explained() == declared()


def test_every_dependency_has_an_upper_bound_or_is_exact() -> None:
    """Pyarrow apart: Spark itself sets its bounds."""
    unbounded = [line for line in requirements() if "<" not in line and "==" not in line]

    assert unbounded == ["pyarrow>=18"]
