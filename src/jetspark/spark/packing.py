"""An archive of the installed packages that executors on other machines need.

It has exactly the files that are installed here, so driver and executors have the same versions,
and nothing is downloaded. Spark itself is not part of it: the cluster has it.
"""

import importlib.metadata
import io
import platform
import re
import sys
import tarfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Final, NamedTuple

from jetspark.errors import Error

# What jetspark.spark imports in a task, besides pyspark.
NEEDED: Final = ("jetspark", "pyarrow", "numpy")
LEVEL: Final = 6
# Of the names that Spark unpacks as a compressed tar file.
ENDINGS: Final = (".tar.gz", ".tgz")
MARKER: Final = "jetspark-environment.txt"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class PackingFailed(Error):
    """The environment cannot be packed; the text says what to do."""


class Packed(NamedTuple):
    """An archive that was written."""

    archive: Path
    packages: dict[str, str]
    """The version of each package in it."""
    files: int
    size: int

    @property
    def made_for(self) -> str:
        """The Python and the platform that can use it."""
        return made_for()


def made_for() -> str:
    """Return the Python version and the platform of this process."""
    version = ".".join(map(str, sys.version_info[:2]))
    return f"Python {version} on {platform.system()} {platform.machine()}"


def pack(archive: Path, more: Iterable[str] = (), *, only: Iterable[str] = NEEDED) -> Packed:
    """Write the packages ``only`` and ``more``, and all that they require, as a tar.gz.

    Unpacked, it is a folder for ``PYTHONPATH``.
    """
    if not archive.name.endswith(ENDINGS):
        raise PackingFailed(
            f"{str(archive)!r} does not end with {' or '.join(ENDINGS)}: Spark unpacks an archive "
            "as the end of its name says"
        )
    if not archive.parent.is_dir():
        raise PackingFailed(f"the folder {str(archive.parent)!r} does not exist: create it")
    found = _closure([*only, *more])
    jetspark = found.get("jetspark")
    if jetspark is not None and not _has(jetspark, "jetspark/__init__.py"):
        raise PackingFailed(
            "jetspark is installed in editable mode, so its files are not part of the "
            "environment: install the wheel (pip install jetspark), then pack again"
        )
    written = 0
    partial = archive.with_name(f"{archive.name}.partial")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=LEVEL) as tar:
            for distribution in found.values():
                written += _add(tar, distribution)
            _add_marker(tar, found)
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)
    versions = {name: found[name].version for name in sorted(found)}
    return Packed(archive, versions, written, archive.stat().st_size)


def _closure(names: Iterable[str]) -> dict[str, Distribution]:
    """Return the named packages and all they require, by normalized name."""
    found: dict[str, Distribution] = {}
    waiting = [(name, "") for name in names]
    while waiting:
        name, of = waiting.pop()
        key = _normalized(name)
        if key in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except PackageNotFoundError:
            required = f", which {of} requires," if of else ""
            raise PackingFailed(
                f"package {name!r}{required} is not installed here: pip install {name}"
            ) from None
        found[key] = distribution
        waiting += [(one, name) for one in _required(distribution)]
    return found


def _required(distribution: Distribution) -> list[str]:
    """Return the packages that a package requires here.

    A requirement with a condition applies if it is installed: pip has judged the condition.
    """
    names: list[str] = []
    for text in distribution.requires or []:
        requirement, _, condition = text.partition(";")
        match = _NAME.match(requirement)
        if match is None or "extra" in condition:
            continue
        if condition and not _is_installed(match[0]):
            continue
        names.append(match[0])
    return names


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _has(distribution: Distribution, path: str) -> bool:
    return any(str(file) == path for file in distribution.files or [])


def _add(tar: tarfile.TarFile, distribution: Distribution) -> int:
    if distribution.files is None:
        raise PackingFailed(
            f"{distribution.name} has no list of its files, so it was not installed by pip: "
            "install it with pip"
        )
    count = 0
    for file in sorted(distribution.files):
        # Scripts are outside of the folder of packages, and compiled caches are made again.
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        place = Path(str(file.locate()))
        if place.is_file():
            tar.add(place, arcname=str(file))
            count += 1
    return count


def _add_marker(tar: tarfile.TarFile, found: dict[str, Distribution]) -> None:
    lines = [made_for(), *(f"{name}=={found[name].version}" for name in sorted(found))]
    content = "".join(f"{line}\n" for line in lines).encode()
    entry = tarfile.TarInfo(MARKER)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
