"""Executors whose own Python has no jetspark get it, compiled, from an archive.

The recipe of the documentation: ``pip install --target`` into a folder, a tar of that folder in
``spark.archives``, and its unpacked name in the executors' ``PYTHONPATH``. Modules written in C
cannot be imported from a zip, so ``--py-files`` does not work.

    python -m tests.campaigns.spark_archive --packages FOLDER --python /usr/bin/python3

``FOLDER`` is what ``pip install --target`` filled, ``--python`` an interpreter of the same minor
version that cannot import jetspark.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from jetspark import sync
from jetspark.api.stream import StreamConfig

CLUSTER: Final = "local-cluster[2,1,1024]"
ROWS: Final = 100
JOB: Final = """
import sys
from jetspark.spark import session

url, archive, folder, master, given = sys.argv[1:]
settings = {"spark.ui.enabled": "false"}
if given == "archive":
    settings["spark.archives"] = archive + "#environment"
    settings["spark.executorEnv.PYTHONPATH"] = "./environment"
spark = session(master=master, config=settings, log_level="OFF")

def where(_rows):
    import jetspark
    import jetspark.protocol.parser as compiled
    import sys
    yield jetspark.__file__, compiled.__file__, sys.executable

found = set(spark.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect())
rows = spark.read.format("jetstream").options(servers=url, stream="IN").load()
seqs = sorted(row.seq for row in rows.select("seq").collect())
print("READ", len(seqs), seqs[0], seqs[-1])
for each in sorted(found):
    print("FROM", *each)
spark.stop()
"""


def run(packages: Path, python: str, folder: Path, *, master: str, given: str) -> tuple[int, str]:
    """Read a stream in a cluster; the job's exit code and output."""
    archive = folder / "environment.tar.gz"
    if not archive.exists():
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.add(packages, arcname=".")
    with sync.Server() as server, sync.connect(server.client_url) as client:
        js = client.jetstream()
        js.create_stream(StreamConfig(name="IN", subjects=("IN.>",), allow_direct=True))
        for number in range(ROWS):
            js.publish("IN.x", b"%d" % number)
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environ |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
        if given == "archive":
            # The driver plans reads in a process of the same Python.
            environ["PYTHONPATH"] = str(packages)
        done = subprocess.run(
            [sys.executable, "-c", JOB, server.client_url, str(archive), str(folder), master,
             given],
            cwd=folder, env=environ, capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def campaign(packages: Path, python: str, folder: Path, *, master: str = CLUSTER) -> str:
    """Read with the archive; every executor must have imported compiled modules out of it."""
    code, output = run(packages, python, folder, master=master, given="archive")
    assert code == 0, output[-4000:]
    assert f"READ {ROWS} 1 {ROWS}" in output, output[-4000:]
    places = [line.split()[1:] for line in output.splitlines() if line.startswith("FROM ")]
    assert places, output[-4000:]
    for package, compiled, _executable in places:
        assert "/environment/" in package, package
        assert compiled.endswith(".so"), compiled
    return f"{len(places)} places, {ROWS} rows: {places[0]}"


def main() -> None:
    """Run it with and without the archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--master", default=CLUSTER)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(campaign(given.packages, given.python, Path(name), master=given.master))  # noqa: T201
        code, output = run(
            given.packages, given.python, Path(name), master=given.master, given="nothing"
        )
        print(f"without it: exit {code}; {output.strip().splitlines()[-1]}")  # noqa: T201


if __name__ == "__main__":
    main()
