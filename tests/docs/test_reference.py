"""docs/reference is what tools/gen_reference.py writes, and nothing public is missing from it."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tools.gen_reference import FOLDER, PAGES, pages, public

MADE = pages()


def test_every_page_is_current() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}

    stale = [name for name in MADE.keys() | found.keys() if MADE.get(name) != found.get(name)]
    assert not stale, "run tools/gen_reference.py"


@pytest.mark.parametrize(
    "package", ["jetspark", "jetspark.errors", "jetspark.spark", "jetspark.testing"]
)
def test_every_public_name_is_on_one_page(package: str) -> None:
    written = Counter(
        dotted.rpartition(".")[2]
        for page in PAGES
        for dotted in page.parts
        if dotted.rpartition(".")[0] == package
    )

    assert written == dict.fromkeys(public(package), 1)


def test_every_blocking_name_is_a_twin_or_described() -> None:
    described = {dotted.rpartition(".")[2] for page in PAGES for dotted in page.parts}

    assert public("jetspark.sync") <= described


@pytest.mark.parametrize("name", sorted(MADE))
def test_everything_on_a_page_is_explained(name: str) -> None:
    """A signature alone is no reference: each has at least a sentence."""
    silent = re.findall(
        r"^##+ (\w+)\n\n```python\n[^`]*```\n\n(?=##|\Z)", MADE[name], re.MULTILINE
    )

    assert silent == []


@pytest.mark.parametrize("name", sorted(MADE))
def test_links_lead_somewhere(name: str) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", MADE[name]):
        path = Path(FOLDER, target)
        if not path.exists():
            broken.append(target)
        elif anchor:
            headings = re.findall(r"^##+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor not in {heading.lower() for heading in headings}:
                broken.append(f"{target}#{anchor}")

    assert broken == []
