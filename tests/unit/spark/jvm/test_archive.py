"""The archive of Spark's classes: written once, taken over when whole, never in the way."""

import os
import time
from pathlib import Path

import pytest

from jetspark.spark.jvm.archive import archive_options
from jetspark.spark.jvm.java import Java

WHOLE = (0xF00BABA8).to_bytes(4, "little") + b"classes"
JAVA = Java(Path("/opt/java"), 17, True, "17.0.15+6")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Spark with one jar."""
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core.jar").write_bytes(b"1")
    return tmp_path / "spark"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def _written(options: list[str]) -> Path:
    name, _, value = options[0].partition("=")
    assert name == "-XX:ArchiveClassesAtExit"
    return Path(value)


def test_the_first_start_writes_and_the_next_uses(home: Path, environ: dict[str, str]) -> None:
    part = _written(archive_options(environ, JAVA, home))
    part.write_bytes(WHOLE)

    used = archive_options(environ, JAVA, home)

    assert used[0].startswith("-XX:SharedArchiveFile=")
    assert Path(used[0].partition("=")[2]).read_bytes() == WHOLE
    assert archive_options(environ, JAVA, home) == used
    assert not part.exists()


def test_a_java_that_cannot_write_an_archive_is_not_asked_to(
    home: Path, environ: dict[str, str]
) -> None:
    assert archive_options(environ, JAVA._replace(has_class_archive=False), home) == []


def test_a_file_that_is_being_written_is_left_alone(home: Path, environ: dict[str, str]) -> None:
    """Two programs start at the same time: each writes a file of its own."""
    part = _written(archive_options(environ, JAVA, home))
    part.write_bytes(b"\0" * 64)

    other = _written(archive_options(environ, JAVA, home))

    assert other != part
    assert part.exists()
    other.write_bytes(WHOLE)
    assert archive_options(environ, JAVA, home)[0].startswith("-XX:SharedArchiveFile=")
    assert part.exists()


@pytest.mark.parametrize("content", [b"", WHOLE[:6], b"\0" * len(WHOLE)])
def test_a_damaged_archive_is_not_used(
    home: Path, environ: dict[str, str], content: bytes
) -> None:
    """Java 17 does not start with an archive that was truncated."""
    _written(archive_options(environ, JAVA, home)).write_bytes(WHOLE)
    archive = Path(archive_options(environ, JAVA, home)[0].partition("=")[2])
    archive.write_bytes(content)

    _written(archive_options(environ, JAVA, home))

    assert not archive.exists()


@pytest.mark.parametrize("change", ["java", "jar", "new jar"])
def test_another_java_or_other_jars_need_another_archive(
    home: Path, environ: dict[str, str], change: str
) -> None:
    part = _written(archive_options(environ, JAVA, home))
    part.write_bytes(WHOLE)
    old = Path(archive_options(environ, JAVA, home)[0].partition("=")[2])
    java = JAVA._replace(version="17.0.16+1") if change == "java" else JAVA
    if change == "jar":
        (home / "jars" / "spark-core.jar").write_bytes(b"22")
    if change == "new jar":
        (home / "jars" / "extra.jar").write_bytes(b"1")

    part = _written(archive_options(environ, java, home))
    part.write_bytes(WHOLE)
    day_before = time.time() - 2 * 86_400
    os.utime(old, (day_before, day_before))
    new = Path(archive_options(environ, java, home)[0].partition("=")[2])

    assert new.exists()
    assert not old.exists()


def test_no_archive_where_it_is_not_wanted_or_cannot_work(
    home: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    assert archive_options({**environ, "JETSPARK_CLASS_ARCHIVE": "off"}, JAVA, home) == []
    assert archive_options({"XDG_CACHE_HOME": "/proc/none"}, JAVA, home) == []
    assert archive_options({"XDG_CACHE_HOME": str(tmp_path / "a b")}, JAVA, home) == []
    assert archive_options(environ, JAVA, tmp_path / "no spark") == []
    (home / "conf").mkdir()
    assert archive_options(environ, JAVA, home) != []
    (home / "conf" / "spark-defaults.conf").write_text("")
    assert archive_options(environ, JAVA, home) == []
