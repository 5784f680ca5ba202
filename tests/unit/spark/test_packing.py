"""The archive for executors has what is installed here, and a Python without it can use it."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from jetspark.cli.main import main
from jetspark.spark.packing import MARKER, PackingFailed, pack

IMPORTS = """
import sys
sys.path[:] = [sys.argv[1], *(p for p in sys.path if "site-packages" not in p)]
import jetspark, msgspec
from jetspark.protocol import parser
print(jetspark.__file__, msgspec.__file__, parser.__file__)
"""


def _installed() -> bool:
    from importlib.metadata import distribution

    files = distribution("jetspark").files or []
    return any(str(file) == "jetspark/__init__.py" for file in files)


pytestmark = pytest.mark.skipif(not _installed(), reason="jetspark is not installed as a wheel")


def test_a_python_without_packages_imports_everything_from_the_archive(tmp_path: Path) -> None:
    packed = pack(tmp_path / "environment.tar.gz", only=["jetspark"])

    folder = tmp_path / "environment"
    with tarfile.open(packed.archive) as tar:
        tar.extractall(folder, filter="data")
    assert [*folder.rglob("__pycache__")] == []  # of another Python, and useless there
    done = subprocess.run(
        [sys.executable, "-S", "-c", IMPORTS, str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert all(place.startswith(str(folder)) for place in done.stdout.split())
    assert {"jetspark", "msgspec", "xxhash", "librt"} <= packed.packages.keys()
    assert "click" not in packed.packages  # an extra of jetspark, not needed by a task
    assert f"jetspark=={packed.packages['jetspark']}" in (folder / MARKER).read_text()


def test_a_package_that_is_not_installed_is_named_and_leaves_no_archive(tmp_path: Path) -> None:
    archive = tmp_path / "environment.tar.gz"

    with pytest.raises(PackingFailed, match="package 'no-such-package' is not installed here"):
        pack(archive, ["no-such-package"], only=["jetspark"])
    assert [*tmp_path.iterdir()] == []


def test_the_command_says_how_to_use_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetspark.spark.packing.NEEDED", ("msgspec",))
    monkeypatch.setattr(pack, "__kwdefaults__", {"only": ("msgspec",)})
    archive = tmp_path / "e.tar.gz"

    shown = CliRunner().invoke(main, ["spark", "pack", str(archive)])
    as_json = CliRunner().invoke(main, ["spark", "pack", str(archive), "--json"])
    wrong = CliRunner().invoke(main, ["spark", "pack", str(archive), "--with", "nothing-such"])

    assert shown.exit_code == 0, shown.output
    assert f"--archives {archive}#environment" in shown.output
    assert list(json.loads(as_json.output)["packages"]) == ["msgspec"]
    assert wrong.exit_code == 1
    assert "package 'nothing-such' is not installed" in wrong.output


def test_names_that_spark_would_unpack_in_another_way_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PackingFailed, match=r"environment.zip' does not end with .tar.gz or .tgz"):
        pack(tmp_path / "environment.zip", only=["jetspark"])
    with pytest.raises(PackingFailed, match=r"the folder '.*nowhere' does not exist: create it"):
        pack(tmp_path / "nowhere" / "environment.tar.gz", only=["jetspark"])
    assert [*tmp_path.iterdir()] == []
