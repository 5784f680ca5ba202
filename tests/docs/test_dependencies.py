"""docs/dependencies.md agrees with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def requirements() -> dict[str, list[str]]:
    """What the base install, each extra and the build bring, by the heading of its section."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    build = [*settings["build-system"]["requires"], *settings["dependency-groups"]["build"]]
    extras = project["optional-dependencies"].items()
    return {
        "Always installed": project["dependencies"],
        **{f"Extra `{name}`": lines for name, lines in extras},
        "Build": build,
    }


def from_outside() -> list[str]:
    lines = [line for lines in requirements().values() for line in lines]
    return [line for line in lines if not line.startswith("jetspark[")]


def sections() -> dict[str, str]:
    page = (ROOT / "docs/dependencies.md").read_text()
    found = re.split(r"^## (.*)$", page, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_every_dependency_is_justified_where_it_is_installed_and_nothing_else_is() -> None:
    explained = {
        name: set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE))
        for name, text in sections().items()
    }
    declared = {
        name: {re.split(r"[\[<>=;! ]", line)[0] for line in lines} - {"jetspark"}
        for name, lines in requirements().items()
    }

    assert explained == declared


def test_an_extra_names_the_extras_that_it_includes() -> None:
    for name, lines in requirements().items():
        included = [line for line in lines if line.startswith("jetspark[")]
        named = set(re.findall(r"\w+", included[0])) - {"jetspark"} if included else set()
        said = re.search(r"^Includes (.*?)\.", sections()[name], flags=re.MULTILINE)

        assert set(re.findall(r"`(\w+)`", said[1] if said else "")) == named


def test_every_dependency_has_an_upper_bound_or_is_exact() -> None:
    """Pyarrow apart: Spark itself sets its bounds."""
    unbounded = [line for line in from_outside() if "<" not in line and "==" not in line]

    assert unbounded == ["pyarrow>=18"]
