"""The conformance page of ADR-50 names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/adr-50.md").read_text()
PLACES = sorted((ROOT / "tests").rglob("test_*.py"))


def test_every_test_on_the_page_exists() -> None:
    written = {
        name
        for path in PLACES
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))

    assert len(named) > 60
    assert named - written == set()


def test_every_file_on_the_page_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)", PAGE))

    assert {name for name in named if not (ROOT / name).is_file()} == set()
