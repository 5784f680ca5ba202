"""Many logins with wrong passwords: the next good one does not wait for all of them."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import bcrypt
import pytest
from tests.support.watched import Peer, Watched

COST: Final = 10  # 40 to 100 ms of CPU each
FLOOD: Final = 60


def connect(user: str, password: str) -> bytes:
    options = {"verbose": False, "user": user, "pass": password}
    return b"CONNECT %b\r\n" % json.dumps(options).encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Watched]:
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(COST)).decode()
    started = Watched(tmp_path, f'authorization {{ user: ann, password: "{hashed}" }}\n')
    yield started
    started.end()


def cpu_s(server: Watched) -> float:
    """The CPU time of the process so far."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_of_one() -> float:
    begun = time.process_time()
    bcrypt.hashpw(b"any", bcrypt.gensalt(COST))
    return time.process_time() - begun


def flood(server: Watched) -> list[Peer]:
    peers = [Peer(server) for _ in range(FLOOD)]
    for number, peer in enumerate(peers):
        peer.send(connect(f"nobody{number}", "guess"))
    return peers


def test_a_login_does_not_wait_for_those_who_came_before(server: Watched) -> None:
    peers = flood(server)
    with contextlib.closing(Peer(server)) as good:
        assert good.ask(connect("ann", "right")) == []

        assert sum(peer.has_answer() for peer in peers) < FLOOD / 2
    for peer in peers:
        peer.close()


def test_no_password_is_checked_for_clients_that_left(server: Watched) -> None:
    before = cpu_s(server)
    for peer in flood(server):
        peer.close()
    for _ in range(2):
        with contextlib.closing(Peer(server)) as good:
            assert good.ask(connect("ann", "right")) == []

    assert cpu_s(server) - before < FLOOD / 2 * cost_of_one()
