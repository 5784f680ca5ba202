"""`jetspark serve` as people and tools start it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.campaigns.kills import Kills
from tests.campaigns.served import Served


async def test_acknowledged_messages_survive_sigkill(tmp_path: Path) -> None:
    """reliability.md 2, PubAck: an acknowledgement means on disk; SIGKILL at any time is safe."""
    campaign = Kills(tmp_path / "store", seed=1)
    for _ in range(4):
        await campaign.live()

    assert len(campaign.acked) >= 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(serve: Callable[..., Served], number: int) -> None:
    served = serve()

    assert served.stop(number) == 0
    assert "Server Exiting" in served.lines[-1]


def test_its_log_reads_like_the_one_of_nats_server(serve: Callable[..., Served]) -> None:
    """wire-facts.md 17: tools that start a server read its stderr."""
    served = serve()

    pattern = r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] .*\n"
    assert all(re.fullmatch(pattern, line) for line in served.lines), served.lines


def test_a_port_in_use_is_a_fatal_line_and_exit_code_1(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    first = serve()
    port = first.url.rpartition(":")[2]

    second = serve("-p", port, "-sd", str(tmp_path / "other"))

    assert second.wait() == 1
    assert any("[FTL]" in line for line in second.lines)
