"""Every exception has a page with its cause and what to do, and the commands they name exist."""

import re

import pytest
from tools.gen_error_pages import FOLDER, load_remedies, pages, public

import jetspark

MADE = pages()


def test_every_page_is_current() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}

    stale = [name for name in MADE.keys() | found.keys() if MADE.get(name) != found.get(name)]
    assert not stale, "run tools/gen_error_pages.py"


def test_every_remedy_is_a_sentence_of_its_own() -> None:
    remedies = load_remedies()
    texts = [text for each in remedies.values() for text in each.values()]

    assert all(each.keys() == {"cause", "action"} for each in remedies.values())
    assert [text for text in texts if not re.match(r"[A-Z`].*[.]$", text)] == []


def exceptions_named() -> set[str]:
    return {
        name
        for each in load_remedies().values()
        for text in each.values()
        for name in re.findall(r"`([A-Z]\w+)`", text)
    }


def test_every_name_that_a_remedy_mentions_exists() -> None:
    assert {name for name in exceptions_named() if not hasattr(jetspark, name)} <= set(public())


@pytest.mark.parametrize("name", sorted(public()))
def test_a_page_is_reached_from_the_list(name: str) -> None:
    assert f"[{name}]({name}.md)" in MADE["README.md"]
