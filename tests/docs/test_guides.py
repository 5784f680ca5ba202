"""Start, tutorials, guides, recipes and operations: examples and commands run as they stand.

On our server and on nats-server: what a page shows works with any NATS deployment.
"""

from pathlib import Path

import pytest
from tests.support.guide import run_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# tests/spark/guides/test_guide.py runs these: they need a session.
OF_SPARK = {"tutorials/spark.md", "recipes/exactly-once-spark.md", "recipes/late-data.md"}
PAGES = sorted(
    page
    for page in [
        DOCS / "start.md",
        DOCS / "concepts.md",
        *(
            page
            for folder in ("tutorials", "guides", "recipes", "operations")
            for page in (DOCS / folder).glob("*.md")
        ),
    ]
    if str(page.relative_to(DOCS)) not in OF_SPARK
    and ("```python" in page.read_text("utf-8") or "```console" in page.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
async def test_a_page_runs_as_it_stands(
    page: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "here").mkdir()
    # Scripts of the repository are named as in a clone.
    (folder / "deploy").symlink_to(ROOT / "deploy")
    monkeypatch.chdir(folder)

    assert await run_page(page, url, console=True)


def test_every_page_with_examples_is_run() -> None:
    names = {str(page.relative_to(DOCS)) for page in PAGES}

    assert len(names) > 12
    assert {"start.md", "recipes/lock.md", "operations/backup.md"} <= names
