"""Reading pages in a browser: waiting for texts, and checking that everyone can read them."""

from __future__ import annotations

import json
from functools import cache

import pytest
from playwright.sync_api import Page
from tests.support.nats_js import FOLDER


@cache
def axe() -> str:
    """The accessibility checker; `make env` installs it."""
    path = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
    if not path.exists():
        pytest.skip("axe-core is not installed: run `make env`")
    return path.read_text()


ALIKE = "tbody tr:nth-child(n+9)"
ALL = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}"
COLOURS = "{runOnly: {type: 'rule', values: ['color-contrast']}}"
LAYOUT = ALL[:-1] + ", rules: {'color-contrast': {enabled: false}}}"


def violations(page: Page, options: str = ALL) -> list[str]:
    """What axe finds wrong, by rule and element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    # The rows of a table are all alike: each costs as much as the first.
    page.evaluate(
        f"document.querySelectorAll('{ALIKE}').forEach((row) => {{ row.hidden = true; }})"
    )
    found = page.evaluate(f"axe.run({options})")
    page.evaluate(
        f"document.querySelectorAll('{ALIKE}').forEach((row) => {{ row.hidden = false; }})"
    )
    return [
        f"{each['id']}: {json.dumps([node['html'][:120] for node in each['nodes'][:3]])}"
        for each in found["violations"]
    ]


def wait_for_texts(page: Page, texts: tuple[str, ...]) -> None:
    for text in texts:
        page.wait_for_function(
            "text => document.querySelector('main').innerText.includes(text)", arg=text
        )
