"""Executors whose own Python has no jetspark get it, compiled, from an archive.

The recipe of the documentation: what ``jetspark spark pack`` writes in ``spark.archives``, and its
unpacked name in the executors' ``PYTHONPATH``. Modules written in C cannot be imported from a zip,
so ``--py-files`` does not work. Then what a user sees when the executors have no jetspark, and
when they have another version of it.

    python -m tests.campaigns.spark.archive [--python PYTHON] [--master MASTER] [--packages FOLDER]

``PYTHON`` is an interpreter of the same minor version that cannot import jetspark, ``MASTER`` a
URL or ``standalone``, ``FOLDER`` what ``pip install --target`` filled; by default the installed
packages are packed.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.spark.connect import standalone

from jetspark import StreamConfig, sync
from jetspark.spark.packing import pack

CLUSTER: Final = "local-cluster[2,1,1024]"
STANDALONE: Final = "standalone"
ROWS: Final = 100
OTHER_VERSION: Final = "0.0.9"
JOB: Final = """
import sys
from jetspark.spark import session

url, archive, master = sys.argv[1:]
# The executors of a local cluster would inherit the driver's path.
settings = {"spark.ui.enabled": "false", "spark.executorEnv.PYTHONPATH": "./environment"}
if archive:
    settings["spark.archives"] = archive + "#environment"
spark = session(master=master, config=settings, log_level="OFF")

def where(_rows):
    import jetspark
    import jetspark.protocol.parser as compiled
    import sys
    yield jetspark.__file__, compiled.__file__, sys.executable

rows = spark.read.format("jetstream").options(servers=url, stream="IN").load()
try:
    seqs = sorted(row.seq for row in rows.select("seq").collect())
except Exception as error:
    print("FAILED", type(error).__name__)
    print(error)
    sys.exit(1)
print("READ", len(seqs), seqs[0], seqs[-1])
parts = spark.sparkContext.parallelize(range(4), 4)
for each in sorted(set(parts.mapPartitions(where).collect())):
    print("FROM", *each)
spark.stop()
"""


class Setup(NamedTuple):
    """What the driver has, which Python the executors run, and where."""

    packages: Path
    python: str
    master: str


def run(setup: Setup, archive: Path | None, folder: Path) -> tuple[int, str]:
    """Read a stream in a cluster; the job's exit code and output."""
    with sync.Server() as server, sync.connect(server.client_url) as client:
        js = client.jetstream()
        js.create_stream(StreamConfig(name="IN", subjects=("IN.>",), allow_direct=True))
        for number in range(ROWS):
            js.publish("IN.x", b"%d" % number)
        # The driver plans reads in a process of the executors' Python, with its own path.
        environ = os.environ | {
            "PYSPARK_PYTHON": setup.python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(setup.packages),
        }
        done = subprocess.run(
            [sys.executable, "-c", JOB, server.client_url, str(archive or ""), setup.master],
            cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def packed(packages: Path, archive: Path) -> Path:
    """Pack a folder of packages as the documentation says."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(packages, arcname=".")
    return archive


def unpacked(folder: Path) -> Path:
    """Return a folder with what ``jetspark spark pack`` packs of this environment."""
    made = pack(folder / "packed.tar.gz")
    with tarfile.open(made.archive) as tar:
        tar.extractall(folder / "packages", filter="data")
    return folder / "packages"


def check_archive(setup: Setup, folder: Path) -> str:
    """Read with the archive; every executor must have imported compiled modules out of it."""
    archive = packed(setup.packages, folder / "environment.tar.gz")
    code, output = run(setup, archive, folder)
    assert code == 0, output[-4000:]
    assert f"READ {ROWS} 1 {ROWS}" in output, output[-4000:]
    places = [line.split()[1:] for line in output.splitlines() if line.startswith("FROM ")]
    assert places, output[-4000:]
    for package, compiled, executable in places:
        assert "/environment/" in package, package
        assert compiled.endswith(".so"), compiled
        assert executable == setup.python, executable
    return f"{ROWS} rows read by {len(places)} executors with compiled modules of the archive"


def check_missing(setup: Setup, folder: Path) -> str:
    """Read without an archive: the error names the first package that is missing.

    That is pyarrow where the executors' Python has none of them.
    """
    code, output = run(setup, None, folder)
    assert code == 1, output[-4000:]
    return _line(output, "ModuleNotFoundError: No module named ")


def check_other_version(setup: Setup, folder: Path) -> str:
    """Read with another version in the archive: the error names both."""
    other = folder / "other"
    shutil.copytree(setup.packages, other)
    version = other / "jetspark" / "version.py"
    text, count = re.subn(
        r'^VERSION: Final = ".*"$', f'VERSION: Final = "{OTHER_VERSION}"', version.read_text(),
        flags=re.MULTILINE,
    )  # fmt: skip
    assert count == 1, version
    version.write_text(text)
    code, output = run(setup, packed(other, folder / "other.tar.gz"), folder)
    assert code == 1, output[-4000:]
    return _line(output, f"this executor has {OTHER_VERSION} ")


def campaign(packages: Path, python: str, folder: Path, *, master: str = CLUSTER) -> list[str]:
    """Run every check; what each found."""
    with _cluster(folder, master) as url:
        setup = Setup(packages, python, url)
        return [
            check(setup, folder) for check in (check_archive, check_missing, check_other_version)
        ]


@contextlib.contextmanager
def _cluster(folder: Path, master: str) -> Iterator[str]:
    if master != STANDALONE:
        yield master
        return
    with standalone(folder) as url:
        yield url


def _line(output: str, wanted: str) -> str:
    found = [line for line in output.splitlines() if wanted in line]
    assert found, output[-4000:]
    return found[-1].strip()


def main() -> None:
    """Run it for one folder of packages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--master", default=CLUSTER)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        packages = given.packages or unpacked(Path(name))
        found = campaign(packages, given.python, Path(name), master=given.master)
    sys.stdout.write("\n".join(found) + "\n")


if __name__ == "__main__":
    main()
