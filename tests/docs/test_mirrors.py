"""docs/mirrors.md: its examples run as they stand, and every test that it names exists."""

import re
from pathlib import Path

from tests.support.guide import run_page

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "mirrors.md"


async def test_the_examples_of_the_page_run() -> None:
    assert await run_page(PAGE, "nats://127.0.0.1:4222") == 2


def test_every_test_that_a_promise_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text())
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]

    assert len(named) > 15
    assert missing == []
