"""The conformance pages of the design documents name tests that exist, where they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*(ROOT / "docs").glob("adr-*.md"), *(ROOT / "docs/client").glob("adr-*.md")])
# How many tests a page names at least: a page that lost its tables would name none.
LEAST = {
    "docs/adr-50.md": 60,
    "docs/client/adr-8.md": 60,
    "docs/client/adr-15.md": 60,
    "docs/client/adr-31.md": 35,
    "docs/client/adr-50.md": 25,
    "docs/client/adr-53.md": 25,
}


def name_of(page: Path) -> str:
    """The page as a path in the repository."""
    return page.relative_to(ROOT).as_posix()


def names(path: Path) -> set[str]:
    """The tests that a file defines."""
    return set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))


def files(page: Path) -> set[Path]:
    """The files that a page names."""
    return {ROOT / name for name in re.findall(r"`(tests/[\w/]+\.py)", page.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_on_the_page_exists(page: Path) -> None:
    assert {path for path in files(page) if not path.is_file()} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_on_the_page_exists_in_a_file_on_the_page(page: Path) -> None:
    written = {name for path in files(page) for name in names(path)}
    named = set(re.findall(r"`(test_\w+)`", page.read_text()))

    assert len(named) >= LEAST[name_of(page)]
    assert named - written == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_row_of_a_sentence_has_its_test(page: Path) -> None:
    """A table whose second column is "proof" has one in each row."""
    bare = []
    in_proofs = False
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            in_proofs = False
        elif cells[-1] == "proof":
            in_proofs = True
        elif in_proofs and not set(line) <= set("|-: ") and "test_" not in cells[-1]:
            bare.append(line)

    assert bare == []


def test_there_are_pages() -> None:
    assert {name_of(page) for page in PAGES} == set(LEAST)
