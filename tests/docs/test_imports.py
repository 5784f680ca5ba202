"""Documents and examples import from nowhere but the public packages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import jetspark

ROOT = Path(__file__).resolve().parents[2]
# `jetspark` has every public name; the blocking twins and Spark have packages.
PUBLIC = {"jetspark", "jetspark.errors", "jetspark.sync", "jetspark.spark", "jetspark.testing"}
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*")),
    ROOT / "README.md",
]
IMPORT = re.compile(r"^\s*(?:from (jetspark[\w.]*) import|import (jetspark[\w.]*))", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_imports_public_names_only(page: Path) -> None:
    if page.is_dir() or page.is_relative_to(ROOT / "docs" / "internals"):
        return
    found = {a or b for a, b in IMPORT.findall(page.read_text(encoding="utf-8"))}

    assert found <= PUBLIC


def test_every_module_of_the_lazy_names_is_the_one_type_checkers_read() -> None:
    source = Path(str(jetspark.__file__)).read_text(encoding="utf-8")
    head = source[: source.index("__all__ =")]
    listed = re.findall(r"^    from (jetspark\.[\w.]+) import (\([^)]*\)|.*)$", head, re.MULTILINE)
    static = {
        name: module
        for module, names in listed
        for name in re.findall(r"\b[A-Za-z]\w+\b", names.partition("#")[0])
        if module != "jetspark.version"
    }

    assert static == jetspark._HOME
    assert set(jetspark._HOME) <= set(jetspark.__all__)


def test_connect_does_not_load_what_only_streams_need() -> None:
    code = "import sys, jetspark\njetspark.connect, jetspark.Client\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not [name for name in done.stdout.split() if name.startswith("jetspark.client.jetstr")]


def test_a_client_imports_no_server_no_commands_and_no_http() -> None:
    code = (
        "import sys, jetspark\n"
        "jetspark.connect, jetspark.StreamConfig, jetspark.sync.connect\n"
        "jetspark.errors.Error\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("jetspark.")}

    assert ours <= {
        "jetspark.api",
        "jetspark.client",
        "jetspark.clock",
        "jetspark.errors",
        "jetspark.frame",
        "jetspark.headers",
        "jetspark.ids",
        "jetspark.protocol",
        "jetspark.schemas",
        "jetspark.subjects",
        "jetspark.sync",
        "jetspark.units",
        "jetspark.version",
    }
    foreign = {"starlette", "uvicorn", "click", "rich", "http", "bcrypt", "websockets", "pyspark"}
    assert not foreign & loaded
