"""A reader of the documentation is never sent to something that is not there."""

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from jetspark.cli.main import main
from jetspark.server.config.command_line import Exit, from_command_line

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
GENERATED = (DOCS / "reference", DOCS / "errors")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", flags=re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def code_of(page: Path) -> list[str]:
    return CODE.findall(text_of(page))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    prose = CODE.sub("", text_of(page))
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        there = (page.parent / target).resolve() if target else page
        if not there.is_file() or (anchor and anchor not in anchors(there)):
            broken.append(link)

    assert broken == []


def test_the_index_leads_to_every_page() -> None:
    index = text_of(DOCS / "README.md")
    linked = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", index)}
    pages = {page for page in DOCS.rglob("*.md") if page.parent not in GENERATED}

    assert pages - {DOCS / "README.md"} - linked == set()
    assert {folder / "README.md" for folder in GENERATED} <= linked
    assert "docs/README.md" in text_of(ROOT / "README.md")


def resolves(dotted: str, *, called: bool) -> bool:
    """Say whether a name such as ``jetspark.TlsFiles`` can be imported, and called."""
    words = dotted.split(".")
    found = importlib.import_module(words[0])
    for end, word in enumerate(words[1:], start=2):
        if not hasattr(found, word):
            try:
                importlib.import_module(".".join(words[:end]))
            except ImportError:
                return False
        found = getattr(found, word)
    return callable(found) or not called


def test_every_dotted_name_can_be_imported() -> None:
    # Not Python: a setting of the configuration, metadata keys, files, Spark's settings.
    others = re.compile(
        r"jetspark\.(?:limits|remotes|replica|version|warnings|durability|yml|ledger|made_by|pid)\b"
    )
    wrong = set()
    for page in PAGES:
        for code in code_of(page):
            for dotted, bracket in re.findall(
                r"(?<![\w./$-])(jetspark(?:\.[A-Za-z]\w*)+)(\(?)", code
            ):
                if not others.match(dotted) and not resolves(dotted, called=bool(bracket)):
                    wrong.add(f"{page.name}: {dotted}{bracket}")

    assert wrong == set()


def commands() -> list[str]:
    """What pages tell people to type."""
    found = set()
    for page in [page for page in PAGES if page.parent not in GENERATED]:
        for code in code_of(page):
            lines = code.strip("`").replace("\\\n", " ").splitlines()
            for line in lines:
                for part in re.split(r"&&|\||;", line):
                    words = re.sub(r"(?:^|\s)#.*", "", part).strip().removeprefix("$ ")
                    if words.startswith("jetspark ") and not re.search(
                        r"jetspark \{|[<>…│]", words
                    ):
                        found.add(words.strip())
    return sorted(found)


@pytest.mark.parametrize("command", commands())
def test_every_command_exists_with_its_options(command: str) -> None:
    words = shlex.split(command)[1:]
    if words[0] == "serve":
        told = from_command_line([word for word in words[1:] if word != "-t"], {})
        # A file that is only an example may be missing; a flag may not.
        assert not isinstance(told, Exit) or "cannot read" in told.error or "pid" in told.error
        return
    known: click.Command = main
    while words and isinstance(known, click.Group):
        context = click.Context(known)
        found = known.get_command(context, words[0])
        if found is None:
            break
        known, words = found, words[1:]
    if "--" in words:  # the rest is another command
        words = words[: words.index("--")]
    options = {
        name for option in known.params for name in (*option.opts, *option.secondary_opts)
    } | {
        "--help",
        "-h",
        "--version",
    }
    wrong = [
        word for word in words if word.startswith("--") and word.partition("=")[0] not in options
    ]

    assert known is not main or words in (["--version"], ["--help"]), command
    assert wrong == []
