"""The house rules that no linter checks.

There is no limit on the length of files: a class is one thing in one file, and a limit would be
met by tearing it apart.
"""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PYTHON = sorted(
    path
    for folder in ("src", "tests", "tools", "bench", "fuzz", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "node_modules" not in path.parts
)
NAMELESS = {"utils.py", "helpers.py", "common.py", "misc.py"}
# A page by its name, and behind a comma the heading: `wire.md, Consumers`.
CITATION = re.compile(r"(?<![\w/.-])([a-z][a-z0-9-]*\.md)(?:,(?:\s|#)+([A-Z][A-Za-z -]+))?")
PAGES = {path.name: path.read_text() for path in (ROOT / "docs").rglob("*.md")}
# Folders whose comments are still to be gone through.
UNREAD = ("store", "engine", "server", "replica", "client")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_every_module_says_what_it_is() -> None:
    silent = [named(p) for p in SOURCES if ast.get_docstring(parsed(p)) is None]

    assert silent == []


def test_no_file_is_a_drawer_for_everything() -> None:
    assert [named(path) for path in PYTHON if path.name in NAMELESS] == []


def test_nothing_is_left_to_be_done() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        named(path) for path in PYTHON if path != Path(__file__) and marks.search(path.read_text())
    ]

    assert found == []


def test_no_compiled_module_lies_in_the_sources() -> None:
    """An extension beside its source would be run instead of it."""
    assert [named(path) for path in (ROOT / "src").rglob("*.so")] == []


def test_no_machine_registry_or_home_folder_is_named() -> None:
    """What is in the repository works anywhere."""
    places = re.compile(
        r"/(?:home|root|work)/|pypi\.org|files\.pythonhosted|registry\.npmjs|deb\.debian\.org"
    )
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    found = [
        name
        for name in listed
        if name
        and name != "tests/test_tidy.py"
        and (ROOT / name).is_file()
        and places.search((ROOT / name).read_text(errors="replace"))
    ]

    assert found == []


def test_every_page_and_heading_that_code_cites_exists() -> None:
    lost = []
    for path in PYTHON:
        if path == Path(__file__) or named(path).startswith(
            tuple(f"src/jetspark/{folder}/" for folder in UNREAD)
        ):
            continue
        for name, heading in CITATION.findall(path.read_text()):
            page = PAGES.get(name)
            if page is None:
                lost.append(f"{named(path)}: {name}")
            elif heading and not any(
                heading.startswith(line.lstrip("# ")) for line in headings(page)
            ):
                lost.append(f"{named(path)}: {name}, {heading}")

    assert lost == []


def headings(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("#")]


# Torn classes -----------------------------------------------------------------------------------

# Base classes whose one subclass is in another module, and functions that are methods of their
# first parameter: what is left of them. The store is still being rebuilt.
REBUILT = "store/"
TORN_BASES = {
    "client/core.py ClientCore",
    "replica/reading.py Reading",
    "spark/range_reader.py SequencePartition",
    "spark/sink_writer.py RowWriter",
    "spark/stream_reader.py JetStreamStreamReader",
}
TORN_FUNCTIONS = {
    "server/lame_duck.py quack",
    "spark/pipelines/declarative.py _watched",
}


def test_no_class_is_torn_into_a_base_with_a_single_subclass_elsewhere() -> None:
    """A class that is too big is composed of parts; a base class has several subclasses."""
    home: dict[str, set[str]] = {}
    subclasses: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                home.setdefault(node.name, set()).add(in_package(path))
                for base in node.bases:
                    subclasses.setdefault(base_name(base), []).append(in_package(path))
    torn = {
        f"{where} {name}"
        for name, places in subclasses.items()
        if len(places) == 1
        # A name that several modules use for different classes says nothing.
        for where in (home.get(name, set()) if len(home.get(name, ())) == 1 else ())
        if where != places[0] and not where.startswith(REBUILT)
    }

    assert torn - TORN_BASES == set()


def test_no_function_assigns_the_fields_of_its_first_parameter() -> None:
    """That is a method of the parameter's class."""
    torn = {
        f"{in_package(path)} {function.name}"
        for path in SOURCES
        for function in parsed(path).body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and function.args.args
        and assigns_fields_of(function, function.args.args[0].arg)
        and not in_package(path).startswith(REBUILT)
    }

    assert torn - TORN_FUNCTIONS == set()


def in_package(path: Path) -> str:
    return str(path.relative_to(ROOT / "src" / "jetspark"))


def base_name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else ""


def assigns_fields_of(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(function)
    )
