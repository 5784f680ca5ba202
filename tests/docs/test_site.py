"""The documentation site: `make docs` builds it without a warning, and it works offline."""

import re
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tools.build_docs import SITE, build

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = [
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--virtual-time-budget=10000"),
]


@pytest.fixture(scope="module", autouse=True)
def site() -> Path:
    """The site, as `make docs` builds it."""
    done = build()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return SITE


class Assets(HTMLParser):
    """What a browser loads with a page, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if tag in {"script", "img", "iframe", "source"} and values.get("src"):
            self.loaded.append(str(values["src"]))
        if tag == "link" and values.get("rel") in {"stylesheet", "icon", "preload", "prefetch"}:
            self.loaded.append(str(values["href"]))


@cache
def assets(page: Path) -> Assets:
    found = Assets()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def test_every_page_of_the_documentation_is_in_the_site() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    missing = [
        page for page in pages if not (SITE / page.relative_to(ROOT)).with_suffix(".html").exists()
    ]

    assert missing == []
    assert "docs/README.html" in (SITE / "index.html").read_text()


def test_no_page_has_syntax_that_only_the_site_understands() -> None:
    """A code host shows the same Markdown."""
    only_here = re.compile(
        r"^(?:`{3,}|:{3,})\s*\{|\{(?:ref|doc|term)\}`|^\([\w-]+\)=$", re.MULTILINE
    )
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

    assert [page.name for page in pages if only_here.search(page.read_text("utf-8"))] == []


def test_no_page_loads_anything_from_elsewhere() -> None:
    pages = sorted(SITE.rglob("*.html"))
    foreign = {
        f"{page.relative_to(SITE)}: {each}"
        for page in pages
        for each in assets(page).loaded
        if re.match(r"(?:https?:)?//", each)
    }
    styles = [
        path
        for path in SITE.rglob("*.css")
        if re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", path.read_text())
    ]

    assert len(pages) > 60
    assert foreign == set()
    assert styles == []


def test_every_link_inside_the_site_leads_to_a_file() -> None:
    broken = {
        f"{page.relative_to(SITE)}: {link}"
        for page in SITE.rglob("*.html")
        for link in assets(page).links
        if not re.match(r"https?:|mailto:|#", link)
        and not (page.parent / link.partition("#")[0]).resolve().exists()
    }

    assert broken == set()


def test_the_sidebar_leads_to_every_page_of_the_index() -> None:
    sidebar = (SITE / "docs" / "README.html").read_text().partition("sidebar-tree")[2]
    sidebar = sidebar.partition("</nav>")[0] or sidebar
    for page in (
        "client/streams",
        "reference/stream",
        "spark",
        "server",
        "guarantees",
        "stability",
    ):
        assert f'href="{page}.html"' in sidebar, page


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")
def test_the_search_works_from_a_folder_without_a_server(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *CHROMIUM,
            f"--user-data-dir={tmp_path}",
            "--dump-dom",
            f"{(SITE / 'search.html').as_uri()}?q=fencing",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    results = done.stdout.partition('id="search-results"')[2].partition("<footer")[0]
    assert 'href="docs/client/key-value.html' in results
