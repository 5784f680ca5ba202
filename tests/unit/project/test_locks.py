"""requirements/*.txt: exact versions and hashes of what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.lock import SERVER_EXTRAS

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = ["env", "serve", "build"]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def asked(file: str) -> list[Requirement]:
    """What the project requires where a file is used."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    lines = list(project["dependencies"])
    if file == "build":
        lines = [*PROJECT["build-system"]["requires"], *PROJECT["dependency-groups"]["build"]]
    for name in extras if file == "env" else SERVER_EXTRAS if file == "serve" else []:
        lines += extras[name]
    return [each for each in map(Requirement, lines) if each.name != "jetspark"]


def pins(file: str) -> dict[str, set[str]]:
    """Packages of a file, each with its versions: several if they depend on the Python."""
    found: dict[str, set[str]] = {}
    for line in logical_lines(file):
        requirement = Requirement(line.partition(" --hash")[0])
        (specifier,) = requirement.specifier
        assert specifier.operator == "=="
        found.setdefault(canonicalize_name(requirement.name), set()).add(specifier.version)
    return found


def logical_lines(file: str) -> list[str]:
    text = (ROOT / "requirements" / f"{file}.txt").read_text()
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [line for line in lines.splitlines() if line.strip()]


@pytest.mark.parametrize("file", FILES)
def test_every_requirement_is_pinned_to_versions_that_it_allows(file: str) -> None:
    locked = pins(file)
    wrong = [
        f"{requirement}: {locked.get(canonicalize_name(requirement.name), 'missing')}"
        for requirement in asked(file)
        if not locked.get(canonicalize_name(requirement.name))
        or not all(
            requirement.specifier.contains(version)
            for version in locked[canonicalize_name(requirement.name)]
        )
    ]

    assert wrong == [], "run `make lock`"


@pytest.mark.parametrize("file", FILES)
def test_every_pin_has_hashes(file: str) -> None:
    assert [line for line in logical_lines(file) if not HASH.search(line)] == []


@pytest.mark.parametrize("file", FILES)
def test_no_index_and_no_folder_is_named(file: str) -> None:
    """Files come from where pip is configured to look, on every machine."""
    left = [HASH.sub("", line) for line in logical_lines(file)]

    assert [line for line in left if "/" in line or line.startswith("-")] == []


@pytest.mark.parametrize("file", ["serve", "build"])
def test_what_is_in_two_files_has_the_same_version(file: str) -> None:
    everything = pins("env")
    other = {
        name: versions
        for name, versions in pins(file).items()
        if name in everything and not versions <= everything[name]
    }

    assert other == {}
