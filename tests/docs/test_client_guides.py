"""Every example of the client's guides runs and prints what the page says."""

from pathlib import Path

import pytest
from tests.support.guide import run_page
from tests.support.servers import ServerProcess

from jetspark import sync

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "client"
# The conformance pages have no examples.
PAGES = sorted(set(GUIDES.glob("*.md")) - set(GUIDES.glob("adr-*.md")))
# What our server lacks yet these pages show on the released one.
ON_NATS_SERVER: set[str] = set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_a_guide_runs_as_it_stands(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.stem in ON_NATS_SERVER:
        released = ServerProcess("nats-server", tmp_path / "store", "-js")
        try:
            assert await run_page(page, released.url)
        finally:
            released.kill()
        return
    # The blocking one: examples that block must not stop the server.
    with sync.Server(store_dir=str(tmp_path / "store")) as server:
        count = await run_page(page, server.client_url)

    assert count or "```python" not in page.read_text(encoding="utf-8")
