"""Which addresses a server listens on: the same as nats-server with the same setting."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.support.judges import running_nats_server
from tests.support.loopback import has_ipv6

import jetspark.sync

LOOPBACKS = ("127.0.0.1", "::1")
HOSTS = {
    "default": "",
    "all of IPv4": 'host: "0.0.0.0"',
    "all of IPv6": 'net: "::"',
    "listen on all": 'listen: ":-1"',
    "IPv4": 'host: "127.0.0.1"',
    "IPv6": 'host: "::1"',
    "IPv6 with a port": 'listen: "[::1]:-1"',
    "a name": 'host: "localhost"',
}

pytestmark = pytest.mark.skipif(not has_ipv6(), reason="needs a machine with ::1")


def reached(port: int) -> dict[str, str]:
    """The loopback addresses that answer, and who we are for the server there."""
    found = {}
    for address in LOOPBACKS:
        try:
            with socket.create_connection((address, port), timeout=20) as peer:
                line = peer.makefile("rb").readline()
        except ConnectionRefusedError:
            continue
        found[address] = json.loads(line.removeprefix(b"INFO "))["client_ip"]
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_a_setting_means_the_same_addresses(tmp_path: Path, host: str) -> None:
    setting = HOSTS[host] if "listen" in HOSTS[host] else f"port: -1\n{HOSTS[host]}"
    path = tmp_path / "server.conf"
    path.write_text(setting)
    # The judge's own flags would win over the file.
    with running_nats_server(path, flags=()) as port:
        theirs = reached(port)
    with jetspark.sync.Server(config=path) as server:
        ours = reached(int(server.client_url.rpartition(":")[2]))

    assert ours == theirs


def test_clients_and_monitoring_are_served_on_both_loopbacks_by_default() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "jetspark", "serve", "-p", "-1", "-m", "-1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        log = ""
        while "Server is ready" not in log:
            log += process.stderr.readline()
        found = re.search(r"client connections on 0\.0\.0\.0:(\d+)", log)
        monitor = re.search(r"http monitor on 0\.0\.0\.0:(\d+)", log)
        assert found is not None
        assert monitor is not None
        assert reached(int(found[1])) == {"127.0.0.1": "127.0.0.1", "::1": "::1"}
        for host in ("127.0.0.1", "[::1]"):
            with urllib.request.urlopen(f"http://{host}:{monitor[1]}/healthz") as answer:
                assert answer.status == 200
    finally:
        process.kill()
        process.communicate()
