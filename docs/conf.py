"""The documentation site, which `make docs` builds from the Markdown of this repository.

The pages are plain Markdown that a code host shows as well, so they contain no directives. The
source folder is the root of the repository, because pages link to files outside `docs`. Navigation
comes from the lists of the index pages: a heading is a caption, each link below it an entry.
"""

import re
from pathlib import Path
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parent.parent
INDEX = "docs/README"
LISTS = ("docs/reference/README",)
# Reached by their list and by the search: the sidebar of every page would have eighty more lines.
UNLISTED = "docs/errors/"
# Classes and commands are enough for the contents of these: with methods the build takes a third
# longer.
DEEP = "docs/reference/"

project = "jetspark"
author = "the jetspark authors"
root_doc = INDEX
extensions = ["myst_parser"]
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**.md",
    "examples/README.md",
]
# Folders that are not worth walking: the pages are in none of them.
exclude_patterns = [".*", "bench", "build", "demo*", "dist", "fuzz", "src", "tests", "tools"]
# The anchors of a code host; a link to a heading that does not exist is a warning, so an error.
myst_heading_anchors = 4
myst_enable_extensions = ["tasklist"]

html_theme = "furo"
html_title = "jetspark"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_last_updated_fmt = None
# No page loads anything from elsewhere: fonts are those of the reader's system.
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5fa5", "color-brand-content": "#0b5fa5"},
    "dark_css_variables": {"color-brand-primary": "#6cb6ff", "color-brand-content": "#6cb6ff"},
}

LINK = re.compile(r"\]\(([^)#\s]+\.md)")


def entries(page: str, text: str) -> list[str]:
    """The pages that a list of an index page links to, in its order."""
    folder = (ROOT / page).parent
    found = [(folder / link).resolve().relative_to(ROOT) for link in LINK.findall(text)]
    return [str(path.with_suffix("")) for path in dict.fromkeys(found)]


def tree(pages: list[str], caption: str = "") -> str:
    """A hidden table of contents in the syntax of MyST."""
    lines = ["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join([*lines, *(f"/{page}" for page in pages), "```", ""])


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append to an index page what the sidebar shows."""
    if page.startswith(UNLISTED) and page != f"{UNLISTED}README":
        source[0] = f"---\norphan: true\n---\n{source[0]}"
    elif page.startswith(DEEP) and page not in LISTS:
        source[0] = f"---\ntocdepth: 2\n---\n{source[0]}"
    if page in LISTS:
        folder = page.rpartition("/")[0]
        near = [each for each in entries(page, source[0]) if each.rpartition("/")[0] == folder]
        source[0] += tree(near)
    if page != INDEX:
        return
    taken = {INDEX}
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        caption, _, text = section.partition("\n")
        pages = [each for each in entries(page, text) if each not in taken]
        taken.update(pages)
        source[0] += tree(pages, caption)


# The headings of each page as the sidebar needs them, by page; filled once all pages are read.
titles: dict[str, Any] = {}


def collect_titles(_app: Sphinx, env: BuildEnvironment) -> None:
    """Keep the title of each page, without the headings below it."""
    for page, contents in env.tocs.items():
        if next(contents.findall(addnodes.toctree), None) is not None:
            titles[page] = contents  # other pages are below this one
            continue
        titles[page] = contents.copy()
        for item in contents.children:
            titles[page].append(item.copy())
            titles[page][-1] += item[0].deepcopy()


def use_titles(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    """Build the sidebar of a page from titles.

    Sphinx copies every heading of every page for it and then drops all but the titles, which is
    two fifths of the time of a build.
    """
    build_tree = context["toctree"]

    def toctree(**options: Any) -> Any:
        every, app.env.tocs = app.env.tocs, titles
        try:
            return build_tree(**options)
        finally:
            app.env.tocs = every

    context["toctree"] = toctree


def write_first_page(app: Sphinx, exception: Exception | None) -> None:
    """Let the address of the site's folder lead to its index."""
    if exception is None and app.builder.name == "html":
        target = f"{INDEX}.html"
        refresh = f'<meta http-equiv="refresh" content="0; url={target}">'
        text = f'<!doctype html><title>jetspark</title>{refresh}<a href="{target}">jetspark</a>\n'
        (Path(app.outdir) / "index.html").write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("env-updated", collect_titles)
    # Before furo, which asks for the tree.
    app.connect("html-page-context", use_titles, priority=400)
    app.connect("build-finished", write_first_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
