"""Write requirements/*.txt, the exact versions and hashes that `make env` installs: make lock.

Every file has the hashes of all files of a release, for every Python and platform that the project
supports, so one set of files serves all of them. Versions in a file are kept while pyproject.toml
allows them; --upgrade selects the newest (make lock ARGS=--upgrade).

Runs `uv` of this Python's environment (the Makefile installs it into a separate one): `make env`
needs only pip.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("requirements")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# The extras that `jetspark serve` needs.
SERVER_EXTRAS = ("server", "cli", "websocket")
LOWEST_PYTHON = PROJECT["project"]["requires-python"].removeprefix(">=")
# A file must not contain anything of the machine that writes it: no index, no path.
UV = [str(Path(sys.executable).with_name("uv")), "pip"]
COMPILE = [
    *(*UV, "compile", "--quiet", "--universal", "--generate-hashes"),
    *("--python-version", LOWEST_PYTHON, "--annotation-style", "line"),
    *("--custom-compile-command", "make lock"),
]


def lock(name: str, *arguments: str, requirements: list[str] | None = None) -> None:
    """Write one file; its requirements are those of the arguments, or the given ones."""
    output = FOLDER / f"{name}.txt"
    subprocess.run(
        [*COMPILE, *arguments, *sys.argv[1:], "--output-file", str(output)],
        cwd=ROOT,
        input=None if requirements is None else "\n".join(requirements),
        text=True,
        check=True,
    )
    pins = sum("==" in line for line in (ROOT / output).read_text().splitlines())
    print(f"{output}: {pins} packages")


def verify() -> None:
    """Resolve the first file for every supported Python and machine, without installing it."""
    for marker in PROJECT["tool"]["uv"]["required-environments"]:
        machine, python = re.findall(
            r"machine == '(\w+)' and python_version == '([\d.]+)'", marker
        )[0]
        target = ["--python-version", python, "--python-platform", f"{machine}-manylinux_2_28"]
        nowhere = ["--python", sys.executable, "--target", "build/nowhere", "--dry-run"]
        locked = ["--no-deps", "--require-hashes", "--requirements", str(FOLDER / "env.txt")]
        subprocess.run(
            [*UV, "install", "--quiet", *nowhere, *target, *locked], cwd=ROOT, check=True
        )
        print(f"every package has a file for Python {python} on {machine}")


def main() -> None:
    """Write all files: the first has everything, and the others use its versions."""
    lock("env", "pyproject.toml", "--all-extras")
    same = ("--constraints", str(FOLDER / "env.txt"))
    extras = [f"--extra={name}" for name in SERVER_EXTRAS]
    lock("serve", "pyproject.toml", *extras, *same)
    tools = PROJECT["dependency-groups"]["build"]
    lock("build", "-", *same, requirements=[*PROJECT["build-system"]["requires"], *tools])
    verify()


if __name__ == "__main__":
    main()
