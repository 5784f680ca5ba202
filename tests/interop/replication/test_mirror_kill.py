"""A server killed while streams are copied, over real sockets: nothing skipped, nothing twice.

Also what released clients read through copies: nats-py and a bucket with a mirror.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import Any

import nats
from nats.js.api import StreamSource
from tests.support.raw_requests import RawClient, api
from tests.support.served import Served

PATIENCE_S = 20.0
KILLS = 3


def settled(client: RawClient) -> dict[str, int]:
    """How many messages each stream has, once no copy lags."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        infos = {name: api(client, f"STREAM.INFO.{name}") for name in ("A", "M", "S")}
        copies: list[dict[str, Any]] = [infos["M"]["mirror"], *infos["S"]["sources"]]
        if all(copy["lag"] == 0 and copy["active"] >= 0 for copy in copies):
            return {name: info["state"]["messages"] for name, info in infos.items()}
        time.sleep(0.02)
    raise AssertionError(f"copies lag: {infos}")


def publish_until_killed(address: str, served: Served) -> None:
    client = RawClient(address)
    timer = threading.Timer(0.4, lambda: served.process.send_signal(signal.SIGKILL))
    timer.start()
    with contextlib.suppress(OSError, AssertionError, IndexError, ValueError):
        while served.process.poll() is None:
            client.ask("a.1", b"x" * 300)
    timer.join()
    client.close()


def test_copies_of_a_killed_server_catch_up_exactly(tmp_path: Path) -> None:
    for _ in range(KILLS):
        served = Served(tmp_path / "store", "-p", "-1", "-js")
        address = served.url.removeprefix("nats://")
        client = RawClient(address)
        api(client, "STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]})
        api(client, "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "A"}})
        api(client, "STREAM.CREATE.S", {"name": "S", "sources": [{"name": "A"}]})
        client.close()
        publish_until_killed(address, served)
        served.wait()

    again = Served(tmp_path / "store", "-p", "-1", "-js")
    client = RawClient(again.url.removeprefix("nats://"))
    counts = settled(client)
    states = [api(client, f"STREAM.INFO.{name}")["state"] for name in ("A", "M")]
    client.close()
    again.end()

    assert counts["A"] > KILLS
    assert counts["M"] == counts["S"] == counts["A"]
    for key in ("first_seq", "last_seq", "first_ts", "last_ts", "num_subjects"):
        assert states[0][key] == states[1][key]


async def reads_through_copies(url: str) -> tuple[list[bytes], list[str], bytes]:
    nc = await nats.connect(url)
    js = nc.jetstream()
    await js.create_key_value(bucket="cfg", history=5)
    kv = await js.key_value("cfg")
    await kv.put("a", b"1")
    await kv.put("b", b"2")
    await js.add_stream(name="COPY", mirror=StreamSource(name="KV_cfg"), allow_direct=True)
    sub = await js.pull_subscribe("", durable="d", stream="COPY")
    read = await sub.fetch(2, timeout=5)
    last = await js.get_last_msg("COPY", "$KV.cfg.b", direct=True)
    await nc.close()
    return [m.data for m in read], [m.subject for m in read], last.data or b""


def test_nats_py_reads_through_a_mirror(tmp_path: Path) -> None:
    served = Served(tmp_path / "store", "-p", "-1", "-js")
    try:
        data, subjects, last = asyncio.run(reads_through_copies(served.url))
    finally:
        served.end()

    assert data == [b"1", b"2"]
    assert subjects == ["$KV.cfg.a", "$KV.cfg.b"]
    assert last == b"2"
