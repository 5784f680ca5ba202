"""A home of Spark that starts with less work, for the processes that the tests start.

It is the installed one, by links, with four differences. Python workers import pyspark from files
that are compiled already; Spark's own home gives them a zip of sources, which each of a dozen
processes of an application compiles again (half a second each). What workers import is imported
once, before they are forked (again half a second each). Java runs through a launcher that
adds the settings of short runs. And the launcher has an archive of Spark's classes, which
`make test` makes once for an environment (``python -m tests.support.spark_home``); without it
tests take longer. The home is kept at a fixed place, since an archive is only good for the class
path that it was made with. ``test_packaged_java.py`` runs in the home as installed.
"""

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.linked_spark import make_spark_home

from jetspark.spark.jvm.archive import ARCHIVE_VARIABLE, archive_options
from jetspark.spark.jvm.java import Java, JavaNotFound, ensure_java

# Takes the place of pyspark/daemon.py, which imports nothing before it forks: modules of users may
# start threads. Those of this list start none with the two settings; if another version of them
# does, the installed one runs instead.
DAEMON: Final = """\
import contextlib, gc, importlib, os, sys
from pyspark.daemon_as_installed import manager
if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    names = [*sys.argv[1:2], "pyarrow.compute"]
    names += [f"jetspark.spark.{name}.source" for name in ("stream", "kv", "objects")]
    if "pyspark.worker" in names:
        names += ["pandas", "pyspark.sql.pandas.serializers"]
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        command = [sys.executable, "-m", "pyspark.daemon_as_installed", *sys.argv[1:]]
        os.execv(sys.executable, command)
    gc.freeze()
    manager()
"""

JAVA_OPTIONS: Final = (
    # Short runs never win back what the better compiler takes.
    "-XX:TieredStopAtLevel=1",
    # A file of defaults would be in a directory on the class path, which no archive may have.
    "-Dspark.ui.enabled=false",
    "-Dspark.ui.showConsoleProgress=false",
    "-Dspark.sql.shuffle.partitions=2",
)

TRAINING_S: Final = 400

# What most tests make Spark load: a query with a shuffle, a Python worker, files, a stream.
TRAINING: Final = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
builder = SparkSession.builder.master("local[2]")
spark = builder.config("spark.driver.extraJavaOptions", sys.argv[2]).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
double = udf(lambda number: 2 * number, "long")
rows = spark.range(100).select(double("id").alias("id")).groupBy("id").count()
rows.write.parquet(sys.argv[1] + "/rows")
rows.createOrReplaceTempView("rows")
spark.sql("SELECT * FROM rows JOIN rows AS other USING (id)").collect()
stream = spark.readStream.schema("id long, count long").parquet(sys.argv[1] + "/rows")
writer = stream.writeStream.foreachBatch(lambda batch, number: batch.count())
writer = writer.option("checkpointLocation", sys.argv[1] + "/checkpoint")
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""

_LAUNCHER: Final = """\
#!/bin/sh
exec {java} {options} "$@"
"""


class SparkHome(NamedTuple):
    """What ``SPARK_HOME`` and ``JAVA_HOME`` have to be."""

    spark: Path
    java: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a process starts Spark from here."""
        return {
            "SPARK_HOME": str(self.spark),
            "JAVA_HOME": str(self.java),
            # The launcher of Java in this home has an archive of its own.
            ARCHIVE_VARIABLE: "off",
        }


def find_spark_home(*, train: bool) -> SparkHome | None:
    """Return the home for tests, made by the first run; None where there is no Java.

    ``train`` makes the archive if there is none, by one more run of Spark.
    """
    import pyspark

    environ = dict(os.environ)
    try:
        java = ensure_java(environ)
    except JavaNotFound:
        return None
    text = f"{pyspark.__file__} {pyspark.__version__} {java} {TRAINING} {DAEMON} {JAVA_OPTIONS}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    folder = Path(tempfile.gettempdir(), f"jetspark-tests-{os.getuid()}", digest)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Test processes start side by side: one makes what all use.
        fcntl.flock(lock, fcntl.LOCK_EX)
        home = SparkHome(folder / "spark", folder / "java")
        if not home.spark.exists():
            making = folder / "making"
            shutil.rmtree(making, ignore_errors=True)
            make_spark_home(making)
            _replace_daemon(making)
            making.rename(home.spark)
        _make_launcher(home, java, folder, train=train)
    return home


def _replace_daemon(home: Path) -> None:
    """Make a folder of links of the package that workers import, with a daemon of our own."""
    (package,) = (home / "python" / "lib").glob("pyspark*/pyspark")
    installed = package.resolve()
    package.unlink()
    for folder in (package, package / "__pycache__"):
        folder.mkdir()
        for entry in (installed / folder.relative_to(package)).iterdir():
            if not entry.name.startswith(("daemon.", "__pycache__")):
                (folder / entry.name).symlink_to(entry)
    (package / "daemon_as_installed.py").symlink_to(installed / "daemon.py")
    (package / "daemon.py").write_text(DAEMON)


def _make_launcher(home: SparkHome, java: Java, folder: Path, *, train: bool) -> None:
    """Write the launcher; without an archive where there is none yet."""
    environ = {"XDG_CACHE_HOME": str(folder)}
    options = archive_options(environ, java, home.spark)
    if train and _writes(options):
        _write_launcher(home, java, [])
        _train(home, options)
        options = archive_options(environ, java, home.spark)
    _write_launcher(home, java, [] if _writes(options) else options)


def _writes(options: list[str]) -> bool:
    return bool(options) and "ArchiveClassesAtExit" in options[0]


def _write_launcher(home: SparkHome, java: Java, options: list[str]) -> None:
    launcher = home.java / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    real = shlex.quote(str(java.home / "bin" / "java"))
    text = _LAUNCHER.format(java=real, options=shlex.join([*JAVA_OPTIONS, *options]))
    if launcher.exists() and launcher.read_text() == text:
        return
    # Another test process may be running the one that exists.
    fresh = launcher.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(launcher)


def _train(home: SparkHome, options: list[str]) -> None:
    """Run a program whose JVM writes an archive; if it fails there is none."""
    environ = {
        **os.environ,
        "SPARK_HOME": str(home.spark),
        "JAVA_HOME": str(home.java),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(subprocess.TimeoutExpired):
        # The pipe is closed when the JVM has written the archive, which it does after the program.
        subprocess.run(
            [sys.executable, "-c", TRAINING, place, shlex.join(options)],
            env=environ,
            capture_output=True,
            timeout=TRAINING_S,
            check=False,
        )


if __name__ == "__main__":
    find_spark_home(train=True)
