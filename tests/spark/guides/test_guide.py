"""The examples of the Spark pages run as they stand, and print what the pages say."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.support.guide import run_page

from jetspark import sync
from jetspark.spark.connections import CONNECTIONS

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        ("spark.md", 14),
        ("tutorials/spark.md", 5),
        ("recipes/exactly-once-spark.md", 5),
        ("recipes/late-data.md", 3),
    ],
)
def test_the_page_runs(page: str, blocks: int) -> None:
    with sync.Server() as server:
        count = asyncio.run(run_page(DOCS / page, server.client_url))
        CONNECTIONS.close()

    assert count == blocks
