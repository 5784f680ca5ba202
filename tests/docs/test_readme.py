"""The README's tour runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_the_python_of_the_tour_runs(tmp_path: Path) -> None:
    script = "\n".join(blocks("python"))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "on disk as ORDERS 1",
        "on disk as ORDERS 2",
        "on disk as ORDERS 3",
        "3 b'order 2'",
        "[b'order 0', b'order 1', b'order 2']",
        "billed b'order 0'",
        "billed b'order 1'",
        "['mail.host', 'mail.port']",
    ]


def test_every_link_of_the_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_test_that_the_documentation_names_exists() -> None:
    """Every public promise names the test that proves it."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for name in re.findall(r"`(tests/[^`]+)`", page.read_text()):
            file, _, test = name.partition("::")
            assert (ROOT / file).exists(), f"{page.name} names {name}"
            assert f"def {test}(" in (ROOT / file).read_text() if test else True, name


def test_the_make_targets_that_the_readme_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:`|^|\$ )make ([a-z]+)", README, flags=re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
