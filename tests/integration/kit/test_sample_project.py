"""A project of a user, with tests in five styles, in an environment of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from tests.support.user_project import Run, environment, pytest_in

ROOT = Path(__file__).resolve().parents[3]
TESTS = 26
MOVE_THE_CLOCK_OR_FILL_THE_DISK = 5


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, and an environment with the wheel that was built and what it needs."""
    folder = tmp_path_factory.mktemp("user") / "project"
    shutil.copytree(Path(__file__).parent / "sample_project", folder)
    home = folder / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    # pip would download these: they are what `make env` installed.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (packages / "compiled.pth").write_text(sysconfig.get_path("platlib") + "\n")
    wheels = list((ROOT / "build" / "wheel").glob("jetspark-*.whl"))
    if wheels and not os.environ.get("PYTHONPATH"):
        zipfile.ZipFile(wheels[0]).extractall(packages)
        (home / "from_wheel").touch()
    nats_server = Path(sys.executable).with_name("nats-server")
    (home / "bin" / "nats-server").symlink_to(nats_server)
    return folder


def run(project: Path, *arguments: str) -> Run:
    return pytest_in(project, *arguments, python=(str(project / "venv" / "bin" / "python"),))


def test_it_passes_on_our_server(project: Path) -> None:
    done = run(project)

    assert (done.code, done.count("passed")) == (0, TESTS), done.output


def test_it_passes_on_our_server_in_parallel(project: Path) -> None:
    done = run(project, "-n2")

    assert (done.code, done.count("passed")) == (0, TESTS), done.output


def test_it_passes_on_nats_server_except_for_what_that_cannot_do(project: Path) -> None:
    done = run(project, "--jetspark-server=nats-server", "-rs")

    assert done.code == 0, done.output
    assert done.count("skipped") == MOVE_THE_CLOCK_OR_FILL_THE_DISK
    assert done.count("passed") == TESTS - MOVE_THE_CLOCK_OR_FILL_THE_DISK
    assert "nats-server cannot move its clock" in done.output
    assert "nats-server cannot be given a full disk" in done.output


@pytest.mark.parametrize("server", ["jetspark", "nats-server"])
def test_its_test_cases_run_with_unittest(project: Path, server: str) -> None:
    done = subprocess.run(
        [project / "venv" / "bin" / "python", "-W", "error", "-m", "unittest", "discover", "tests",
         "-p", "test_unittest.py"],
        cwd=project,
        env=environment(JETSPARK_TEST_SERVER=server),
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr
    assert ("OK (skipped=1)" if server == "nats-server" else "OK\n") in done.stderr
    assert "Warning" not in done.stderr


def test_it_is_the_wheel_that_was_built(project: Path) -> None:
    if not (project / "venv" / "from_wheel").exists():
        pytest.skip("the sources in place are tested, or no wheel was built")
    said = subprocess.run(
        [project / "venv" / "bin" / "python", "-c", "import jetspark; print(jetspark.__file__)"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.startswith(str(project / "venv"))
