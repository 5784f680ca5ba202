"""Every example of the client's guides runs and prints what the page says, on both servers."""

from pathlib import Path

import pytest
from tests.support.guide import run_page

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "client"
# The conformance pages have no examples.
PAGES = sorted(set(GUIDES.glob("*.md")) - set(GUIDES.glob("adr-*.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_a_guide_runs_as_it_stands(
    page: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    count = await run_page(page, url)

    assert count or "```python" not in page.read_text(encoding="utf-8")
