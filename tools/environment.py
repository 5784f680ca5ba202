"""Create a virtual environment of this Python, unless the folder is one that can be used.

Usage: python tools/environment.py FOLDER
Of no use are an environment of another Python, into which our wheel could not be installed, and
one without pip, which `python -m venv` leaves where the system's package of it is missing.
Older Pythons run this file too, to report that they are too old: it avoids newer syntax.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def too_old(version: "tuple[int, int]") -> str:
    """Why a Python of that version cannot be used; empty if it can."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lowest = re.findall(r'^requires-python = ">=(\d+)\.(\d+)"$', text, re.MULTILINE)[0]
    if version >= (int(lowest[0]), int(lowest[1])):
        return ""
    wanted = ".".join(lowest)
    return (
        f"jetspark needs Python {wanted} or later, and {sys.executable} is Python "
        f"{version[0]}.{version[1]}: name another one, as in make env PYTHON=python{wanted}"
    )


def usable(folder: Path) -> bool:
    """Whether the folder is an environment of this Python, with pip."""
    try:
        asked = [str(folder / "bin" / "python"), "-c", "import pip, sys; print(sys.version)"]
        done = subprocess.run(
            asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.decode().strip() == sys.version.strip()


def main() -> None:
    """Create it; `python -m venv` prints what is missing, if anything."""
    folder = Path(sys.argv[1])
    refusal = too_old(sys.version_info[:2])
    if refusal:
        sys.exit(refusal)
    if not usable(folder):
        create = [sys.executable, "-m", "venv", "--clear", str(folder)]
        sys.exit(subprocess.run(create, check=False).returncode)


if __name__ == "__main__":
    main()
