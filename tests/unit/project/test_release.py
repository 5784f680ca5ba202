"""What `make wheel` puts into a release, and that its version stands in one place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

import pytest

import jetspark

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULES = [f"{name}.py" for name in PROJECT["tool"]["setuptools"]["py-modules"]]
BUILD = "from setuptools import build_meta; build_meta.build_sdist('dist')"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in the sdist of the repository as it is, with some junk in it."""
    folder = tmp_path_factory.mktemp("release") / "repository"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    wanted = [name for name in listed if not name.startswith("tests/") and (ROOT / name).is_file()]
    junk = ["build/lib/jetspark/old.py", "src/jetspark/x.so", "docs/__pycache__/x.pyc", ".venv/x"]
    for name in [*wanted, "tests/conftest.py"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    for name in junk:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    env = os.environ | {"JETSPARK_BUILD": "compiled"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "dist").iterdir()
    assert made.name == f"jetspark-{jetspark.__version__}.tar.gz"
    with tarfile.open(made) as archive:
        names = [PurePosixPath(each.name) for each in archive.getmembers() if each.isfile()]
    return {str(name.relative_to(name.parts[0])) for name in names}


def test_the_sdist_has_what_the_build_needs(sdist: set[str]) -> None:
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*")
        if path.is_file()
        and not any(p == "__pycache__" or p.endswith(".egg-info") for p in path.parts)
    }
    beside = {"pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md"}

    assert sources | beside | {"requirements/build.txt"} <= sdist


def test_the_sdist_has_nothing_else(sdist: set[str]) -> None:
    plain = {name for name in sdist if "/" not in name}

    folders = {name.partition("/")[0] for name in sdist} - plain
    assert folders == {"src", "deploy", "docs", "requirements"}
    assert plain - {path.name for path in ROOT.iterdir()} == {"PKG-INFO", "setup.cfg"}
    assert [name for name in sdist if re.search(r"__pycache__|\.(pyc|so|c|o)$", name)] == []


def test_the_wheel_has_the_package_and_nothing_else() -> None:
    # The installed one: the sources may have metadata next to them, too.
    place = [sysconfig.get_path("platlib")]
    installed = next(iter(distributions(name="jetspark", path=place)), None)
    if installed is None:
        pytest.skip("jetspark is not installed here; `make env` installs it")
    own = f"jetspark-{installed.version}.dist-info"
    compiled = "jetspark__mypyc.*"
    files = [
        path for path in installed.files or [] if path.suffix != ".pyc" and ".." not in path.parts
    ]
    strange = [
        str(path)
        for path in files
        if path.parts[0] not in {"jetspark", own, *MODULES} and not path.match(compiled)
    ]

    assert len(files) > 500
    assert strange == []
    # `jetspark bench` is a command.
    assert [
        str(path) for path in files if re.search(r"(^|/)tests?/|(?<!/cli)(^|/)bench/", str(path))
    ] == []
    # Sources of compiled modules stay, for tracebacks and type checkers; C files do not.
    assert {path.suffix for path in files if path.suffix in {".c", ".h", ".o"}} == set()


def test_a_build_keeps_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    package = ["__init__.py", "version.py", "turn.py", "py.typed"]
    sources = [f"src/{name}" for name in (*MODULES, *(f"jetspark/{each}" for each in package))]
    for name in ["pyproject.toml", "setup.py", "README.md", "LICENSE", *sources]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    built = tmp_path / "build" / "lib"
    for name in ("old/module.py", "turn.cpython-311-x86_64-linux-gnu.so", "spark/old.txt"):
        (built / "jetspark" / name).parent.mkdir(parents=True, exist_ok=True)
        (built / "jetspark" / name).touch()

    subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", "build"],
        cwd=tmp_path, env=os.environ | {"JETSPARK_BUILD": "interpreted"}, check=True,
    )  # fmt: skip

    found = {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}
    assert found == {name.removeprefix("src/") for name in sources}


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "jetspark.version.VERSION"
    }


def test_nothing_from_elsewhere_runs_before_a_commit_or_while_packages_are_installed() -> None:
    commit = (ROOT / ".pre-commit-config.yaml").read_text()
    make = (ROOT / "Makefile").read_text()

    assert re.findall(r"repo: (.*)", commit) == ["local"]
    assert re.findall(r"entry: (.*)", commit) == ["make check"]
    assert re.search(r"npm\.py ci .*--ignore-scripts", make)
    installs = [line for line in make.splitlines() if "pip install" in line and "UV" not in line]
    assert [line for line in installs if "--no-deps" not in line] == []
