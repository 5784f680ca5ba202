"""How many API requests there were: one number, the same in /jsz, $JS.API.INFO and nats-server."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import nats
from tests.support.judges import running_nats_server

import jetspark

CONFIG = {"name": "S", "subjects": ["s"], "allow_direct": True}
REQUESTS: list[tuple[str, Any]] = [
    ("STREAM.CREATE.S", CONFIG),
    ("STREAM.INFO.S", None),
    ("STREAM.INFO.NONE", None),
    ("STREAM.NAMES", None),
    ("STREAM.MSG.GET.S", {"seq": 1}),
    ("STREAM.MSG.GET.S", {"seq": 9}),
    ("DIRECT.GET.S", {"seq": 1}),
    ("STREAM.MSG.DELETE.S", {"seq": 9}),
    ("STREAM.PURGE.S", None),
    ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"durable_name": "c"}}),
    ("STREAM.DELETE.S", None),
]

Counts = dict[str, int]


def of_monitoring(monitor: str) -> Counts:
    with urllib.request.urlopen(f"{monitor}/jsz", timeout=20) as answer:
        found: Counts = json.load(answer)["api"]
    return found


async def counts(url: str, monitor: str) -> tuple[Counts, Counts]:
    """The numbers of the API and of monitoring after the same requests."""
    client = await nats.connect(url)
    for subject, body in REQUESTS:
        payload = b"" if body is None else json.dumps(body).encode()
        await client.request(f"$JS.API.{subject}", payload, timeout=20)
        if subject == "STREAM.CREATE.S":
            await client.request("s", b"x", timeout=20)
    reply = await client.request("$JS.API.INFO", b"", timeout=20)
    by_api = json.loads(reply.data)["api"]
    monitored = await asyncio.to_thread(of_monitoring, monitor)
    await client.close()
    return (
        {name: by_api.get(name, 0) for name in ("total", "errors")},
        {name: monitored.get(name, 0) for name in ("total", "errors")},
    )


async def test_monitoring_and_the_api_count_alike(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path = tmp_path / "server.conf"
    path.write_text(f"jetstream {{ store_dir: '{tmp_path}/theirs' }}\nhttp: 127.0.0.1:{port}\n")
    with running_nats_server(path) as number:
        theirs = await counts(f"nats://127.0.0.1:{number}", f"http://127.0.0.1:{port}")
    async with jetspark.Server(http_port=-1) as server:
        ours = await counts(server.client_url, server.monitor_url)

    assert ours == theirs
