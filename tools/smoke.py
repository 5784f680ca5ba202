"""Install the release of dist/ in empty environments and use it there: make smoke.

For each supported Python of pyproject.toml that is found (others are reported): the wheel of
dist/, or one that is built from the sdist and left in dist/; then two environments, one with the
client alone and one with what a server needs, and `tools/smoke_program.py` in both. Requirements
are the newest that the wheel's metadata allow, as a user gets them.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.lock import ROOT, SERVER_EXTRAS

DIST = ROOT / "dist"
PROGRAM = ROOT / "tools" / "smoke_program.py"
# Environment variables that would affect the empty environments.
FOREIGN = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
ENV = {name: value for name, value in os.environ.items() if name not in FOREIGN}
# A busy machine takes ten times as long to compile as an idle one.
LONGEST_S = 3600


def supported() -> list[str]:
    """The supported versions of Python, as "3.11"."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))


def interpreter(version: str) -> Path | None:
    """A Python of that version: this one, on the PATH, or of pyenv; the newest."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(
        pyenv.glob(f"{version}.*/bin/python"),
        key=lambda path: [int(number) for number in re.findall(r"\d+", path.parts[-3])],
        reverse=True,
    )
    on_path = shutil.which(f"python{version}")
    candidates = [Path(sys.executable), *([Path(on_path)] if on_path else []), *installed]
    # By its answer, not by its name: a shim of pyenv may have no Python to call.
    asked = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for path in candidates:
        done = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    return None


def run(*command: str | Path, folder: Path, **extra: str) -> str:
    """Run a command in a folder; return its output. If it fails, print everything and exit."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=ENV | extra,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}exit code {done.returncode}")
    return done.stdout


def environment(python: Path, folder: Path, *arguments: str) -> Path:
    """An empty environment with packages installed by pip; return its folder of programs."""
    run(python, "-m", "venv", folder, folder=folder.parent)
    programs = folder / "bin"
    pip = (programs / "python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", *arguments, folder=folder)
    run(*pip, "check", folder=folder)
    return programs


def wheel_for(python: Path, version: str, sdist: Path, scratch: Path) -> tuple[Path, float]:
    """The compiled wheel for a Python, and its build time in seconds; 0 if it was in dist/."""
    tag = f"cp{version.replace('.', '')}"
    begun = time.monotonic()
    found = list(DIST.glob(f"jetspark-*-{tag}-{tag}-*.whl"))
    if found:
        return found[0], 0.0
    locked = ("--require-hashes", "--no-deps", "-r", str(ROOT / "requirements" / "build.txt"))
    programs = environment(python, scratch / "build", *locked)
    run(
        *(programs / "python", "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"),
        *("--wheel-dir", DIST, sdist),
        folder=scratch,
        JETSPARK_BUILD="compiled",
    )
    (built,) = DIST.glob(f"jetspark-*-{tag}-{tag}-*.whl")
    return built, time.monotonic() - begun


@contextmanager
def serving(programs: Path, store: Path) -> Iterator[str]:
    """A `jetspark serve` that is ready, as a URL; it must exit with code 0 when terminated."""
    flags = ["-js", "-sd", str(store), "-a", "127.0.0.1", "-p", "-1", "-m", "-1"]
    process = subprocess.Popen(
        [str(programs / "jetspark"), "serve", *flags],
        cwd=store.parent,
        env=ENV,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if "Server is ready" in line:
                break
        found = re.search(r"Listening for client connections on (\S+)", "".join(lines))
        if found is None:
            sys.exit(f"jetspark serve did not start:\n{''.join(lines)}")
        yield f"nats://{found[1]}"
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        if process.returncode:
            sys.exit(f"jetspark serve ended with {process.returncode}:\n{''.join(lines)}{rest}")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def smoke(version: str, python: Path, sdist: Path) -> str:
    """Build, install and use one wheel; return a summary."""
    release = sdist.name.removeprefix("jetspark-").removesuffix(".tar.gz")
    with TemporaryDirectory(prefix="jetspark-smoke-") as name:
        scratch = Path(name)
        wheel, build_s = wheel_for(python, version, sdist, scratch)
        begun = time.monotonic()
        client = environment(python, scratch / "client", str(wheel))
        server = environment(python, scratch / "server", f"{wheel}[{','.join(SERVER_EXTRAS)}]")
        for programs in (client, server):
            run(programs / "python", "-I", PROGRAM, release, folder=scratch)
        said = run(server / "jetspark", "--version", folder=scratch).strip()
        if release not in said or "compiled" not in said:
            sys.exit(f"jetspark --version: expected {release}, compiled; got {said!r}")
        with serving(server, scratch / "store") as url:
            run(client / "python", "-I", PROGRAM, release, url, folder=scratch)
        packages = [
            len(run(each / "python", "-m", "pip", "freeze", folder=scratch).split("\n")) - 1
            for each in (client, server)
        ]
        return (
            f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, built in {build_s:.0f} s; "
            f"{packages[0]} packages for the client, {packages[1]} for a server; "
            f"installed and used in {time.monotonic() - begun:.0f} s"
        )


def main() -> None:
    """Test every supported Python; fail if one that was found fails, or if none was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", choices=supported(), action="append", help="only this version")
    versions = parser.parse_args().python or supported()
    sdists = list(DIST.glob("jetspark-*.tar.gz"))
    if len(sdists) != 1:
        sys.exit(f"expected one sdist in dist/, found {len(sdists)}: run `make wheel` first")
    print(f"{sdists[0].name}: {sdists[0].stat().st_size / 1e6:.1f} MB", flush=True)
    found = 0
    for version in versions:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not found on this machine, not tested", flush=True)
            continue
        print(f"Python {version}: {smoke(version, python, sdists[0])}", flush=True)
        found += 1
    if not found:
        sys.exit("no supported Python was found: nothing was tested")
    print(f"smoke: {found} of {len(versions)} supported Pythons passed")


if __name__ == "__main__":
    main()
