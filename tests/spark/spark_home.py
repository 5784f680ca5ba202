"""A home of Spark that starts in half the time, for the processes that the tests start.

It is the installed one, by links, with two differences. Python workers import pyspark from files
that are compiled already; Spark's own home gives them a zip of sources, which each of a dozen
processes of an application compiles again (half a second each). And the defaults are those of
short runs. ``test_packaged_java.py`` runs in the home as it is installed.
"""

from pathlib import Path
from typing import Final

DEFAULTS: Final = {
    # Short runs never win back what the better compiler takes.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


def make_spark_home(home: Path) -> Path:
    """Make ``home``, which must not exist, and return it."""
    import py4j
    import pyspark

    installed, bridge = (Path(str(each.__file__)).parent for each in (pyspark, py4j))
    home.mkdir()
    for entry in installed.iterdir():
        if entry.name not in {"python", "conf"}:
            (home / entry.name).symlink_to(entry)
    for archive in (installed / "python" / "lib").iterdir():
        package = bridge if archive.name.startswith("py4j") else installed
        # A folder of the same name: both are places of modules to Python.
        folder = home / "python" / "lib" / archive.name
        folder.mkdir(parents=True)
        (folder / package.name).symlink_to(package)
    (home / "conf").mkdir()
    lines = [f"{name} {value}\n" for name, value in DEFAULTS.items()]
    (home / "conf" / "spark-defaults.conf").write_text("".join(lines))
    return home
