"""nats.js while servers come and go, and when it cannot keep up; on uvloop, as `serve` is."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.interop.clients.nats_py_client import connected
from tests.support.certificates import Certificates
from tests.support.loopback import Servers
from tests.support.nats_js import Script, started
from tests.support.served import Served

import jetspark

Configure = Callable[[str], Path]
Results = dict[str, Any]
CHUNK = b"x" * 64 * 1024
# More than the kernel and Node hold for one connection, many times over.
CHUNKS_MAX = 4096


class Heard(logging.Handler):
    """What the server logs."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f"{record.getMessage()}\n"


async def flood_until_cut(script: Script, url: str, **options: Any) -> None:
    """Let the script stall, publish until the server gives up on it, and let it continue."""
    heard = Heard()
    logging.getLogger("jetspark.server").addHandler(heard)
    try:
        async with connected(url, **options) as publisher:
            await script.waits_for("flood")
            await publisher.publish("flood", b"first")
            await script.waits_for("cut")
            for _ in range(CHUNKS_MAX):
                await publisher.publish("flood", CHUNK)
                await publisher.flush()
                if "Slow Consumer Detected" in heard.text:
                    script.release()
                    return
    finally:
        logging.getLogger("jetspark.server").removeHandler(heard)
    pytest.fail("the server keeps everything for a client that does not read")


async def run_life(configure: Configure, certificates: Certificates) -> Results:
    restarted = jetspark.Server(jetstream=False)
    stopped = jetspark.Server(jetstream=False)
    async with Servers() as servers:
        # Entered, so that a script that fails leaves no server: its tasks would be waited
        # for without end. Closing what is closed is harmless.
        await servers.enter_async_context(restarted)
        await servers.enter_async_context(stopped)
        port = restarted.port
        slow = await servers.url(config=configure("max_pending: 1MB"))
        block = f"max_pending: 1MB\n{certificates.tls_block()}"
        slow_tls = await servers.url(config=configure(block))
        given = {
            "restarted": restarted.client_url,
            "stopped": stopped.client_url,
            "slow": slow,
            "slowTls": slow_tls,
            "ca": str(certificates.ca),
        }
        script = await servers.enter_async_context(started("life.mjs", given))
        await script.waits_for("restart")
        await restarted.close()
        await servers.enter_async_context(jetspark.Server(port=port, jetstream=False))
        await script.waits_for("stop")
        await stopped.close()
        await flood_until_cut(script, slow)
        await flood_until_cut(script, slow_tls, tls=certificates.context())
        return await script.results()


@pytest.fixture(scope="module")
def life(configure: Configure, certificates: Certificates) -> Results:
    results: Results = uvloop.run(run_life(configure, certificates))
    return results


def test_subscriptions_work_again_after_a_restart_and_kept_messages_arrive(life: Results) -> None:
    assert life["reconnect"] == {"before": ["kept=before"], "kept": True, "answer": "still here"}


def test_a_server_that_stops_closes_cleanly(life: Results) -> None:
    assert life["stop"] == {"closed": True, "error": None}


@pytest.mark.parametrize("check", ["slow", "slowTls"])
def test_a_client_that_stalls_is_disconnected_and_reconnects(life: Results, check: str) -> None:
    assert life[check] == "back"


async def test_a_lame_duck_tells_its_clients(tmp_path: Path) -> None:
    """SIGUSR2; clients get INFO with `ldm`, and messages while they stay."""
    served = Served(tmp_path / "store")
    try:
        async with started("lame_duck.mjs", {"url": served.url}) as script:
            await script.waits_for("signal")
            served.process.send_signal(signal.SIGUSR2)
            results = await script.results()
    finally:
        await asyncio.to_thread(served.end)

    assert results["lameDuck"] == {
        "server": served.url.removeprefix("nats://"),
        "ldm": True,
        "answer": "still here",
        "refused": "connection refused",
    }
