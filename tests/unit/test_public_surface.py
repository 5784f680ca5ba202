"""What `import jetspark` offers."""

from __future__ import annotations

import subprocess
import sys

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
