"""The examples of docs/spark.md run as they stand, and print what the page says."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.support.guide import run_page

from jetspark import sync
from jetspark.spark.connections import CONNECTIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark.md"


@pytest.mark.usefixtures("spark")
def test_the_page_runs() -> None:
    with sync.Server() as server:
        count = asyncio.run(run_page(PAGE, server.client_url))
        CONNECTIONS.close()

    assert count == 8
