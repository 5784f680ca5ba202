"""Why connections were closed, as /connz says it: nats-server's words for the same clients."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.judges import running_nats_server

import jetspark.sync

CONFIG: Final = """
authorization { user: ann, password: pw, timeout: 1 }
write_deadline: "300ms"
max_pending: 1MB
max_payload: 64KB
"""
HELLO: Final = b'CONNECT {"verbose":false,"pedantic":false,"user":"ann","pass":"pw"}\r\n'
KNOWN: Final = b'"user":"ann","pass":"pw"}\r\n'
# What a client sends, and how it ends: it closes on its own unless the server does.
CLIENTS: Final[dict[str, bytes]] = {
    "leaves": HELLO + b"PING\r\n",
    "no operation": HELLO + b"GARBAGE\r\n",
    "an error before, then leaves": HELLO + b"SUB a..b 1\r\nPING\r\n",
    "an error before, then no operation": HELLO + b"SUB a..b 1\r\nGARBAGE\r\n",
    "payload": HELLO + b"PUB a 2000000\r\n",
    "control line": HELLO + b"SUB " + b"a" * 5000 + b" 1\r\n",
    "too many words": HELLO + b"PUB a b c d e f\r\n",
    "a longer payload than was said": HELLO + b"PUB a 1\r\nxxxx\r\n",
    "protocol 7": b'CONNECT {"protocol":7,' + KNOWN,
    "no responders without headers": b'CONNECT {"no_responders":true,"headers":false,' + KNOWN,
    "half a CONNECT": b'CONNECT {"user":\r\n',
    "wrong type in CONNECT": b'CONNECT {"verbose":3}\r\n',
    "wrong password": b'CONNECT {"user":"ann","pass":"no"}\r\n',
    "PING instead of CONNECT": b"PING\r\n",
    "silence": b"",
    "reset": HELLO + b"PING\r\n",
}


def reasons(port: int, monitor: str) -> dict[str, str]:
    """Be all of the clients, and say what is written about each."""
    numbers = {name: be_client(port, name) for name in CLIENTS}
    numbers["does not read"] = be_slow(port)
    found: dict[int, str] = {}
    deadline = time.monotonic() + 20
    while not found.keys() >= set(numbers.values()):
        assert time.monotonic() < deadline, numbers
        with urllib.request.urlopen(f"{monitor}/connz?state=closed") as answer:
            listed: list[dict[str, Any]] = json.load(answer)["connections"] or []
        found = {each["cid"]: each["reason"] for each in listed}
        time.sleep(0.05)
    return {name: found[number] for name, number in numbers.items()}


def be_client(port: int, name: str) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        lines = peer.makefile("rb")
        number: int = json.loads(lines.readline()[5:])["client_id"]
        peer.sendall(CLIENTS[name])
        if CLIENTS[name].endswith(b"PING\r\n") and name != "PING instead of CONNECT":
            while lines.readline() != b"PONG\r\n":
                pass
            if name == "reset":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        else:
            while lines.readline():
                pass
        lines.close()
    return number


def be_slow(port: int) -> int:
    """Subscribe to much more than max_pending, and do not read."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(20)
    with slow:
        slow.connect(("127.0.0.1", port))
        lines = slow.makefile("rb")
        number: int = json.loads(lines.readline()[5:])["client_id"]
        slow.sendall(HELLO + b"SUB load 1\r\nPING\r\n")
        while lines.readline() != b"PONG\r\n":
            pass
        with socket.create_connection(("127.0.0.1", port), timeout=20) as busy:
            busy.sendall(HELLO)
            for _ in range(600):
                busy.sendall(b"PUB load 65000\r\n%b\r\n" % (b"." * 65000))
            busy.sendall(b"PING\r\n")
            answer = b""
            while b"PONG\r\n" not in answer:
                answer += busy.recv(65536)
        time.sleep(0.1)
        lines.close()
    return number


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("ours") / "server.conf"
    path.write_text(f"{CONFIG}\nlisten: 127.0.0.1:-1\nhttp: 127.0.0.1:-1\n")
    with jetspark.sync.Server(config=path) as server:
        return reasons(int(server.client_url.rpartition(":")[2]), server.monitor_url)


def test_reasons_are_kept_as_nats_server_does(ours: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        monitor = probe.getsockname()[1]
    path = tmp_path / "server.conf"
    path.write_text(f"{CONFIG}\nhttp: 127.0.0.1:{monitor}\n")
    with running_nats_server(path) as port:
        theirs = reasons(port, f"http://127.0.0.1:{monitor}")

    assert ours == theirs


def test_an_error_line_that_closed_nothing_is_not_the_reason(ours: dict[str, str]) -> None:
    assert ours["an error before, then leaves"] == "Client Closed"
    assert ours["reset"] == "Read Error"
