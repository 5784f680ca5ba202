"""A class-data archive, which speeds up the start of Spark's JVM.

Spark loads thousands of classes before its first query, and Java parses and verifies each. It can
store the result in a file. The first program that starts Spark writes the file when its JVM ends
(``ArchiveClassesAtExit``); later ones map it. Java compares the archive with its version and with
the jars on the class path, and ignores one that does not match. It is a supplement to the archive
of Java's own classes, and a Java without that archive, such as pip's, cannot write it.

The JVM ends after this process, so nothing is left to rename a finished file: it is written under
a unique name, and the next start takes it over if it is complete. Java writes the first bytes
last, so a file that starts with the magic number is complete. Its size becomes part of its name: a
JVM does not start with an archive that was truncated later.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jetspark.spark.jvm.cache import CacheUnavailable, cache_directory
from jetspark.spark.jvm.java import Java

# If this variable is "off", Spark is started without an archive, and none is written.
ARCHIVE_VARIABLE: Final = "JETSPARK_CLASS_ARCHIVE"

# Java prints a line for every class that cannot be archived, to standard output.
QUIET: Final = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")

_MAGIC: Final = (0xF00BABA8).to_bytes(4, "little"), (0xF00BABA8).to_bytes(4, "big")
# An archive of Spark takes 150 MB; not worth it if there is little space.
_FREE_MIN: Final = 2 * 1024**3
_UNUSED_DAYS: Final = 30
_DAY_S: Final = 86_400


def archive_options(environ: Mapping[str, str], java: Java, spark_home: Path) -> list[str]:
    """Return the JVM options that use or write an archive; none if it can do neither.

    Never raises: without an archive Spark only starts more slowly.
    """
    if environ.get(ARCHIVE_VARIABLE, "").lower() == "off" or not java.has_class_archive:
        return []
    try:
        folder = cache_directory(environ) / "spark-classes"
        place, key = _names(environ, java, spark_home)
        if key is None or not _is_plain(folder):
            return []
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{place}-{key}"
        archive = _finished(folder, name) or _take_over(folder, name, place)
        if archive is not None:
            os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", *QUIET]
        if shutil.disk_usage(folder).free < _FREE_MIN:
            return []
        written = folder / f"{name}.{secrets.token_hex(4)}.part"
    except (OSError, CacheUnavailable):
        return []
    return [f"-XX:ArchiveClassesAtExit={written}", *QUIET]


def _names(environ: Mapping[str, str], java: Java, spark_home: Path) -> tuple[str, str | None]:
    """Return the name of this installation, and its state; None if archives do not work."""
    configured = environ.get("SPARK_CONF_DIR")
    settings = Path(configured) if configured else spark_home / "conf"
    if settings.is_dir() and any(settings.iterdir()):
        # It is on Spark's class path, and Java refuses non-empty directories there.
        return "", None
    jars = spark_home / "jars"
    place = _digest(f"{jars}\n{java.home}\n{settings}")
    # In directory order, like the class path.
    state = [f"{java.version}"]
    with os.scandir(jars) as entries:
        for entry in entries:
            status = entry.stat()
            state.append(f"{entry.name} {status.st_size} {status.st_mtime_ns}")
    return place, _digest("\n".join(state))


def _finished(folder: Path, name: str) -> Path | None:
    """Return the archive of a name; a damaged one is removed."""
    for archive in sorted(folder.glob(f"{name}.*.jsa")):
        size = archive.name.split(".")[-2]
        if str(archive.stat().st_size) == size and _is_whole(archive):
            return archive
        archive.unlink(missing_ok=True)
    return None


def _take_over(folder: Path, name: str, place: str) -> Path | None:
    """Make a finished file the archive of a name, and remove files no longer needed."""
    parts = [part for part in sorted(folder.glob(f"{name}.*.part")) if _is_whole(part)]
    if not parts:
        return None
    archive = folder / f"{name}.{parts[0].stat().st_size}.jsa"
    parts[0].replace(archive)
    now = time.time()
    for other in folder.iterdir():
        # Another program may remove the same file concurrently.
        with contextlib.suppress(OSError):
            age = now - other.stat().st_mtime
            outdated = age > _DAY_S and (other.suffix == ".part" or other.name.startswith(place))
            if other != archive and (other in parts or outdated or age > _UNUSED_DAYS * _DAY_S):
                other.unlink()
    return archive


def _is_whole(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) in _MAGIC


def _is_plain(folder: Path) -> bool:
    """Whether a path can be part of Spark's list of Java options unquoted."""
    return not any(letter.isspace() or letter in "\"'\\" for letter in str(folder))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
