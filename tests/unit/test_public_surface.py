"""What `import jetspark` offers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import jetspark


def test_every_public_name_can_be_imported() -> None:
    for name in jetspark.__all__:
        assert getattr(jetspark, name) is not None


def test_dir_lists_the_public_names() -> None:
    assert dir(jetspark) == sorted(jetspark.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(jetspark, "nonsense")  # noqa: B009 - type checkers refuse the plain form


def test_import_jetspark_is_enough_for_the_names_of_its_packages() -> None:
    names = ["errors.Error", "spark.session", "Client", "sync.connect", "sync.Server"]
    code = "\n".join(["import jetspark", *(f"jetspark.{name}.__name__" for name in names)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""


def test_import_jetspark_loads_none_of_its_packages() -> None:
    code = (
        "import sys, jetspark\n"
        "print([name for name in sys.modules if name.startswith('jetspark.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            jetspark.Server,
            "client_url close connect listening monitor_url port reload start",
        ),
        (jetspark.sync.Server, "client_url close connect monitor_url port start"),
    ],
)
def test_a_server_shows_what_is_for_its_users(kind: type, names: str) -> None:
    made = kind()
    shown = [name for name in dir(made) if not name.startswith("_")]

    assert shown == names.split()
    page = Path(__file__).resolve().parents[2] / "docs" / "reference"
    text = (page / ("sync.md" if kind is jetspark.sync.Server else "server.md")).read_text()
    described = text.partition("## Server\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^### (\w+)$", described, re.MULTILINE)) == shown
