"""The map and the contributors' guide name files, folders and classes that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "jetspark"
MAP = ROOT / "docs" / "internals" / "map.md"
GUIDE = ROOT / "CONTRIBUTING.md"
PATH = re.compile(r"`((?:[a-z_.]+/)+(?:[a-z_0-9]+\.(?:py|md|toml))?|[a-z_]+\.py)`")
NAME = re.compile(r"`([A-Z][A-Za-z]+)(?:\.([a-z_]+))?`")
QUESTION = re.compile(r"^\| (?P<question>[^|]+\?) \| (?P<answer>[^|]+) \|$", flags=re.MULTILINE)
# Names on these pages that are other people's, or whole sets.
FOREIGN = {"None", "HOT", "FIELDS", "Feed"}

# Folders that `make` fills.
MADE: Final = {"dist/"}


@cache
def defined() -> dict[str, set[str]]:
    """The classes and functions of the package, with the methods of the classes."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                members = found.setdefault(node.name, set())
                members |= {
                    each.name
                    for each in node.body
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                }
    return found


@pytest.mark.parametrize("page", [MAP, GUIDE], ids=lambda page: page.name)
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = PATH.findall(page.read_text(encoding="utf-8"))

    assert len(named) > 20
    assert [
        name
        for name in named
        if name not in MADE
        and not any(
            (base / name).exists() for base in (ROOT, PACKAGE, PACKAGE / "server" / "config")
        )
        and not list(PACKAGE.rglob(name))
    ] == []


@pytest.mark.parametrize("page", [MAP, GUIDE], ids=lambda page: page.name)
def test_every_class_and_method_that_is_named_exists(page: Path) -> None:
    known = defined()
    named = set(NAME.findall(page.read_text(encoding="utf-8")))

    assert [
        f"{owner}.{method}".rstrip(".")
        for owner, method in sorted(named)
        if owner not in FOREIGN and (owner not in known or (method and method not in known[owner]))
    ] == []


def test_the_forty_questions_have_answers_in_one_file_each() -> None:
    answers = QUESTION.findall(GUIDE.read_text(encoding="utf-8"))

    assert len(answers) == 40
    for question, answer in answers:
        path, name = re.findall(r"`([^`]+)`", answer)[:2]
        text = (PACKAGE / path).read_text(encoding="utf-8")
        assert re.search(rf"(?:def|class) {name.rpartition('.')[2]}\b", text), question
