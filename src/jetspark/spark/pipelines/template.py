"""Writes a new project: the files in ``template/``, with its name and storage filled in."""

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from jetspark.spark.pipelines.project import SPEC_NAMES, PipelineRefused

# The name is used as a folder, in YAML and in Spark's tables of runs.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

# Hidden files are easily left out of packages; this one gets its dot when it is written.
_HIDDEN: Final = {"gitignore": ".gitignore"}


def write_project(name: str, parent: Path) -> Path:
    """Write a project ``name`` to ``parent`` and return its folder; never overwrites."""
    if not _NAME.fullmatch(name):
        raise PipelineRefused(
            f"{name!r} is not a valid project name: expected up to 64 letters, digits, - and _, "
            "starting with a letter"
        )
    root = parent.resolve() / name
    if root.exists():
        raise PipelineRefused(f"{root} already exists: choose another name")
    try:
        write_files(__package__, "template", root, name)
    except OSError as error:
        raise PipelineRefused(f"{root} cannot be written: {error.strerror}") from error
    return root


def write_files(package: str, folder: str, root: Path, name: str) -> Path:
    """Write the project in ``folder`` of ``package`` to ``root``; return its spec."""
    root.mkdir(parents=True)
    filled = {"{{ name }}": name, "{{ storage }}": (root.resolve() / "storage").as_uri()}
    for place, content in _template_files(files(package) / folder, Path()):
        for mark, value in filled.items():
            content = content.replace(mark, value)  # noqa: PLW2901
        path = root / place.parent / _HIDDEN.get(place.name, place.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root.resolve() / SPEC_NAMES[0]


def _template_files(folder: Traversable, place: Path) -> Iterator[tuple[Path, str]]:
    for entry in folder.iterdir():
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _template_files(entry, place / entry.name)
        else:
            yield place / entry.name, entry.read_text(encoding="utf-8")
