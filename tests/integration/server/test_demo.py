"""The part of `make demo` that kills its server; Spark's part has tests of its own."""

from __future__ import annotations

from pathlib import Path

from demo import crash
from demo.report import Steps, bars
from demo.server import ServerProcess
from rich.console import Console

from jetspark.client.client import connect


async def test_a_killed_server_lost_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    steps = Steps()
    acknowledged: dict[int, int] = {}
    with bars(Console(quiet=True)) as progress:
        async with ServerProcess(tmp_path) as server:
            await crash.write_until_killed(server, acknowledged, steps, progress, 2000)

        async with ServerProcess(tmp_path) as server, await connect(server.url) as client:
            stream = await client.jetstream().stream(crash.STREAM)
            kept = await crash.read(stream, steps, progress, "after the crash")
            await crash.write_rest(client.jetstream(), acknowledged, steps, progress, 2000)
            whole = await crash.read(stream, steps, progress, "everything")

    assert len(acknowledged) >= 1000
    assert all(kept[seq] == crash.payload_of(n) for n, seq in acknowledged.items())
    assert sorted(whole.values()) == sorted(crash.payload_of(n) for n in range(2000))
