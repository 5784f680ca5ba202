"""setup.py: every module compiled or none, also in an empty environment."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import setuptools

SETUP = Path(__file__).resolve().parents[2] / "setup.py"


class Built:
    """A run of setup.py with a compiler that follows a script."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: str, *, mistake: bool) -> None:
        self.words: list[str] = []
        self.modules: list[object] = []
        self._mistake = mistake
        monkeypatch.setenv("JETSPARK_BUILD", mode)
        monkeypatch.setattr(sys, "argv", ["setup.py", "bdist_wheel"])
        monkeypatch.setattr(setuptools, "setup", self._setup)
        compiler = SimpleNamespace(mypycify=self._compile)
        monkeypatch.setitem(sys.modules, "mypyc.build", compiler)
        runpy.run_path(str(SETUP))

    def _compile(self, words: list[str], **_: object) -> list[object]:
        self.words = words
        if self._mistake:
            sys.exit("Typechecking failure")
        return ["module"]

    def _setup(self, *, ext_modules: list[object], **_: object) -> None:
        self.modules = ext_modules


def test_only_the_compiled_modules_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others import what is not there while pip builds."""
    built = Built(monkeypatch, "compiled", mistake=False)

    assert built.words[0] == "--follow-imports=silent"
    assert built.modules == ["module"]


def test_auto_continues_with_the_interpreted_modules_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built = Built(monkeypatch, "auto", mistake=True)

    assert built.modules == []
    assert "the interpreted ones will be used" in capsys.readouterr().out


def test_compiled_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="Typechecking failure"):
        Built(monkeypatch, "compiled", mistake=True)


def test_interpreted_does_not_try(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Built(monkeypatch, "interpreted", mistake=True).modules == []
