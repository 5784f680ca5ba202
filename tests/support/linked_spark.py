"""A home of Spark made of links to the installed one.

Also run by Pythons with other versions of jetspark: it imports nothing of this repository.
"""

from pathlib import Path


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
    return home
