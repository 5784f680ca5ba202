"""The part of `jetspark demo` that kills its server; Spark's part has tests of its own."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from jetspark.cli import demo
from jetspark.cli.demo_server import ServerProcess
from jetspark.client.client import connect


async def test_a_killed_server_lost_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    ledger = demo.Ledger()
    acknowledged: dict[int, int] = {}
    with demo._progress(Console(quiet=True)) as progress:
        async with ServerProcess(tmp_path) as server:
            await demo._write_until_killed(server, acknowledged, ledger, progress, 2000)

        async with ServerProcess(tmp_path) as server, await connect(server.url) as client:
            stream = await client.jetstream().stream(demo.STREAM)
            kept = await demo._read(stream, ledger, progress, "after the crash")
            await demo._write_rest(client.jetstream(), acknowledged, ledger, progress, 2000)
            whole = await demo._read(stream, ledger, progress, "everything")

    assert len(acknowledged) >= 1000
    assert all(kept[seq] == demo._payload(n) for n, seq in acknowledged.items())
    assert sorted(whole.values()) == sorted(demo._payload(n) for n in range(2000))
