"""Print a short hash of the given files, so that `make env` can tell whether it is up to date.

Usage: python tools/stamp.py FILE_OR_FOLDER [...]
A folder means every file below it that is not generated. A file that does not exist counts as
empty.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def files_of(name: str) -> list[Path]:
    """The files of one argument, in a fixed order."""
    path = Path(name)
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file() and not generated(each))
    return [path]


def generated(path: Path) -> bool:
    """Whether Python or setuptools generated it."""
    return any(part == "__pycache__" or part.endswith(".egg-info") for part in path.parts)


def main() -> None:
    """Hash names and contents."""
    digest = hashlib.sha256(sys.version.encode())
    for name in sys.argv[1:]:
        for path in files_of(name):
            digest.update(str(path).encode() + b"\0")
            digest.update(path.read_bytes() if path.exists() else b"")
            digest.update(b"\0")
    sys.stdout.write(digest.hexdigest()[:16])


if __name__ == "__main__":
    main()
