"""The Spark block of the README's tour runs as it stands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import jetspark
from jetspark import StreamConfig

README = (Path(__file__).resolve().parents[3] / "README.md").read_text()


@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(600)
async def test_the_spark_block_of_the_tour_shows_the_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = re.search(r"^```python spark\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    async with jetspark.Server() as server:
        client = await jetspark.connect(server.client_url)
        js = client.jetstream()
        await js.create_stream(
            StreamConfig(name="ORDERS", subjects=("orders.>",), allow_direct=True)
        )
        await js.publish("orders.0", b"order 0")
        await client.close()

        block = found[1].replace("nats://127.0.0.1:4222", server.client_url)
        assert server.client_url in block
        await asyncio.to_thread(exec, block, {})

    assert "|  1|orders.0|order 0|" in capsys.readouterr().out
